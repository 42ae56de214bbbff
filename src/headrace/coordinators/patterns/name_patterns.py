"""Subscriptions by regular expression, in time that no expression can blow up.

The node evaluates what members send. A backtracking engine, such as Python's, can be kept busy for hours by a short
expression, and every client of the node with it. So this is an automaton that follows all possibilities at once, as
RE2 does: a name costs at most as many steps as it has characters.

A step costs as much as there are possibilities, unless it was made before. Usual expressions soon know all of theirs;
for one that goes on finding others, and there are many names, the work has a limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.coordinators.patterns.pattern_syntax import (
    TOPIC_ALPHABET,
    AtEnd,
    AtStart,
    Characters,
    EitherOf,
    InTurn,
    Node,
    Repeated,
    parse,
)
from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable

STATES_MAX = 1_000  # of the automaton: '{m,n}' copies what it repeats; bounds the work for a character of a name
WORK_MAX = 50_000  # states looked at for names, between two calls of `refresh`: some 15 ms
MEMORY_MAX = 2_000  # sets of states that are remembered; beyond, all are forgotten and found anew


class _Take(NamedTuple):
    """Goes on if the next character is one of these."""

    allowed: frozenset[str]
    then: int


class _Fork(NamedTuple):
    """Goes on in all of these at once."""

    then: tuple[int, ...]


class _OnlyAtStart(NamedTuple):
    then: int


class _OnlyAtEnd(NamedTuple):
    then: int


class _Matched(NamedTuple):
    """The whole expression has been seen."""


_State = _Take | _Fork | _OnlyAtStart | _OnlyAtEnd | _Matched
_MATCHED: Final = 0
"""The first state is the last to be reached: the automaton is built from its end."""


class _Reached:
    """A set of states that the automaton can be in, with what follows from it, as far as anybody has asked."""

    __slots__ = ("accepts", "follows", "takers")

    def __init__(self, takers: frozenset[int], accepts: bool) -> None:
        self.takers = takers
        self.accepts = accepts
        """If the name ends here."""
        self.follows: dict[str, _Reached] = {}


class NamePattern:
    """Matches whole names, as Kafka does."""

    def __init__(self, text: str, alphabet: frozenset[str] = TOPIC_ALPHABET) -> None:
        """`alphabet` is all that the names may hold. Raises Refusal(INVALID_REGULAR_EXPRESSION)."""
        self._states: list[_State] = [_Matched()]
        self._work_left = WORK_MAX
        self._reached: dict[tuple[frozenset[int], bool], _Reached] = {}
        self._start = self._arrive([self._build(parse(text, alphabet), _MATCHED)], at_start=True)

    def refresh(self) -> None:
        """Let it do as much work again as at first."""
        self._work_left = WORK_MAX

    def matches(self, name: str) -> bool:
        """Raises Refusal if that, with all before it, is too much work."""
        reached = self._start
        for character in name:
            following = reached.follows.get(character)
            if following is None:
                following = reached.follows[character] = self._step(reached, character)
            reached = following
            if not reached.takers and not reached.accepts:
                return False
        return reached.accepts

    def _build(self, node: Node, then: int) -> int:
        """Add states that see `node` and go on with `then`. Answers where they begin."""
        match node:
            case Characters(allowed):
                return self._add(_Take(allowed, then))
            case InTurn(parts):
                for part in reversed(parts):
                    then = self._build(part, then)
                return then
            case EitherOf(choices):
                return self._add(_Fork(tuple(self._build(choice, then) for choice in choices)))
            case Repeated(part, least, most):
                return self._build_repeated(part, least, most, then)
            case AtStart():
                return self._add(_OnlyAtStart(then))
            case AtEnd():
                return self._add(_OnlyAtEnd(then))

    def _build_repeated(self, part: Node, least: int, most: int | None, then: int) -> int:
        begin = then
        if most is None:
            begin = self._add(_Fork(()))
            self._states[begin] = _Fork((self._build(part, begin), then))
        else:
            for _ in range(most - least):
                begin = self._add(_Fork((self._build(part, begin), then)))
        for _ in range(least):
            begin = self._build(part, begin)
        return begin

    def _add(self, state: _State) -> int:
        if len(self._states) >= STATES_MAX:
            raise Refusal(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"the regular expression needs more than {STATES_MAX} states; expected fewer or smaller repetitions",
            )
        self._states.append(state)
        return len(self._states) - 1

    def _step(self, reached: _Reached, character: str) -> _Reached:
        if self._work_left < 0:
            raise Refusal(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                "the regular expression is too much work for the names that there are; expected are fewer repetitions "
                "of things that may also be something else",
            )
        self._work_left -= len(reached.takers)
        following = set()
        for number in reached.takers:
            state = self._states[number]
            assert isinstance(state, _Take)
            if character in state.allowed:
                following.add(state.then)
        return self._arrive(following, at_start=False)

    def _arrive(self, numbers: Iterable[int], *, at_start: bool) -> _Reached:
        """These states, and all that follow from them without a character."""
        takers, _ = self._spread(numbers, at_start, at_end=False)
        _, accepts = self._spread(numbers, at_start, at_end=True)
        reached = self._reached.get((takers, accepts))
        if reached is None:
            if len(self._reached) >= MEMORY_MAX:
                self._forget()
            reached = self._reached[takers, accepts] = _Reached(takers, accepts)
        return reached

    def _forget(self) -> None:
        for reached in self._reached.values():
            reached.follows.clear()  # they point at each other
        self._reached.clear()

    def _spread(self, numbers: Iterable[int], at_start: bool, at_end: bool) -> tuple[frozenset[int], bool]:
        """The states among them that take a character, and whether one of them is the match."""
        seen = set(numbers)
        waiting = list(seen)
        takers = set()
        while waiting:
            number = waiting.pop()
            onwards: tuple[int, ...] = ()
            match self._states[number]:
                case _Take():
                    takers.add(number)
                case _Fork(then):
                    onwards = then
                case _OnlyAtStart(then) if at_start:
                    onwards = (then,)
                case _OnlyAtEnd(then) if at_end:
                    onwards = (then,)
            for onward in onwards:
                if onward not in seen:
                    seen.add(onward)
                    waiting.append(onward)
        self._work_left -= len(seen)
        return frozenset(takers), _MATCHED in seen
