"""`python -m tools.shape`: what a stranger would trip over, counted. With `--check`: fails where a limit is broken.

Rooms are folders of `src/`; a room's files do not count those of the rooms inside it. What is above a limit for a
reason says so beside it: a comment `# size: why` on the line of the `class` or `def`, or above it.
"""

from __future__ import annotations

import argparse
import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "src"
GENERATED: Final = SOURCE / "headrace" / "wire" / "messages"

FILES_MAX: Final = 15
CLASS_MAX: Final = 300  # lines
ARGUMENTS_MAX: Final = 7  # of a constructor
FUNCTION_MAX: Final = 60  # lines
REASON: Final = "# size: "

Definition = ast.FunctionDef | ast.AsyncFunctionDef


class Found(NamedTuple):
    size: int
    name: str
    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.size:5}  {self.name}  ({self.place}){': ' if self.reason else ''}{self.reason}"


def sources() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if GENERATED not in path.parents)


def rooms() -> list[Found]:
    """Folders with more files than one takes in at a glance; `__init__` and `__main__` are their doors."""
    found = []
    for folder in sorted({path.parent for path in sources()}):
        files = [path for path in folder.glob("*.py") if not path.stem.startswith("__")]
        if len(files) > FILES_MAX:
            found.append(Found(len(files), str(folder.relative_to(SOURCE)), "files", _reason_of_room(folder)))
    return found


def _reason_of_room(folder: Path) -> str:
    lines = (folder / "__init__.py").read_text().splitlines()
    return next((line.removeprefix(REASON) for line in lines if line.startswith(REASON)), "")


def classes(path: Path, tree: ast.Module, lines: list[str]) -> Iterator[Found]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and _length(node) > CLASS_MAX:
            yield _found(_length(node), node, path, lines)


def constructors(path: Path, tree: ast.Module, lines: list[str]) -> Iterator[Found]:
    """Frozen values are their fields, and not counted: a record of nine fields is a record."""
    for owner in ast.walk(tree):
        if not isinstance(owner, ast.ClassDef):
            continue
        for node in owner.body:
            if isinstance(node, Definition) and node.name == "__init__":
                count = len(node.args.posonlyargs) + len(node.args.args) + len(node.args.kwonlyargs) - 1
                if count > ARGUMENTS_MAX:
                    yield _found(count, owner, path, lines)


def functions(path: Path, tree: ast.Module, lines: list[str]) -> Iterator[Found]:
    for node in ast.walk(tree):
        if isinstance(node, Definition) and _length(node) > FUNCTION_MAX:
            yield _found(_length(node), node, path, lines)


def takers_of_node() -> list[str]:
    """Modules that import the class of a whole living node."""
    takers = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.endswith("broker.node"):
                takers += [str(path.relative_to(SOURCE)) for name in node.names if name.name == "Node"]
    return takers


def _length(node: ast.ClassDef | Definition) -> int:
    """From its first line to its last, decorators left out."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _found(count: int, node: ast.ClassDef | Definition, path: Path, lines: list[str]) -> Found:
    first = min([node.lineno, *(it.lineno for it in node.decorator_list)])
    beside = [lines[node.lineno - 1], *lines[max(0, first - 4) : first - 1]]
    reason = next((line.partition(REASON)[2] for line in beside if REASON in line), "")
    return Found(count, node.name, f"{path.relative_to(SOURCE)}:{node.lineno}", reason)


def count() -> dict[str, list[Found]]:
    measures: dict[str, list[Found]] = {
        f"rooms with more than {FILES_MAX} files": rooms(),
        f"classes of more than {CLASS_MAX} lines": [],
        f"constructors with more than {ARGUMENTS_MAX} arguments": [],
        f"functions of more than {FUNCTION_MAX} lines": [],
    }
    for path in sources():
        text = path.read_text()
        tree, lines = ast.parse(text), text.splitlines()
        for title, look in zip(list(measures)[1:], (classes, constructors, functions), strict=True):
            measures[title] += look(path, tree, lines)
    return measures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.shape", description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where a limit is broken without a reason beside it")
    asked = parser.parse_args()
    measures = count()
    takers = takers_of_node()
    for title, found in measures.items():
        print(f"{title}: {len(found)}, {sum(not it.reason for it in found)} of them without a reason")
        for it in sorted(found, reverse=True):
            print(f"  {it}")
    print(f"modules that import Node: {len(takers)}")
    for taker in takers:
        print(f"         {taker}")
    broken = sum(not it.reason for found in measures.values() for it in found)
    return 1 if asked.check and broken else 0


if __name__ == "__main__":
    sys.exit(main())
