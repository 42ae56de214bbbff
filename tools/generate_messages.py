"""Writes `src/headrace/wire/messages` from `src/headrace/wire/schemas`.

python tools/generate_messages.py            write what has changed
python tools/generate_messages.py --check    write nothing; fail if a file is not what its schema says
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from pathlib import Path

from message_code import StructWriter, layout_name
from schema_language import Block, SchemaError, SchemaFile, read_schema

WIRE = Path(__file__).resolve().parent.parent / "src" / "headrace" / "wire"
DIFF_LINES_SHOWN_MAX = 40


def module_text(schema: SchemaFile, source: str) -> str:
    layouts: set[str] = set()
    classes: list[str] = []
    for block in schema.blocks:
        structs = {struct.name: struct for message in block.messages for struct in message.structs}
        for message in block.messages:
            for struct in [*message.structs, message.body]:
                classes += ["", "", *StructWriter(struct, message, structs, layouts).lines()]
    return "\n".join([*_head(schema, source, "\n".join(classes), layouts), *classes]) + "\n"


def _head(schema: SchemaFile, source: str, code: str, layouts: set[str]) -> list[str]:
    def used(*names: str) -> list[str]:
        return [name for name in names if re.search(rf"\b{name}\b", code)]

    lines = [
        f"# Generated from {source} by tools/generate_messages.py; do not edit.",
        f'"""{schema.about[0] if schema.about else schema.module}"""',
        "",
        "from __future__ import annotations",
        "",
        f"from dataclasses import {', '.join(['dataclass', *used('field')])}",
    ]
    if layouts:
        lines.append("from struct import Struct")
    lines.append(f"from typing import {', '.join([*used('ClassVar'), 'Self'])}")
    lines.append("")
    if names := used("NO_TOPIC_ID", "TopicId"):
        lines.append(f"from headrace.model.names import {', '.join(names)}")
    lines.append(f"from headrace.wire.primitives import {', '.join(used('Reader', 'Writer', 'required', 'unsayable'))}")
    if layouts:
        lines.append("")
        lines += [f'{layout_name(letters)} = Struct(">{letters}")' for letters in sorted(layouts)]
    return lines


def index_text(schemas: list[SchemaFile]) -> str:
    """`messages/__init__.py`: all the APIs, without importing one of them."""
    apis = [(schema, block) for schema in schemas for block in schema.blocks if block.kind == "api"]
    apis.sort(key=lambda pair: pair[1].key or 0)
    lines = [
        "# Generated from wire/schemas by tools/generate_messages.py; do not edit.",
        '"""The messages, one module per API. Import the module you need: all together cost start-up time."""',
        "",
        "from __future__ import annotations",
        "",
        "from enum import IntEnum",
        "",
        "",
        "class ApiKey(IntEnum):",
        *(f"    {_snake(block.name).upper()} = {block.key}" for _, block in apis),
        "",
        "",
        "# Name, module, decoded versions (first, last), advertised versions (first, last), flexible from.",
        "TABLE: dict[int, tuple[str, str, int, int, int, int, int | None]] = {",
        *(f"    {block.key}: {_row(schema, block)}," for schema, block in apis),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _row(schema: SchemaFile, block: Block) -> str:
    flexible_from = block.flexible.first if block.flexible else None
    ranges = f"{block.versions.first}, {block.versions.last}, {block.advertised.first}, {block.advertised.last}"
    return f'("{block.name}", "{schema.module}", {ranges}, {flexible_from})'


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def generate(schemas: Path) -> dict[str, str]:
    """File name to text, for all that belongs in `messages/`."""
    read = [read_schema(path) for path in sorted(schemas.glob("*.schema"))]
    texts = {f"{schema.module}.py": module_text(schema, f"schemas/{schema.module}.schema") for schema in read}
    return {"__init__.py": index_text(read), **texts}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if something would change")
    parser.add_argument("--schemas", type=Path, default=WIRE / "schemas")
    parser.add_argument("--messages", type=Path, default=WIRE / "messages")
    options = parser.parse_args(arguments)
    try:
        wanted = generate(options.schemas)
    except SchemaError as problem:
        print(f"schema error: {problem}", file=sys.stderr)
        return 2
    present = {path.name: path.read_text(encoding="utf-8") for path in options.messages.glob("*.py")}
    changed = sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))
    if options.check:
        return _report(changed, wanted, present)
    options.messages.mkdir(exist_ok=True)
    for name in changed:
        if name in wanted:
            (options.messages / name).write_text(wanted[name], encoding="utf-8")
        else:
            (options.messages / name).unlink()
    return 0


def _report(changed: list[str], wanted: dict[str, str], present: dict[str, str]) -> int:
    for name in changed:
        old, new = present.get(name, "").splitlines(), wanted.get(name, "").splitlines()
        difference = list(difflib.unified_diff(old, new, f"messages/{name}", "as its schema says", lineterm="", n=1))
        print("\n".join(difference[:DIFF_LINES_SHOWN_MAX]), file=sys.stderr)
    if changed:
        print(f"{len(changed)} files of wire/messages are stale: run `make generate`", file=sys.stderr)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
