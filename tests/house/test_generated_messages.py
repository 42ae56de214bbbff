"""The generator: its output is what stands in the tree, and it explains bad schemas instead of guessing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.wire.primitives import Malformed, Reader, Writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{path.stem}_for_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def generate(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs the generator as the command line would; returns its exit code."""
    monkeypatch.syspath_prepend(TOOLS)
    generator = load(TOOLS / "generate_messages.py")
    return lambda *arguments: generator.main([str(argument) for argument in arguments])


def test_the_tree_holds_what_the_schemas_say() -> None:
    command = [sys.executable, TOOLS / "generate_messages.py", "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


RECORDS = """\
# Two records, with all that the language knows.

record 7 Everything
  versions 1-3
  flexible 3+

struct Point
  x  int32
  y  int32  2+ = -1

fields
  flag     bool      = true
  small    uint16
  large    uint32    2+ ignorable
  ratio    float64
  home     Point
  trail    [Point]   2+ nullable ignorable = null
  ids      [uuid]    nullable
  bits     [bool]
  nick     string    = bob  # a word of their own
  last     Point     3+ tag 4 ignorable
  words    [string]  3+ tag 0 ignorable

record Plain
  versions 0
  flexible never

fields
  raw  bytes
"""


@pytest.fixture
def everything(tmp_path: Path, generate: Callable[..., int]) -> ModuleType:
    """The module generated from the schema above."""
    (tmp_path / "two.schema").write_text(RECORDS)
    assert generate("--schemas", tmp_path, "--messages", tmp_path / "out") == 0
    return load(tmp_path / "out" / "two.py")


def there_and_back(message: Any, version: int) -> Any:
    writer = Writer()
    message.encode(writer, version)
    reader = Reader(writer.buffer)
    decoded = type(message).decode(reader, version)
    assert reader.remaining == 0
    return decoded


def test_records_need_no_api(everything: ModuleType) -> None:
    assert everything.Everything.RECORD_KEY == 7
    assert everything.Everything.VERSIONS == (1, 3)
    assert not hasattr(everything.Plain, "RECORD_KEY")
    assert there_and_back(everything.Plain(b"abc"), 0) == everything.Plain(b"abc")


def test_every_type_survives_in_the_versions_that_have_it(everything: ModuleType) -> None:
    point = everything.Point
    full = everything.Everything(
        flag=False,
        small=65535,
        large=2**32 - 1,
        ratio=0.25,
        home=point(1, 2),
        trail=[point(3, 4)],
        ids=[bytes(range(16))],
        bits=[True, False],
        nick="ann",
        last=point(5, 6),
        words=["a", "b"],
    )
    assert there_and_back(full, 3) == full
    version_2 = there_and_back(full, 2)
    assert (version_2.last, version_2.words) == (point(), [])
    assert version_2.trail == full.trail
    full.home.y = -1
    version_1 = there_and_back(full, 1)
    assert (version_1.large, version_1.trail, version_1.home) == (0, None, point(1, -1))


def test_defaults_are_the_schemas(everything: ModuleType) -> None:
    message = everything.Everything()
    assert (message.flag, message.nick, message.trail, message.ids) == (True, "bob", None, [])
    assert message.home == everything.Point(0, -1)
    assert there_and_back(message, 3) == message


def test_array_counts_are_held_against_the_smallest_element(everything: ModuleType) -> None:
    writer = Writer()
    everything.Everything(home=everything.Point(1, 2)).encode(writer, 2)
    start = writer.buffer.index(b"\xff\xff\xff\xff")  # the null trail
    writer.buffer[start : start + 4] = (4).to_bytes(4, "big")  # four points want 16 bytes or more
    with pytest.raises(Malformed, match="array of 4 elements"):
        everything.Everything.decode(Reader(writer.buffer, 0, start + 4 + 15), 2)


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ("api Three X\n", "a block opens with"),
        ("record R\n  versions 0\nfields\n", "no line says 'flexible'"),
        ("record R\n  versions 0+\n  flexible 0+\nfields\n", "must end somewhere"),
        ("record R\n  versions 0\n  flexible 0+\nrequest\n", "the sections of a record are fields"),
        ("record R\n  versions 0\n  flexible 0+\nfields\n  a int99\n", "line 5: int99 is not a type"),
        ("record R\n  versions 0\n  flexible 0+\nfields\n  a\n", "line 5: a has no type"),
        ("record R\n  versions 0\n  flexible 0+\nfields\n  a int8 sometimes\n", "'sometimes' is not expected"),
        ("record R\n  versions 0\n  flexible 0+\nfields\n  a int8 x+\n", "is not expected here"),
        ("record R\n  versions 0\n  flexible 0+\nfields\n  a Some\n", "nothing defines Some"),
        ("record R\n  versions 0\n  flexible 0+\nfields\n  a int8\n    b int8\n", "only a struct has parts"),
        ("record R\n  versions 0\n  flexible 0+\nfields\n   a int8\n", "indent by 2 spaces"),
        ("record R\n  versions 0\n  flexible 0+\nfields\n  a int8 nullable\n", "a int8 cannot be null"),
        ("record R\n  versions 0\n  flexible 0+\nfields\n  a string = null\n", "not nullable"),
        ("record R\n  versions 0\n  flexible 0+\nfields\n  a int8 tag 1\n  b int8 tag 1\n", "tag 1 is taken"),
        ("record R\n  versions 0\n  flexible 0+\nfields\n  a R\n    b int8\n", "more than one class is called R"),
        ("record R\n  versions 0\n  flexible 0+\nstruct S\n  b int8\nfields\n  a int8\n", "nothing refers to S"),
        ("record R\n  versions 0\n  flexible 0+\nfields\n  a [S]\n    b int8\n  c S\n    d int8\n", "defined twice"),
    ],
)
def test_a_bad_schema_is_refused_with_a_reason(
    tmp_path: Path,
    generate: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    schema: str,
    complaint: str,
) -> None:
    (tmp_path / "bad.schema").write_text(schema)
    assert generate("--schemas", tmp_path, "--messages", tmp_path / "out") == 2
    told = capsys.readouterr().err
    assert complaint in told
    assert "bad.schema" in told
    assert not (tmp_path / "out").exists()


def test_check_tells_what_is_stale(
    tmp_path: Path, generate: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "two.schema").write_text(RECORDS)
    out = tmp_path / "out"
    assert generate("--schemas", tmp_path, "--messages", out) == 0
    assert generate("--schemas", tmp_path, "--messages", out, "--check") == 0

    (tmp_path / "two.schema").write_text(RECORDS.replace("nick ", "name "))
    (out / "left_over.py").write_text("pass")
    assert generate("--schemas", tmp_path, "--messages", out, "--check") == 1
    told = capsys.readouterr().err
    assert "+    name: str" in told
    assert "2 files of wire/messages are stale" in told

    assert generate("--schemas", tmp_path, "--messages", out) == 0
    assert not (out / "left_over.py").exists()
