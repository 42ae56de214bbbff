"""What a connection may do before, while and after it logs in."""

from __future__ import annotations

import math

import pytest

from headrace.access.authentication.exchange import Accepted, Challenge, Denied, Step
from headrace.access.authentication.login import Login
from headrace.access.identity import Principal
from headrace.model.errors import ErrorCode, Refusal


class Script:
    """An exchange that answers what it was told to."""

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)

    def step(self, message: bytes) -> Step:
        assert isinstance(message, bytes)
        return self._steps.pop(0)


def login_of(*scripts: Script, lifetime_max_s: float = math.inf) -> Login:
    waiting = list(scripts)
    return Login(["SCRAM-SHA-256", "PLAIN"], lambda _: waiting.pop(0), lifetime_max_s)


def logged_in(login: Login, now_s: float = 0.0, mechanism: str = "PLAIN") -> Denied | float | None:
    login.choose(mechanism, now_s)
    outcome = login.step(b"")
    assert isinstance(outcome, Accepted | Denied | Challenge)
    return login.settle(outcome, now_s, 1_000_000.0)


def test_nothing_is_open_before_a_login() -> None:
    assert not login_of().is_open(0.0)


def test_an_exchange_needs_a_mechanism_first() -> None:
    with pytest.raises(Refusal) as refusal:
        login_of().step(b"")
    assert refusal.value.code is ErrorCode.ILLEGAL_SASL_STATE


def test_a_mechanism_that_is_not_offered_is_refused_with_those_that_are() -> None:
    with pytest.raises(Refusal, match="SCRAM-SHA-256, PLAIN") as refusal:
        login_of().choose("GSSAPI", 0.0)
    assert refusal.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM


def test_an_exchange_under_way_is_not_begun_again() -> None:
    login = login_of(Script(), Script())
    login.choose("PLAIN", 0.0)
    with pytest.raises(Refusal) as refusal:
        login.choose("PLAIN", 5.0)
    assert refusal.value.code is ErrorCode.ILLEGAL_SASL_STATE


def test_a_challenge_is_not_a_login() -> None:
    login = login_of(Script(Challenge(b"?"), Accepted("alice")))
    assert logged_in(login) is None
    assert not login.is_open(0.0)


def test_a_denied_login_opens_nothing() -> None:
    login = login_of(Script(Denied("wrong password", "alice")))
    assert logged_in(login) == Denied("wrong password", "alice")
    assert login.session is None


def test_a_session_without_an_end_stays_open() -> None:
    login = login_of(Script(Accepted("alice")))
    assert logged_in(login) == 0.0
    assert login.session is not None
    assert login.session.principal == Principal("User", "alice")
    assert login.is_open(1e12)


def test_a_session_ends_when_the_listener_or_the_token_says_so() -> None:
    by_listener = login_of(Script(Accepted("alice")), lifetime_max_s=60.0)
    by_token = login_of(Script(Accepted("alice", ends_at_s=1_000_030.0)), lifetime_max_s=60.0)
    assert (logged_in(by_listener), logged_in(by_token)) == (60.0, 30.0)
    assert (by_listener.is_open(59.0), by_listener.is_open(60.0)) == (True, False)
    assert (by_token.is_open(29.0), by_token.is_open(30.0)) == (True, False)


def test_what_has_expired_already_opens_nothing() -> None:
    login = login_of(Script(Accepted("alice", ends_at_s=999_999.0)))
    assert isinstance(logged_in(login), Denied)
    assert login.session is None


def test_a_session_is_renewed_by_the_same_principal() -> None:
    login = login_of(Script(Accepted("alice")), Script(Accepted("alice")), lifetime_max_s=60.0)
    logged_in(login)
    assert logged_in(login, 50.0) == 60.0
    assert login.is_open(109.0)


def test_a_session_that_has_ended_can_be_renewed() -> None:
    login = login_of(Script(Accepted("alice")), Script(Accepted("alice")), lifetime_max_s=60.0)
    logged_in(login)
    assert not login.is_open(100.0)
    assert logged_in(login, 100.0) == 60.0
    assert login.is_open(100.0)


def test_a_session_cannot_become_somebody_elses() -> None:
    login = login_of(Script(Accepted("alice")), Script(Accepted("bob")))
    logged_in(login)
    assert isinstance(logged_in(login, 5.0), Denied)
    assert login.session is not None
    assert login.session.principal.name == "alice"


def test_a_session_goes_on_in_the_way_that_it_began() -> None:
    login = login_of(Script(Accepted("alice")), Script(Accepted("alice")))
    logged_in(login)
    with pytest.raises(Refusal) as refusal:
        login.choose("SCRAM-SHA-256", 5.0)
    assert refusal.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM


def test_nobody_logs_in_again_within_a_second() -> None:
    login = login_of(Script(Accepted("alice")), Script(Accepted("alice")))
    logged_in(login)
    with pytest.raises(Refusal) as refusal:
        login.choose("PLAIN", 0.9)
    assert refusal.value.code is ErrorCode.ILLEGAL_SASL_STATE


def test_an_exchange_does_not_go_on_for_ever() -> None:
    login = login_of(Script(*[Challenge(b"?")] * 10))
    login.choose("PLAIN", 0.0)
    for _ in range(4):
        assert isinstance(login.step(b""), Challenge)
    assert isinstance(login.step(b""), Denied)
