"""Repeated refusals: one line and a count, and memory for so many and no more."""

from __future__ import annotations

from dataclasses import replace

from headrace.access.audit import AuditEvent, Outcome
from headrace.access.folding import WINDOW_S, Folded, Folding, is_folded
from headrace.access.identity import USER, Identity, Principal

MALLORY = Identity(Principal(USER, "mallory"), "10.0.0.66")
REFUSED = AuditEvent("Produce", MALLORY, Outcome.REFUSED, "topic 'orders'", "no WRITE")


def test_the_same_refusal_is_news_once_and_counted_afterwards():
    folding = Folding()
    assert [folding.is_news(REFUSED, 1.0) for _ in range(1000)] == [True, *[False] * 999]
    assert folding.due(WINDOW_S) == []
    assert folding.due(WINDOW_S + 1.0) == [Folded(REFUSED, 999)]
    assert len(folding) == 0
    assert folding.is_news(REFUSED, WINDOW_S + 1.0)


def test_a_refusal_that_came_once_is_not_told_twice():
    folding = Folding()
    assert folding.is_news(REFUSED, 0.0)
    assert folding.due(WINDOW_S) == []


def test_what_the_client_calls_itself_makes_no_news():
    folding = Folding()
    news = [folding.is_news(replace(REFUSED, client_id=f"c{it}", detail=str(it)), 0.0) for it in range(5)]
    assert news == [True, False, False, False, False]


def test_somebody_else_something_else_and_another_outcome_are_news():
    folding = Folding()
    others = [
        REFUSED,
        replace(REFUSED, identity=MALLORY._replace(host="10.0.0.67")),
        replace(REFUSED, action="Fetch"),
        replace(REFUSED, resource="topic 'bills'"),
        replace(REFUSED, outcome=Outcome.FAILED),
        replace(REFUSED, listener="INSIDE"),
    ]
    assert all(folding.is_news(event, 0.0) for event in others)


def test_one_source_that_makes_up_names_is_told_so_many_and_a_count_of_the_rest():
    folding = Folding(kinds_max=3)
    news = [folding.is_news(replace(REFUSED, resource=f"topic '{it}'"), 0.0) for it in range(10)]
    assert news.count(True) == 3
    (folded,) = folding.due(WINDOW_S)
    assert folded.times == 7
    assert folded.event.identity == MALLORY
    assert folded.event.action == "Several"


def test_many_sources_take_memory_for_so_many_and_all_are_counted():
    folding = Folding(sources_max=4)
    sources = [replace(REFUSED, identity=MALLORY._replace(host=str(it))) for it in range(100)]
    news = [folding.is_news(event, 0.0) for event in sources]
    assert news.count(True) == len(folding) == 4
    (folded,) = folding.close()
    assert folded.times == 96
    assert folded.event.detail == "of many sources"
    assert len(folding) == 0


def test_what_was_allowed_and_done_is_never_folded_but_for_logins():
    assert not is_folded(replace(REFUSED, action="CreateTopics", outcome=Outcome.DONE))
    assert is_folded(replace(REFUSED, action="Login", outcome=Outcome.DONE))
    assert is_folded(REFUSED)
    assert is_folded(replace(REFUSED, outcome=Outcome.FAILED))
