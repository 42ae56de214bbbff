"""Write the map of rooms in ARCHITECTURE.md from what each room's `__init__` says of itself.

python -m tools.write_rooms_map           write it
python -m tools.write_rooms_map --check   exit 1 if it is out of date, or a room does not say what it is for
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "src"
PAGE: Final = ROOT / "ARCHITECTURE.md"
BEGIN: Final = "<!-- rooms: written by tools/write_rooms_map.py from each room's __init__; do not edit -->\n"
END: Final = "<!-- end of rooms -->\n"
PURE: Final = ("raft", "metadata", "replication", "coordinators", "wire", "model")
"""Of `headrace`: an import contract keeps clock, disk, network, chance and logging out of them."""


def rooms() -> list[Path]:
    """Each house before its rooms, and each room before those inside it."""
    return sorted(path.parent for path in SOURCE.rglob("__init__.py"))


def sentence_of(room: Path) -> str:
    docstring = ast.get_docstring(ast.parse((room / "__init__.py").read_text()))
    return "" if docstring is None else " ".join(docstring.split("\n\n")[0].split())


def written() -> str:
    lines = ["| Room | What it is for, and what it may touch |\n", "|---|---|\n"]
    for room in rooms():
        house, *inner = room.relative_to(SOURCE).parts
        mark = " ◇" if house == "headrace" and inner[:1] and inner[0] in PURE else ""
        name = f"**`{house}`**" if not inner else f"`{'/'.join(inner)}/`{mark}"
        lines.append(f"| {name} | {sentence_of(room)} |\n")
    return "".join(lines)


def main() -> int:
    silent = [str(room.relative_to(SOURCE)) for room in rooms() if not sentence_of(room)]
    if silent:
        print(f"these rooms do not say what they are for: {', '.join(silent)}", file=sys.stderr)
        return 1
    page = PAGE.read_text()
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    assert pattern.search(page), f"{PAGE.name} has no place for the map"
    wanted = pattern.sub(lambda _: BEGIN + written() + END, page)
    if "--check" not in sys.argv:
        PAGE.write_text(wanted)
    elif wanted != page:
        print(f"the map of rooms in {PAGE.name} is out of date: run `make generate`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
