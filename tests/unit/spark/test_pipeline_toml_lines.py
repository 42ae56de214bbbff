"""The line of every key, whatever TOML allows around it."""

from __future__ import annotations

import tomllib

import pytest

from headrace_spark.pipeline.file.toml_lines import find_key_lines

TEXT = '''\
# a comment with [brackets] and key = "value"
name = "orders"   # [run]

[cluster]
bootstrap_servers = "127.0.0.1:9092"

[[source]]
name = "a"
"quoted.key" = 'x = [1'
schema = """
id BIGINT,   # [not a table]
sku = STRING \\"""
"""
[source.options]
one = 1
[[source]]
name = "b"
topic = [
  "x", # ]
  "y]",
]
after.dotted = { inner = "}", other = [1, 2] }

[query]
sql = \'\'\'
SELECT 'a'
\'\'\'
python = """one"" line"""
[ spark . conf ]
"spark.sql.x" = """
4"""
last = true'''


@pytest.mark.parametrize(
    ("key_path", "line"),
    [
        (("name",), 2),
        (("cluster",), 4),
        (("cluster", "bootstrap_servers"), 5),
        (("source",), 7),
        (("source", 0), 7),
        (("source", 0, "name"), 8),
        (("source", 0, "quoted.key"), 9),
        (("source", 0, "schema"), 10),
        (("source", 0, "options"), 14),
        (("source", 0, "options", "one"), 15),
        (("source", 1), 16),
        (("source", 1, "name"), 17),
        (("source", 1, "topic"), 18),
        (("source", 1, "after"), 22),
        (("source", 1, "after", "dotted"), 22),
        (("query", "sql"), 25),
        (("query", "python"), 28),
        (("spark", "conf", "spark.sql.x"), 30),
        (("spark", "conf", "last"), 32),
    ],
)
def test_a_key_is_found_on_its_line(key_path: tuple[str | int, ...], line: int) -> None:
    assert find_key_lines(TEXT).line_of(key_path) == line


def test_the_text_is_toml() -> None:
    assert len(tomllib.loads(TEXT)["source"]) == 2


def test_what_is_not_there_is_placed_at_what_is_around_it() -> None:
    key_lines = find_key_lines(TEXT)
    assert key_lines.line_of(("source", 1, "missing")) == 16
    assert key_lines.line_of(("source", 1, "after", "dotted", "inner")) == 22
    assert key_lines.line_of(("nowhere",)) is None


@pytest.mark.parametrize(
    ("key_path", "line"),
    [(("name",), 2), (("source", 0, "schema"), 11), (("query", "sql"), 26), (("query", "python"), 28)],
)
def test_text_begins_below_a_key_whose_string_opens_with_a_line_break(key_path: tuple[str, ...], line: int) -> None:
    assert find_key_lines(TEXT).text_line_of(key_path) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [("", None), ("\n\n", None), ("# only a comment", None), ("a = 1", 1), ("[a]", 1), ("a = [\n]\n\n", 1)],
)
def test_small_files_are_scanned_to_their_end(text: str, line: int | None) -> None:
    assert find_key_lines(text).line_of(("a",)) == line
