"""Java's properties files, read as Java reads them."""

from __future__ import annotations

import pytest

from headrace.cli.serve.java_properties import NotProperties, Property, read_properties


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a=b", [(1, "a", "b")]),
        ("a : b", [(1, "a", "b")]),
        ("  a   b c ", [(1, "a", "b c ")]),  # what stands behind the text belongs to it
        ("a", [(1, "a", "")]),
        ("a=", [(1, "a", "")]),
        ("a==b", [(1, "a", "=b")]),
        ("\n# no\n  ! no\n\na=1\r\nb=2\rc=3", [(5, "a", "1"), (6, "b", "2"), (7, "c", "3")]),
        ("a=b#c", [(1, "a", "b#c")]),
        ("a=one,\\\n    two,\\\n\tthree\nb=2", [(1, "a", "one,two,three"), (4, "b", "2")]),
        ("a=b\\\\\nc=d", [(1, "a", "b\\"), (2, "c", "d")]),
        ("a=b\\\\\\\nc", [(1, "a", "b\\c")]),
        ("a=b\\\n# no comment", [(1, "a", "b# no comment")]),
        ("a=b\\", [(1, "a", "b")]),
        ("a\\=b\\:c\\ d=e", [(1, "a=b:c d", "e")]),
        ("a=\\t\\n\\r\\f\\q\\u00e9", [(1, "a", "\t\n\r\fqé")]),
        ("a=1\na=2", [(1, "a", "1"), (2, "a", "2")]),
        ("", []),
    ],
)
def test_names_and_texts(content: str, expected: list[tuple[int, str, str]]) -> None:
    assert read_properties(content.encode()) == [Property(*one) for one in expected]


def test_bytes_are_latin_1() -> None:
    assert read_properties(b"a=\xe9") == [Property(1, "a", "é")]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a=1\n=2", "line 2: there is no name before '=2'"),
        ("a=1\n\nb=\\u12", r"line 3: \u needs four hexadecimal digits"),
        ("b\\uxyz=1", r"line 1: \u needs four hexadecimal digits"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(content: str, expected: str) -> None:
    with pytest.raises(NotProperties) as told:
        read_properties(content.encode())
    assert str(told.value) == expected
