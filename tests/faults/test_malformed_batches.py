"""Every kind of malformed batch, in every codec, to a real node: what it answers, and what is left behind.

The catalogue is in tests/faults/malformed; docs/malformed-batches.md shows it beside Apache Kafka's answers.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.faults.hostile import WatchedNode, watched_node
from tests.faults.malformed.asking import Answers, ask_all, cases, consume_taken, name_of
from tests.faults.malformed.catalogue import KINDS
from tests.faults.malformed.consuming import READ
from tests.faults.malformed.forge import PACKINGS, SOUND_COUNT, Forge
from tests.faults.malformed.page import PAGE, kept, page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.malformed.forge import Packing

pytestmark = pytest.mark.xdist_group("malformed")  # they share one node, and what it answered

NOW_MS = 1_700_000_000_000
KINDS_MIN = 40


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedNode]:
    with watched_node(tmp_path_factory.mktemp("malformed")) as watched:
        yield watched


@pytest.fixture(scope="module")
def answers(node: WatchedNode) -> Answers:
    """What the node made of all of them. It lives through it, and nothing in its log is its own fault."""
    answered = ask_all(node.port, int(time.time() * 1000))
    with node.connect() as client:
        node.use(client)
    node.check_log()
    return answered


def told(troubles: list[str]) -> str:
    return f"{len(troubles)} of {sum(1 for _ in cases())}:\n" + "\n".join(troubles)


def test_each_kind_is_answered_as_the_catalogue_says(answers: Answers) -> None:
    troubles = []
    for kind, packing, _ in cases():
        name, code = name_of(kind, packing), kind.code_for(packing)
        answer = answers[name]
        if answer.code != code:
            troubles.append(f"{name}: {answer.code} instead of {code:d} {code.name}: {answer.message}")
        elif code and not answer.message:
            troubles.append(f"{name}: {code:d} {code.name} without a word why")
    assert not troubles, told(troubles)


def test_the_log_grows_by_what_was_taken_and_by_nothing_else(answers: Answers) -> None:
    troubles = []
    for name, answer in answers.items():
        grown = SOUND_COUNT if answer.is_taken else 0  # whatever is legal holds that many
        if answer.moved != grown:
            troubles.append(f"{name}: moved by {answer.moved} instead of {grown}")
    assert not troubles, told(troubles)


def test_a_sound_batch_is_taken_after_each(answers: Answers) -> None:
    troubles = [name for name, answer in answers.items() if not answer.is_usable]
    assert not troubles, told(troubles)


def test_what_was_taken_can_be_read(node: WatchedNode, answers: Answers) -> None:
    """By our decoder first: some of what it cannot read keeps other consumers busy for long."""
    taken = {name_of(kind, packing) for kind, packing, _ in cases() if not kind.is_heavy} & {
        name for name, answer in answers.items() if answer.is_taken
    }
    troubles = [f"{name}: {answers[name].read}" for name in sorted(taken) if answers[name].read != READ]
    assert not troubles, told(troubles)
    consume_taken(node.port, answers)
    troubles = [f"{name}: {answers[name].consumed}" for name in sorted(taken) if answers[name].consumed != READ]
    assert not troubles, told(troubles)


def test_what_was_taken_says_the_true_greatest_time_of_its_records(answers: Answers) -> None:
    """Lookups by time and retention go by it."""
    troubles = [name for name, answer in answers.items() if answer.is_max_true is False]
    assert not troubles, told(troubles)


def test_the_page_shows_what_was_answered(answers: Answers) -> None:
    """`make generate` writes it as the catalogue says; this is what a node says."""
    assert PAGE.read_text() == page(answers, kept())


# ---- the catalogue itself


def test_the_catalogue_has_every_codec_in_kinds_enough() -> None:
    assert len({kind.id for kind in KINDS}) == len(KINDS)
    for packing in PACKINGS:
        assert sum(packing in kind.packings for kind in KINDS) >= KINDS_MIN, packing.name


def test_kafkas_answers_are_those_to_this_catalogue() -> None:
    assert list(kept()) == [name_of(kind, packing) for kind, packing, _ in cases()]


@pytest.mark.parametrize("packing", PACKINGS, ids=lambda packing: packing.name)
def test_each_kind_is_something_of_its_own(packing: Packing) -> None:
    """The same time gives the same bytes, and no two kinds the same: else one of them is not what it says."""
    made: dict[tuple[bytes | None, str, str | None], str] = {}
    for kind in KINDS:
        if packing not in kind.packings or kind.is_heavy:
            continue
        batch = kind.make(Forge(packing, NOW_MS))
        assert batch == kind.make(Forge(packing, NOW_MS)), f"{kind.id} is made by chance"
        twin = made.setdefault((batch, str(kind.configs), kind.transactional_id), kind.id)
        assert twin == kind.id, f"{kind.id} in {packing.name} is {twin}"
