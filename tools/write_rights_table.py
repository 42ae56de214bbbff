"""Write the table of rights in docs/security.md from what each API's file declares, so that page and gate cannot drift.

python -m tools.write_rights_table           write it
python -m tools.write_rights_table --check   exit 1 if it is out of date
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.access.operations import ResourceType
from headrace.servers.kafka.apis import SERVED
from headrace.servers.kafka.rights import ANY_OF_ITS_KIND, NEWEST, Choice, Right, Rights
from headrace.wire.api import APIS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.servers.kafka.rights import Each

PAGE: Final = Path(__file__).parents[1] / "docs" / "security.md"
BEGIN: Final = "<!-- rights: written by tools/write_rights_table.py from the RIGHTS of each API; do not edit -->\n"
END: Final = "<!-- end of rights -->\n"

REQUEST, ITEMS, LISTED = "the request", "each by itself", "left out"


class Taken(NamedTuple):
    right: str
    thing: str
    refused: str
    since: int = 0
    until: int = NEWEST


def written() -> str:
    lines = ["| API | Right | On | What is refused |\n", "|---|---|---|---|\n"]
    for key in sorted(SERVED, key=lambda key: APIS[key].name):
        rights = import_module(f"headrace.servers.kafka.handlers.{SERVED[key]}").RIGHTS
        lines += [f"| {APIS[key].name} | {row}\n" for row in _rows(rights)]
    return "".join(lines)


def _rows(rights: Rights) -> Iterator[str]:
    """What is asked in the same way in older and newer versions, in one row."""
    rows: dict[tuple[str, str], list[Taken]] = {}
    for taken in _taken(rights):
        rows.setdefault((taken.right, taken.thing), []).append(taken)
    for (right, thing), found in rows.items():
        refused = ", ".join(dict.fromkeys(taken.refused for taken in found))
        versions = _versions(min(taken.since for taken in found), max(taken.until for taken in found))
        yield f"{right} | {thing} | {refused}{versions} |"
    if not rows:
        yield f"none | | nothing: {rights.nothing or 'it says what somebody may do, as it is'} |"


def _taken(rights: Rights) -> Iterator[Taken]:
    for asked in rights.whole:
        yield from _of(asked, REQUEST)
    for each in rights.each:
        yield from _of_each(each)
    for right in rights.inside:
        yield from _of(right, ITEMS)
    for listed in rights.listed:
        yield from _of(listed.right, LISTED)
    for right in rights.seen:
        yield from _of(right, LISTED)


def _of_each(each: Each) -> Iterator[Taken]:
    if each.right is not None:
        yield from _of(each.right, ITEMS, each.since, each.until)
        if each.all is not None:
            yield from _of(each.right, LISTED)
    if each.inside is not None:
        yield from _of_each(each.inside)


def _of(asked: Right | Choice, refused: str, since: int = 0, until: int = NEWEST) -> Iterator[Taken]:
    for right in asked.among if isinstance(asked, Choice) else (asked,):
        yield Taken(right.operation.name, _thing(right), refused, max(right.since, since), min(right.until, until))


def _thing(right: Right) -> str:
    kind = right.kind.name.lower().replace("_", " ")
    if right.name == ANY_OF_ITS_KIND and right.kind is not ResourceType.CLUSTER:
        kind = f"any {kind}"
    return kind if right.or_on_cluster is None else f"{kind}, or {right.or_on_cluster.name} on the cluster"


def _versions(since: int, until: int) -> str:
    if until != NEWEST:
        return f" (up to version {until})"
    return f" (from version {since} on)" if since else ""


def main() -> int:
    page = PAGE.read_text()
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    assert pattern.search(page), f"{PAGE.name} has no place for the table"
    wanted = pattern.sub(lambda _: BEGIN + written() + END, page)
    if "--check" not in sys.argv:
        PAGE.write_text(wanted)
    elif wanted != page:
        print(f"the table of rights in {PAGE.name} is out of date: run `make generate`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
