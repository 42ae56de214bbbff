"""Reads the message schemas of `src/headrace/wire/schemas`; the language is described in the README there."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NUMBERS = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
}
FIXED = {**NUMBERS, "uuid": ("16s", 16)}
"""Types of fixed size: struct's letter and the size in bytes."""
VARIABLE = frozenset({"string", "bytes", "records"})
INDENT = 2


class SchemaError(Exception):
    """A schema file says something that the language has no meaning for."""


@dataclass(frozen=True)
class Versions:
    """An inclusive range; `last` is None while it has no end."""

    first: int
    last: int | None

    @classmethod
    def parse(cls, text: str) -> Versions:
        if match := re.fullmatch(r"(\d+)(\+|-(\d+))?", text):
            first = int(match[1])
            if match[2] == "+":
                return cls(first, None)
            return cls(first, int(match[3]) if match[3] else first)
        raise SchemaError(f"{text!r} is not a version range such as 3+, 3-7 or 3")

    def within(self, outer: Versions) -> Versions | None:
        """The part of this range that lies in `outer`."""
        first = max(self.first, outer.first)
        lasts = [last for last in (self.last, outer.last) if last is not None]
        last = min(lasts, default=None)
        return None if last is not None and last < first else Versions(first, last)

    def hull(self, other: Versions) -> Versions:
        """The least range around both."""
        last = None if self.last is None or other.last is None else max(self.last, other.last)
        return Versions(min(self.first, other.first), last)

    def covers(self, version: int) -> bool:
        return self.first <= version and (self.last is None or version <= self.last)

    def __iter__(self) -> Iterator[int]:
        assert self.last is not None
        return iter(range(self.first, self.last + 1))


@dataclass
class Field:
    name: str
    type: str
    is_array: bool
    versions: Versions
    nullable: Versions | None = None
    tag: int | None = None
    ignorable: bool = False
    default: str | None = None  # as written; None if the schema leaves it to the type
    comment: str = ""

    @property
    def is_fixed(self) -> bool:
        return self.type in FIXED and not self.is_array

    @property
    def is_struct(self) -> bool:
        return self.type[0].isupper()


@dataclass
class StructSchema:
    name: str
    fields: list[Field]
    reach: Versions | None = None
    """The versions in which a message can hold this struct; None as long as nothing refers to it."""


@dataclass
class Message:
    """What is encoded on its own: a request, a response or a record."""

    kind: str  # "api" or "record"
    name: str
    body: StructSchema
    structs: list[StructSchema]  # what it refers to, parts before wholes
    key: int | None
    versions: Versions
    flexible: Versions | None


@dataclass
class Block:
    """One `api` or `record` of a schema file."""

    kind: str
    key: int | None
    name: str
    versions: Versions
    advertised: Versions
    flexible: Versions | None
    messages: list[Message]


@dataclass
class SchemaFile:
    module: str
    about: list[str]  # the comment that opens the file
    blocks: list[Block]


@dataclass
class _Line:
    number: int
    depth: int
    words: list[str]
    comment: str


@dataclass
class _Draft:
    """A block while its lines are being read."""

    kind: str
    key: int | None
    name: str
    settings: dict[str, str] = field(default_factory=dict)
    sections: dict[str, list[Field]] = field(default_factory=dict)
    structs: dict[str, StructSchema] = field(default_factory=dict)


def read_schema(path: Path) -> SchemaFile:
    text = path.read_text(encoding="utf-8")
    try:
        blocks = _read_blocks(list(_lines(text)))
    except SchemaError as problem:
        raise SchemaError(f"{path.name}: {problem}") from None
    about = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        about.append(line.removeprefix("#").strip())
    return SchemaFile(path.stem, about, blocks)


def _read_blocks(lines: list[_Line]) -> list[Block]:
    blocks: list[Block] = []
    at = 0
    while at < len(lines):
        draft, at = _read_block(lines, at)
        blocks.append(_finish(draft))
    messages = [message for block in blocks for message in block.messages]
    names = [struct.name for message in messages for struct in [message.body, *message.structs]]
    if twice := {name for name in names if names.count(name) > 1}:
        raise SchemaError(f"more than one class is called {', '.join(sorted(twice))}")
    return blocks


def _lines(text: str) -> Iterator[_Line]:
    for number, line in enumerate(text.splitlines(), 1):
        code, _, comment = line.partition("#")
        if not code.strip():
            continue
        spaces = len(code) - len(code.lstrip())
        if spaces % INDENT:
            raise SchemaError(f"line {number}: indent by {INDENT} spaces")
        yield _Line(number, spaces // INDENT, code.split(), comment.strip())


def _read_block(lines: list[_Line], at: int) -> tuple[_Draft, int]:
    head = lines[at]
    match head.words:
        case [("api" | "record") as kind, key, name] if head.depth == 0 and key.isdecimal():
            draft = _Draft(kind, int(key), name)
        case ["record", name] if head.depth == 0:
            draft = _Draft("record", None, name)
        case _:
            raise SchemaError(f"line {head.number}: a block opens with 'api KEY NAME' or 'record [KEY] NAME'")
    at += 1
    while at < len(lines) and lines[at].words[0] not in {"api", "record"}:
        line = lines[at]
        match line.words:
            case [("versions" | "advertised" | "flexible") as setting, value] if line.depth == 1:
                draft.settings[setting] = value
                at += 1
            case [("request" | "response" | "fields") as section] if line.depth == 0:
                draft.sections[section], at = _read_fields(draft, lines, at + 1, 1)
            case ["struct", name] if line.depth == 0:
                fields, at = _read_fields(draft, lines, at + 1, 1)
                _define(draft, name, fields, line)
            case _:
                raise SchemaError(f"line {line.number}: {' '.join(line.words)!r} is not expected here")
    return draft, at


def _read_fields(draft: _Draft, lines: list[_Line], at: int, depth: int) -> tuple[list[Field], int]:
    fields: list[Field] = []
    while at < len(lines) and lines[at].depth >= depth:
        line = lines[at]
        if line.depth > depth:
            parts, at = _read_fields(draft, lines, at, depth + 1)
            if not fields or not fields[-1].is_struct:
                raise SchemaError(f"line {line.number}: only a struct has parts")
            _define(draft, fields[-1].type, parts, line)
            continue
        try:
            fields.append(_read_field(line))
        except SchemaError as problem:
            raise SchemaError(f"line {line.number}: {problem}") from None
        at += 1
    return fields, at


def _define(draft: _Draft, name: str, fields: list[Field], line: _Line) -> None:
    if name in draft.structs:
        raise SchemaError(f"line {line.number}: struct {name} is defined twice")
    draft.structs[name] = StructSchema(name, fields)


_EVER = Versions(0, None)


def _read_field(line: _Line) -> Field:
    if len(line.words) == 1:
        raise SchemaError(f"{line.words[0]} has no type")
    name, kind, *rest = line.words
    is_array = kind.startswith("[") and kind.endswith("]")
    kind = kind.strip("[]")
    if kind not in FIXED and kind not in VARIABLE and not kind[0].isupper():
        raise SchemaError(f"{kind} is not a type")
    made = Field(name, kind, is_array, _EVER, comment=line.comment)
    if rest and rest[0][0].isdigit():
        made.versions = Versions.parse(rest.pop(0))
    while rest:
        match rest:
            case ["nullable", versions, *more] if versions[0].isdigit():
                made.nullable, rest = Versions.parse(versions), more
            case ["nullable", *more]:
                made.nullable, rest = _EVER, more
            case ["tag", number, *more]:
                made.tag, rest = int(number), more
            case ["ignorable", *more]:
                made.ignorable, rest = True, more
            case ["=", value]:
                made.default, rest = value, []
            case _:
                raise SchemaError(f"{rest[0]!r} is not expected here")
    return made


def _finish(draft: _Draft) -> Block:
    wanted = {"request", "response"} if draft.kind == "api" else {"fields"}
    if set(draft.sections) != wanted:
        raise SchemaError(f"{draft.name}: the sections of a {draft.kind} are {', '.join(sorted(wanted))}")
    try:
        versions = Versions.parse(draft.settings["versions"])
        advertised = Versions.parse(draft.settings.get("advertised", draft.settings["versions"]))
        flexible_text = draft.settings["flexible"]
    except KeyError as missing:
        raise SchemaError(f"{draft.name}: no line says {missing.args[0]!r}") from None
    if versions.last is None or advertised.last is None:
        raise SchemaError(f"{draft.name}: its versions must end somewhere")
    flexible = None if flexible_text == "never" else Versions.parse(flexible_text)
    messages = []
    defined: set[str] = set()
    for section in ("request", "response", "fields"):
        if section in draft.sections:
            name = draft.name + {"request": "Request", "response": "Response", "fields": ""}[section]
            body = StructSchema(name, draft.sections[section], versions)
            structs = _reach(draft, body, defined)
            messages.append(Message(draft.kind, name, body, structs, draft.key, versions, flexible))
    if unused := set(draft.structs) - defined:
        raise SchemaError(f"{draft.name}: nothing refers to {', '.join(sorted(unused))}")
    return Block(draft.kind, draft.key, draft.name, versions, advertised, flexible, messages)


def _reach(draft: _Draft, body: StructSchema, defined: set[str]) -> list[StructSchema]:
    """The structs that `body` leads to, parts before wholes, each told in which versions it can occur."""
    found: list[StructSchema] = []

    def visit(whole: StructSchema) -> None:
        assert whole.reach is not None
        tags: set[int] = set()
        for part in whole.fields:
            _check(whole, part, tags)
            versions = part.versions.within(whole.reach)
            if not part.is_struct or versions is None:
                continue
            if part.type not in draft.structs:
                raise SchemaError(f"{whole.name}.{part.name}: nothing defines {part.type}")
            struct = draft.structs[part.type]
            struct.reach = versions if struct.reach is None else struct.reach.hull(versions)
            visit(struct)
            if struct.name not in defined:
                defined.add(struct.name)
                found.append(struct)

    visit(body)
    return found


def _check(whole: StructSchema, part: Field, tags: set[int]) -> None:
    place = f"{whole.name}.{part.name}"
    if part.nullable and part.type in FIXED and not part.is_array:
        raise SchemaError(f"{place}: a {part.type} cannot be null")
    if part.default == "null" and part.nullable is None and part.type != "records":
        raise SchemaError(f"{place}: the default is null, but the field is not nullable")
    if part.tag is not None:
        if part.tag in tags:
            raise SchemaError(f"{place}: tag {part.tag} is taken")
        if part.is_struct and not part.is_array and part.nullable:
            raise SchemaError(f"{place}: a tagged struct cannot be null, it can only be absent")
        tags.add(part.tag)
