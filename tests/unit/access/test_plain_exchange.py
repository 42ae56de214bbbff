"""PLAIN from the server's side."""

from __future__ import annotations

import hashlib

import pytest

from headrace.access.authentication.credentials import ScramMechanism, ScramUser, verifier_for
from headrace.access.authentication.exchange import Accepted, Denied, Work
from headrace.access.authentication.known_users import KnownUsers
from headrace.access.authentication.plain_exchange import PlainExchange

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
USERS = KnownUsers(
    {
        ScramUser("alice", SHA_256): verifier_for("wonder", SHA_256, b"salt-one", 4096),
        ScramUser("alice", SHA_512): verifier_for("wonder", SHA_512, b"salt-two", 4096),
        ScramUser("bob", SHA_512): verifier_for("build it", SHA_512, b"salt-six", 4096),
    },
    b"secret of the node",
)


def outcome(message: bytes) -> Accepted | Denied:
    step = PlainExchange(USERS).step(message)
    if isinstance(step, Work):
        done = step.call()
        assert isinstance(done, Accepted | Denied)
        return done
    return step


@pytest.mark.parametrize("message", [b"\0alice\0wonder", b"alice\0alice\0wonder", b"\0bob\0build it"])
def test_the_right_password_enters(message: bytes) -> None:
    assert isinstance(outcome(message), Accepted)


@pytest.mark.parametrize(
    "message",
    [
        b"\0alice\0wrong",
        b"\0alice\0build it",
        b"\0mallory\0wonder",
        b"bob\0alice\0wonder",
        b"\0alice\0",
        b"\0\0wonder",
        b"alice\0wonder",
        b"",
        b"\0alice\0wonder\0",
        b"\xff\0\xff\0\xff",
        b"\0alice\0" + b"x" * 9000,
    ],
)
def test_everything_else_does_not(message: bytes) -> None:
    assert isinstance(outcome(message), Denied)


def test_nothing_is_hashed_before_somebody_calls_for_it_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> bytes:
        raise AssertionError("PBKDF2 on the event loop")

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", never)
    assert isinstance(PlainExchange(USERS).step(b"\0alice\0wonder"), Work)
    assert isinstance(PlainExchange(USERS).step(b"\0mallory\0wonder"), Work)


def test_an_unknown_user_costs_the_work_of_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, int]] = []
    real = hashlib.pbkdf2_hmac

    def counted(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        done.append((name, iterations))
        return real(name, password, salt, iterations)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counted)
    for name in ("alice", "bob", *(f"unknown {number}" for number in range(20))):
        done.clear()
        assert isinstance(outcome(f"\0{name}\0wrong".encode()), Denied)
        assert len(done) == 1
        assert done[0] in {("sha256", 4096), ("sha512", 4096)}
