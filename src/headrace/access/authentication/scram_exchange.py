"""SCRAM, the server's side (RFC 5802): who logs in proves to know the password, and neither says it."""

from __future__ import annotations

from hmac import compare_digest
from typing import TYPE_CHECKING

from headrace.access.authentication.exchange import Accepted, Challenge, Denied
from headrace.wire.primitives import Malformed
from headrace.wire.sasl import scram_keys
from headrace.wire.sasl.scram import ClientFinal, ClientFirst, ServerFinal, ServerFirst, signed_text

if TYPE_CHECKING:
    from headrace.access.authentication.credentials import ScramMechanism
    from headrace.access.authentication.known_users import Found, KnownUsers


class ScramExchange:
    """`nonce` is chance, in letters: with it no exchange is ever the same as another."""

    def __init__(self, mechanism: ScramMechanism, users: KnownUsers, nonce: str) -> None:
        self._mechanism = mechanism
        self._users = users
        self._own_nonce = nonce
        self._begun: tuple[ClientFirst, ServerFirst, Found] | None = None

    def step(self, message: bytes) -> Challenge | Accepted | Denied:
        name = "" if self._begun is None else self._begun[0].username
        try:
            return self._begin(ClientFirst.decode(message)) if self._begun is None else self._end(message)
        except Malformed as error:
            return Denied(str(error), name)

    def _begin(self, first: ClientFirst) -> Challenge | Denied:
        if first.is_token:
            return Denied("delegation tokens are not served here", first.username)
        if first.authorization_id not in {"", first.username}:
            return Denied("nobody may log in for somebody else", first.username)
        found = self._users.for_scram(first.username, self._mechanism)
        answer = ServerFirst(first.nonce + self._own_nonce, found.verifier.salt, found.verifier.iterations)
        self._begun = (first, answer, found)
        return Challenge(answer.encode())

    def _end(self, message: bytes) -> Accepted | Denied:
        assert self._begun is not None
        first, answer, found = self._begun
        final = ClientFinal.decode(message)
        name, hash_name, verifier = first.username, self._mechanism.hash_name, found.verifier
        if not compare_digest(final.binding, first.gs2_header.encode()):
            return Denied("its last message does not repeat the beginning of its first", name)
        if not _is_of_this_exchange(final.nonce, first.nonce, answer.nonce):
            return Denied("its last message belongs to another exchange", name)
        signed = signed_text(first, answer, final)
        key = scram_keys.proven_client_key(hash_name, verifier.stored_key, signed, final.proof)
        is_proven = compare_digest(scram_keys.stored_key(hash_name, key), verifier.stored_key)
        signature = scram_keys.server_signature(hash_name, verifier.server_key, signed)
        if is_proven and found.is_known:
            return Accepted(name, ServerFinal(signature).encode())
        return Denied("wrong password" if found.is_known else "there is no such user for this mechanism", name)


def _is_of_this_exchange(nonce: str, of_client: str, of_both: str) -> bool:
    """All of it is compared: a part of it can be replayed. librdkafka before 2.6.1, which Linux distributions have in
    kcat, puts the client's own in front of it once more: ours is there all the same, and all of it is signed."""
    forms = (of_both, of_client + of_both)
    return any(compare_digest(nonce.encode(), form.encode()) for form in forms)
