"""AlterUserScramCredentials as the controller decides it, and what is shown of users."""

from __future__ import annotations

import pytest

from headrace.access.authentication.credentials import ScramMechanism, ScramUser, verifier_for
from headrace.access.authentication.known_users import SECRET_HOLDER
from headrace.metadata.commands import user_commands
from headrace.metadata.commands.user_commands import (
    Change,
    Deletion,
    DescribedUser,
    Upsertion,
    alter_scram_credentials,
    describe_users,
)
from headrace.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage
from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.sasl.scram_keys import salted_password

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT = b"salt of alice"


def upsertion(name: str = "alice", mechanism: int = 1, password: str = "wonder", **changes: object) -> Upsertion:
    salted = salted_password("sha256" if mechanism == 1 else "sha512", password, SALT, 4096)
    return Upsertion(name, mechanism, 4096, SALT, salted)._replace(**changes)


def after(image: ClusterImage, *changes: Change) -> tuple[ClusterImage, dict[str, ErrorCode]]:
    decision = alter_scram_credentials(image, changes, b"chance" * 10)
    codes = {
        outcome.name: outcome.result.code if isinstance(outcome.result, Refusal) else ErrorCode.NONE
        for outcome in decision.response
    }
    return image.apply_all(decision.records), codes


WITH_ALICE, _ = after(EMPTY_IMAGE, upsertion(), upsertion(mechanism=2))


def test_a_verifier_is_kept_and_the_salted_password_is_not() -> None:
    verifier = WITH_ALICE.access.verifiers[ScramUser("alice", SHA_256)]
    assert verifier == verifier_for("wonder", SHA_256, SALT, 4096)
    assert upsertion().salted_password not in {verifier.salt, verifier.stored_key, verifier.server_key}


def test_the_first_user_brings_a_secret_for_salts_of_unknown_ones_and_later_ones_do_not_change_it() -> None:
    secret = WITH_ALICE.access.verifiers[SECRET_HOLDER]
    assert secret.salt == b"chance" * 10
    later = alter_scram_credentials(WITH_ALICE, [upsertion("bob")], b"other chance")
    assert WITH_ALICE.apply_all(later.records).access.verifiers[SECRET_HOLDER] == secret


def test_a_user_can_be_removed_for_one_mechanism() -> None:
    image, codes = after(WITH_ALICE, Deletion("alice", 1))
    assert codes == {"alice": ErrorCode.NONE}
    assert list(describe_users(image.access.verifiers, None)) == [DescribedUser("alice", ((SHA_512, 4096),))]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (Deletion("bob", 1), ErrorCode.RESOURCE_NOT_FOUND),
        (Deletion("alice", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (Deletion("alice", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (Deletion("", 1), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (Deletion("", 2), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("x" * 256), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("a\0b"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=-1), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salt=b"short"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salt=b"x" * 129), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salted_password=b"x" * 31), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=2, salted_password=b"x" * 32), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_what_is_refused_changes_nothing(change: Change, code: ErrorCode) -> None:
    image, codes = after(WITH_ALICE, change)
    assert codes == {change.name: code}
    assert image.access == WITH_ALICE.access


@pytest.mark.parametrize(
    "changes", [(upsertion(), upsertion()), (Deletion("alice", 1), upsertion()), (Deletion("alice", 1),) * 2]
)
def test_a_mechanism_of_a_user_is_named_once(changes: tuple[Change, ...]) -> None:
    image, codes = after(WITH_ALICE, *changes)
    assert codes == {"alice": ErrorCode.DUPLICATE_RESOURCE}
    assert image.access == WITH_ALICE.access


def test_a_users_part_counts_as_a_whole_and_touches_no_other() -> None:
    image, codes = after(EMPTY_IMAGE, upsertion("bob"), upsertion("carol"), upsertion("bob", 2, iterations=1))
    assert codes == {"bob": ErrorCode.UNACCEPTABLE_CREDENTIAL, "carol": ErrorCode.NONE}
    assert [user.name for user in describe_users(image.access.verifiers, None)] == ["carol"]


def test_users_are_limited_and_a_password_can_be_changed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_commands, "VERIFIERS_MAX", len(WITH_ALICE.access.verifiers))
    assert after(WITH_ALICE, upsertion("bob"))[1] == {"bob": ErrorCode.POLICY_VIOLATION}
    assert after(WITH_ALICE, upsertion(password="another"))[1] == {"alice": ErrorCode.NONE}


def test_nobody_sees_the_user_without_a_name() -> None:
    verifiers = WITH_ALICE.access.verifiers
    assert [user.name for user in describe_users(verifiers, None)] == ["alice"]
    assert list(describe_users(verifiers, [""])) == [DescribedUser("", ())]


def test_those_who_are_asked_for_are_shown_in_that_order() -> None:
    assert list(describe_users(WITH_ALICE.access.verifiers, ["mallory", "alice"])) == [
        DescribedUser("mallory", ()),
        DescribedUser("alice", ((SHA_256, 4096), (SHA_512, 4096))),
    ]


def test_a_salted_password_is_not_in_what_a_command_shows_of_itself() -> None:
    assert repr(upsertion().salted_password)[2:-1] not in repr(upsertion())
    assert "salt" not in repr(upsertion())
