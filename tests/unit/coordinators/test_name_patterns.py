from __future__ import annotations

import random

import pytest

from headrace.coordinators.patterns.name_patterns import MEMORY_MAX, WORK_MAX, NamePattern
from headrace.coordinators.patterns.pattern_syntax import NESTING_MAX, PATTERN_MAX
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TOPIC_NAME_MAX

NAMES = ["orders", "orders.eu", "orders.us", "Orders", "orders-2", "orders_2024", "pay", "payments", "o", "x.y-z_0"]


@pytest.mark.parametrize(
    ("regex", "expected"),
    [
        (".*", NAMES),
        ("orders", ["orders"]),
        ("orders.*", ["orders", "orders.eu", "orders.us", "orders-2", "orders_2024"]),
        (r"orders\..*", ["orders.eu", "orders.us"]),
        (r"orders\.(eu|us)", ["orders.eu", "orders.us"]),
        (r"orders\.(?:eu|uk)", ["orders.eu"]),
        (r"(?P<what>pay)(?<rest>ments)?", ["pay", "payments"]),
        ("^orders$", ["orders"]),
        (r"\Aorders\z", ["orders"]),
        ("or^ders|pay", ["pay"]),
        ("or$ders|pay", ["pay"]),
        ("(?i)orders", ["orders", "Orders"]),
        ("(?i)[N-O]rders", ["orders", "Orders"]),
        ("[oO]rders", ["orders", "Orders"]),
        ("[^o].*", ["Orders", "pay", "payments", "x.y-z_0"]),
        (r"orders[._-]\w+", ["orders.eu", "orders.us", "orders-2", "orders_2024"]),
        (r"orders\D\d+", ["orders-2", "orders_2024"]),
        (r"orders_\d{4}", ["orders_2024"]),
        (r"orders.\d{2,}", ["orders_2024"]),
        (r"orders.\d{1,3}", ["orders-2"]),
        ("p.{2}(ments)??", ["pay", "payments"]),
        ("[a-z]{0,6}", ["orders", "pay", "o"]),
        (r"[\w.]+[-]z_[^1-9]", ["x.y-z_0"]),
        (r"[]o]", ["o"]),
        (r"[a\-o]", ["o"]),
        (r"\S+", NAMES),
        (r".*\s.*", []),
        ("(o|o)*", ["o"]),
        ("(|pay)(ments|)", ["pay", "payments"]),
        ("ordérs|o{x}|o{,3}", []),
        ("(((o)))+?", ["o"]),
        ("", []),
    ],
)
def test_matching(regex: str, expected: list[str]) -> None:
    pattern = NamePattern(regex)
    assert [name for name in NAMES if pattern.matches(name)] == expected


@pytest.mark.parametrize(
    "regex",
    [
        "(",
        ")",
        "a)",
        "[",
        "[a",
        "[^",
        "[b-a]",
        "*a",
        "a**",
        "a+{2}",
        "(?=a)",
        "(?!a)",
        "(?<=a)b",
        "(?<!a)b",
        "(?P<a",
        "(?P=a)",
        r"(a)\1",
        r"\b",
        r"\pL",
        "\\",
        "[[:alpha:]]",
        "a{3,2}",
        "a{1001}",
        "(a{100}){100}",
        "(" * (NESTING_MAX + 1) + ")" * (NESTING_MAX + 1),
        "a" * (PATTERN_MAX + 1),
    ],
)
def test_refused(regex: str) -> None:
    with pytest.raises(Refusal) as refusal:
        NamePattern(regex)
    assert refusal.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize("regex", ["(x+x+)+y", "(x|x)*y", "(x*)*y", ".*.*.*.*.*.*.*.*y", "(.*x){20}y"])
def test_what_would_keep_a_backtracking_engine_busy(regex: str) -> None:
    pattern = NamePattern(regex)
    assert not pattern.matches("x" * TOPIC_NAME_MAX)
    assert pattern.matches("x" * (TOPIC_NAME_MAX - 1) + "y")


def test_memory_is_bounded() -> None:
    """Each name leads to sets of states of its own: one for each choice of places where an 'a' stands."""
    pattern = NamePattern("(a|b)*a(a|b){16}c")
    for number in range(500):
        name = f"{number * 7919:017b}".replace("0", "b").replace("1", "a")
        pattern.refresh()
        assert pattern.matches(f"a{name[-16:]}c")
        assert len(pattern._reached) <= MEMORY_MAX


@pytest.mark.parametrize("regex", [".*a.{0,490}", ".*a.{30,33}.*", "(.{0,33}){0,9}", "([abc]?){200}[abc]{200}y"])
def test_work_is_bounded(regex: str) -> None:
    pattern = NamePattern(regex)
    chance = random.Random(1)
    names = ["".join(chance.choices("abc", k=TOPIC_NAME_MAX)) for _ in range(1000)]
    with pytest.raises(Refusal, match="too much work") as refusal:
        list(map(pattern.matches, names))
    assert refusal.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    pattern.refresh()
    pattern.matches("a")


@pytest.mark.parametrize(
    "regex", ["orders.*", ".*(a|b).*(c|d).*", "[a-z]+-[0-9]{1,4}", "|".join(f"topic-number-{n}" for n in range(40))]
)
def test_usual_expressions_are_little_work_however_many_names_there_are(regex: str) -> None:
    pattern = NamePattern(regex)
    chance = random.Random(2)
    for number in range(5000):
        pattern.matches(f"orders-{number}")
        pattern.matches("".join(chance.choices("abcdefgh.-", k=30)))
    assert pattern._work_left > WORK_MAX * 0.9
