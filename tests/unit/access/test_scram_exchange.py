"""SCRAM from the server's side: who knows the password enters, and nobody else learns anything."""

from __future__ import annotations

from base64 import b64encode

import pytest

from headrace.access.authentication import scram_exchange
from headrace.access.authentication.credentials import ScramMechanism, ScramUser, verifier_for
from headrace.access.authentication.exchange import Accepted, Challenge, Denied
from headrace.access.authentication.known_users import SECRET_HOLDER, KnownUsers, holding_secret
from headrace.access.authentication.scram_exchange import ScramExchange
from headrace.wire.sasl import scram_keys
from headrace.wire.sasl.scram import ClientFinal, ClientFirst, ServerFinal, ServerFirst, signed_text

BOTH = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
SECRET = b"of the cluster" * 4
USERS = {
    ScramUser(name, mechanism): verifier_for(password, mechanism, salt * 4, 4096)
    for mechanism in BOTH
    for name, password, salt in (("alice", "wonder", b"salt-one"), ("bob", "build it", b"salt-two"))
}
KNOWN = KnownUsers({**USERS, SECRET_HOLDER: holding_secret(SECRET)}, b"")


def begun(name: str, mechanism: ScramMechanism, *, own: str = "server", nonce: str = "client") -> ScramExchange:
    return ScramExchange(mechanism, KNOWN, own)


def final_for(first: ClientFirst, answer: ServerFirst, password: str, hash_name: str, **changes: object) -> bytes:
    """What an honest client answers, but for `changes`."""
    salted = scram_keys.salted_password(hash_name, password, answer.salt, answer.iterations)
    final = ClientFinal(first.gs2_header.encode(), answer.nonce, b"")
    proof = scram_keys.client_proof(
        hash_name, scram_keys.client_key(hash_name, salted), signed_text(first, answer, final)
    )
    fields = {"binding": final.binding, "nonce": final.nonce, "proof": proof, **changes}
    return ClientFinal(**fields).encode()


def tried(
    name: str, password: str, mechanism: ScramMechanism = BOTH[0], **changes: object
) -> tuple[Accepted | Denied | Challenge, ServerFirst]:
    exchange, first = ScramExchange(mechanism, KNOWN, "server"), ClientFirst(name, "client")
    challenge = exchange.step(first.encode())
    assert isinstance(challenge, Challenge)
    answer = ServerFirst.decode(challenge.message)
    return exchange.step(final_for(first, answer, password, mechanism.hash_name, **changes)), answer


@pytest.mark.parametrize("mechanism", BOTH)
def test_who_knows_the_password_enters_and_sees_that_the_server_knows_the_verifier(mechanism: ScramMechanism) -> None:
    outcome, _ = tried("alice", "wonder", mechanism)
    assert isinstance(outcome, Accepted)
    assert outcome.name == "alice"
    assert outcome.ends_at_s is None
    assert len(ServerFinal.decode(outcome.message).signature) == {"sha256": 32, "sha512": 64}[mechanism.hash_name]


@pytest.mark.parametrize("mechanism", BOTH)
def test_a_wrong_password_is_denied(mechanism: ScramMechanism) -> None:
    outcome, _ = tried("alice", "wonderful", mechanism)
    assert outcome == Denied("wrong password", "alice")


def test_the_proof_of_another_user_is_none_for_this_one() -> None:
    """CVE-2017-12610: bob knows his own password, and says that he is alice."""
    outcome, _ = tried("alice", "build it")
    assert isinstance(outcome, Denied)


@pytest.mark.parametrize("changed", [{"authorization_id": "bob"}])
def test_nobody_logs_in_for_somebody_else(changed: dict[str, str]) -> None:
    outcome = begun("alice", BOTH[0]).step(ClientFirst("alice", "client", **changed).encode())
    assert outcome == Denied("nobody may log in for somebody else", "alice")


def test_ones_own_name_may_be_said_twice() -> None:
    exchange, first = begun("alice", BOTH[0]), ClientFirst("alice", "client", "alice")
    answer = ServerFirst.decode(exchange.step(first.encode()).message)
    assert isinstance(exchange.step(final_for(first, answer, "wonder", "sha256")), Accepted)


@pytest.mark.parametrize(
    "nonce", ["client", "clientserve", "server", "clientserver2", "clientservez", "xclientserver", "serverserver"]
)
def test_the_whole_nonce_is_compared(nonce: str) -> None:
    """CVE-2024-56128: a nonce that only begins, or ends, like the right one."""
    outcome, answer = tried("alice", "wonder", nonce=nonce)
    assert answer.nonce == "clientserver"
    assert outcome == Denied("its last message belongs to another exchange", "alice")


def test_librdkafka_before_2_6_1_says_its_own_nonce_twice_and_signs_it() -> None:
    first = ClientFirst("alice", "client")
    exchange = begun("alice", BOTH[0])
    answer = ServerFirst.decode(exchange.step(first.encode()).message)
    salted = scram_keys.salted_password("sha256", "wonder", answer.salt, answer.iterations)
    unproven = ClientFinal(first.gs2_header.encode(), "clientclientserver", b"")
    signed = signed_text(first, answer, unproven)
    proof = scram_keys.client_proof("sha256", scram_keys.client_key("sha256", salted), signed)
    final = ClientFinal(unproven.binding, unproven.nonce, proof)
    assert isinstance(exchange.step(final.encode()), Accepted)


def test_another_exchange_cannot_be_replayed() -> None:
    first = ClientFirst("alice", "client")
    heard = ScramExchange(BOTH[0], KNOWN, "server")
    answer = ServerFirst.decode(heard.step(first.encode()).message)
    final = final_for(first, answer, "wonder", "sha256")
    assert isinstance(heard.step(final), Accepted)
    again = ScramExchange(BOTH[0], KNOWN, "another")
    again.step(first.encode())
    assert isinstance(again.step(final), Denied)


def test_a_proof_is_over_the_nonce_of_this_exchange() -> None:
    """Even if the nonce were taken as it is said: the proof is over another one."""
    first = ClientFirst("alice", "client")
    exchange = ScramExchange(BOTH[0], KNOWN, "fresh")
    answer = ServerFirst.decode(exchange.step(first.encode()).message)
    old = ServerFirst("clientold", answer.salt, answer.iterations)
    proof = ClientFinal.decode(final_for(first, old, "wonder", "sha256")).proof
    assert isinstance(exchange.step(final_for(first, answer, "wonder", "sha256", proof=proof)), Denied)


@pytest.mark.parametrize("size", [1, 31, 33, 64])
def test_a_proof_of_another_size_is_none(size: int) -> None:
    outcome, _ = tried("alice", "wonder", proof=bytes(size))
    assert isinstance(outcome, Denied)


@pytest.mark.parametrize("bit", [0, 7, 130, 255])
def test_a_proof_in_which_one_bit_was_changed_is_none(bit: int) -> None:
    exchange, first = begun("alice", BOTH[0]), ClientFirst("alice", "client")
    answer = ServerFirst.decode(exchange.step(first.encode()).message)
    right = ClientFinal.decode(final_for(first, answer, "wonder", "sha256")).proof
    changed = bytearray(right)
    changed[bit // 8] ^= 1 << (bit % 8)
    assert isinstance(exchange.step(final_for(first, answer, "wonder", "sha256", proof=bytes(changed))), Denied)


@pytest.mark.parametrize("binding", [b"y,,", b"p=tls-unique,,", b"n,a=bob,"])
def test_the_beginning_of_the_first_message_has_to_be_repeated(binding: bytes) -> None:
    outcome, _ = tried("alice", "wonder", binding=binding)
    assert outcome == Denied("its last message does not repeat the beginning of its first", "alice")


def test_a_delegation_token_is_refused_and_not_taken_for_a_password() -> None:
    first = ClientFirst("alice", "client", extensions=(("tokenauth", "true"),))
    assert isinstance(begun("alice", BOTH[0]).step(first.encode()), Denied)


@pytest.mark.parametrize(
    "message", [b"", b"n,,", b"\xff", b"n,,n=alice", b"n,,r=x,n=alice", b"p=x,,n=a,r=b", b"a" * 9000]
)
def test_what_is_no_message_is_denied(message: bytes) -> None:
    assert isinstance(begun("alice", BOTH[0]).step(message), Denied)


@pytest.mark.parametrize(
    "message", [b"", b"c=biws,r=clientserver", b"c=biws,r=clientserver,p=", b"c=biws,r=clientserver,p=*"]
)
def test_what_is_no_last_message_is_denied(message: bytes) -> None:
    exchange = begun("alice", BOTH[0])
    exchange.step(ClientFirst("alice", "client").encode())
    assert isinstance(exchange.step(message), Denied)


# ---- somebody who does not exist


@pytest.mark.parametrize("mechanism", BOTH)
def test_an_unknown_user_is_asked_like_a_known_one_and_fails_at_the_end(mechanism: ScramMechanism) -> None:
    (unknown, answer), (wrong, of_known) = tried("mallory", "x", mechanism), tried("alice", "x", mechanism)
    assert (type(unknown), type(wrong)) == (Denied, Denied)
    assert answer.iterations == of_known.iterations
    assert len(answer.salt) == len(of_known.salt)
    assert answer.salt != of_known.salt


def test_an_unknown_user_has_the_same_salt_every_time_and_on_every_node() -> None:
    other_node = KnownUsers({**USERS, SECRET_HOLDER: holding_secret(SECRET)}, b"another secret of a node")
    salts = {users.for_scram("mallory", BOTH[0]).verifier.salt for users in (KNOWN, KNOWN, other_node)}
    assert len(salts) == 1
    assert KNOWN.for_scram("mallet", BOTH[0]).verifier.salt not in salts


def test_nobody_finds_the_salt_of_an_unknown_user_without_the_secret() -> None:
    other = KnownUsers({**USERS, SECRET_HOLDER: holding_secret(b"another")}, b"")
    assert other.for_scram("mallory", BOTH[0]).verifier.salt != KNOWN.for_scram("mallory", BOTH[0]).verifier.salt


def test_an_unknown_user_costs_as_many_hashes_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counted(name: str) -> None:
        real = getattr(scram_keys, name)
        monkeypatch.setattr(
            scram_exchange.scram_keys, name, lambda *given: (calls.append(f"{name} {given[0]}"), real(*given))[1]
        )

    for name in ("proven_client_key", "stored_key", "server_signature"):
        counted(name)
    work = {}
    for name in ("alice", "mallory"):
        first, exchange = ClientFirst(name, "client"), ScramExchange(BOTH[0], KNOWN, "server")
        answer = ServerFirst.decode(exchange.step(first.encode()).message)
        calls.clear()
        assert isinstance(
            exchange.step(ClientFinal(first.gs2_header.encode(), answer.nonce, bytes(32)).encode()), Denied
        )
        work[name] = list(calls)
    assert work["alice"] == work["mallory"]
    assert len(work["alice"]) == 3


def test_iterations_of_unknown_users_are_those_that_known_users_have() -> None:
    """Where users differ in them, one number for all who are unknown would show who is known."""
    mechanism = BOTH[0]
    users = {
        ScramUser(f"user {number}", mechanism): verifier_for("x", mechanism, b"12345678", iterations)
        for number, iterations in enumerate((4096, 8192, 10_000))
    }
    known = KnownUsers(users, SECRET)
    found = {known.for_scram(f"unknown {number}", mechanism).verifier.iterations for number in range(200)}
    assert found == {4096, 8192, 10_000}


def test_nobody_logs_in_as_the_user_without_a_name() -> None:
    found = KNOWN.for_scram("", SECRET_HOLDER.mechanism)
    assert not found.is_known
    exchange = ScramExchange(SECRET_HOLDER.mechanism, KNOWN, "server")
    assert isinstance(exchange.step(b"n,,n=,r=client"), Denied)


def test_no_secret_is_in_what_an_exchange_shows_of_itself() -> None:
    verifier = USERS[ScramUser("alice", BOTH[0])]
    for secret in (verifier.salt, verifier.stored_key, verifier.server_key):
        assert repr(secret)[2:-1] not in repr(verifier)
        assert b64encode(secret).decode() not in repr(verifier)
