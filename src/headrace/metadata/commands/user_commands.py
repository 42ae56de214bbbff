"""Who can log in with a password: set and remove verifiers. A user's part of a request counts as a whole, or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.access.authentication.credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES_MAX,
    SALT_BYTES_MIN,
    ScramMechanism,
    ScramUser,
    ScramVerifier,
    key_size,
    user_name_problem,
    verifier_from_salted,
)
from headrace.access.authentication.known_users import SECRET_HOLDER, holding_secret
from headrace.metadata.decisions.decision import Decision, Outcome
from headrace.metadata.image.records import MetadataRecord, ScramChanged
from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.metadata.image.cluster_image import ClusterImage

VERIFIERS_MAX: Final = 20_000  # some 300 bytes each, in every node's memory and in every snapshot


class Deletion(NamedTuple):
    name: str
    mechanism: int


class Upsertion(NamedTuple):
    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"Upsertion({self.name!r}, {self.mechanism})"


Change = Deletion | Upsertion


def alter_scram_credentials(
    image: ClusterImage, changes: Sequence[Change], fresh_secret: bytes
) -> Decision[list[Outcome[None]]]:
    """One outcome for each user, in the order in which the request first names them. `fresh_secret` is chance, for the
    cluster's first user: see `known_users`."""
    by_name: dict[str, list[Change]] = {}
    for change in changes:
        by_name.setdefault(change.name, []).append(change)
    records: list[MetadataRecord] = []
    outcomes: list[Outcome[None]] = []
    added = 0
    for name, own in by_name.items():
        try:
            changed = _changed(image, own)
            added += sum(it.verifier is not None and it.user not in image.access.verifiers for it in changed)
            if added and added + len(image.access.verifiers) > VERIFIERS_MAX:
                raise Refusal(ErrorCode.POLICY_VIOLATION, f"{VERIFIERS_MAX} passwords are kept, and no more are")
        except Refusal as refusal:
            outcomes.append(Outcome(name, refusal))
            continue
        records += changed
        outcomes.append(Outcome(name, None))
    if records:
        records[:0] = first_secret(image, fresh_secret)
    return Decision(tuple(records), outcomes)


def first_secret(image: ClusterImage, fresh_secret: bytes) -> list[ScramChanged]:
    """What has to stand before the records of a cluster's first user."""
    if SECRET_HOLDER in image.access.verifiers:
        return []
    return [ScramChanged(SECRET_HOLDER, holding_secret(fresh_secret))]


def first_users(verifiers: Mapping[ScramUser, ScramVerifier], fresh_secret: bytes) -> list[ScramChanged]:
    """What a cluster begins with that is founded with these users."""
    users = [ScramChanged(user, verifier) for user, verifier in sorted(verifiers.items())]
    return [ScramChanged(SECRET_HOLDER, holding_secret(fresh_secret)), *users]


def _changed(image: ClusterImage, changes: Sequence[Change]) -> list[ScramChanged]:
    """Raises Refusal with Kafka's code if one of them is wrong."""
    seen: set[int] = set()
    for change in changes:
        if change.mechanism in seen:
            raise Refusal(ErrorCode.DUPLICATE_RESOURCE, f"the request names {change.name!r} twice for a mechanism")
        seen.add(change.mechanism)
    return [_one_changed(image, change) for change in changes]


def _one_changed(image: ClusterImage, change: Change) -> ScramChanged:
    if not change.name:
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "a user has a name, and this one is empty")
    if change.mechanism not in {ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512}:
        raise Refusal(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"there is no SCRAM mechanism {change.mechanism}; 1 is SCRAM-SHA-256, and 2 is SCRAM-SHA-512",
        )
    user = ScramUser(change.name, ScramMechanism(change.mechanism))
    if isinstance(change, Upsertion):
        return ScramChanged(user, _verifier(change, user))
    if user not in image.access.verifiers:
        raise Refusal(
            ErrorCode.RESOURCE_NOT_FOUND, f"user {user.name!r} has no password for {user.mechanism.sasl_name}"
        )
    return ScramChanged(user, None)


def _verifier(change: Upsertion, user: ScramUser) -> ScramVerifier:
    problem = user_name_problem(change.name)
    if problem is None and not ITERATIONS_MIN <= change.iterations <= ITERATIONS_MAX:
        problem = f"{change.iterations} iterations; expected {ITERATIONS_MIN} to {ITERATIONS_MAX}"
    if problem is None and not SALT_BYTES_MIN <= len(change.salt) <= SALT_BYTES_MAX:
        problem = f"a salt of {len(change.salt)} bytes; expected {SALT_BYTES_MIN} to {SALT_BYTES_MAX}"
    if problem is None and len(change.salted_password) != key_size(user.mechanism):
        problem = f"a salted password of {len(change.salted_password)} bytes; expected {key_size(user.mechanism)}"
    if problem is not None:
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, problem)
    return verifier_from_salted(change.salted_password, user.mechanism, change.salt, change.iterations)


class DescribedUser(NamedTuple):
    name: str
    mechanisms: tuple[tuple[ScramMechanism, int], ...]
    """Each with its iterations; none if there is no such user."""


def describe_users(
    verifiers: Mapping[ScramUser, ScramVerifier], names: Sequence[str] | None
) -> Iterator[DescribedUser]:
    """Of these names, or of all users: what may be shown of their passwords."""
    if names is None:
        names = list(dict.fromkeys(user.name for user in sorted(verifiers) if user != SECRET_HOLDER))
    for name in names:
        kept = [ScramUser(name, it) for it in ScramMechanism if it is not ScramMechanism.UNKNOWN and name]
        yield DescribedUser(name, tuple((it.mechanism, verifiers[it].iterations) for it in kept if it in verifiers))
