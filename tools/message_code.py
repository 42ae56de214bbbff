"""Turns one struct of a schema into the text of its class: fields, `decode`, `encode`."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field

from schema_language import FIXED, NUMBERS, Field, Message, SchemaError, StructSchema, Versions

WIDTH = 120


# Types and defaults


def python_type(part: Field) -> str:
    if part.is_array:
        inner = f"list[{_element_type(part)}]"
    elif part.type == "records":
        return "bytes | memoryview | None"
    else:
        inner = _element_type(part)
    return f"{inner} | None" if part.nullable else inner


def _element_type(part: Field) -> str:
    plain = {"bool": "bool", "float64": "float", "uuid": "TopicId", "string": "str", "bytes": "bytes"}
    return part.type if part.is_struct else plain.get(part.type, "int")


def default_value(part: Field) -> str:
    """The default as a Python expression."""
    if part.default == "null" or (part.type == "records" and part.default is None):
        return "None"
    if part.is_array:
        return "[]"
    if part.is_struct:
        return f"{part.type}()"
    match part.type:
        case "string":
            return f'"{part.default or ""}"'
        case "bytes":
            return 'b""'
        case "uuid":
            return "NO_TOPIC_ID"
        case "bool":
            return str(part.default == "true")
        case "float64":
            return str(float(part.default or 0))
        case _:
            return str(int(part.default or 0))


def differs_from_default(part: Field) -> str:
    value, default = f"self.{part.name}", default_value(part)
    if default == "None":
        return f"{value} is not None"
    if default == "False" or (default == "[]" and not part.nullable):
        return value
    if default == "True":
        return f"not {value}"
    return f"{value} != {default}"


def size_min(struct: StructSchema, message: Message, structs: dict[str, StructSchema]) -> int:
    """The fewest bytes that one `struct` takes in any version: what an array's count is checked against."""
    assert struct.reach is not None
    reach = struct.reach.within(message.versions)
    assert reach is not None
    return max(1, min(_size_min_at(struct, version, message, structs) for version in reach))


def _size_min_at(struct: StructSchema, version: int, message: Message, structs: dict[str, StructSchema]) -> int:
    compact = message.flexible is not None and message.flexible.covers(version)
    total = 1 if compact else 0  # the count of tagged fields
    for part in struct.fields:
        if part.tag is not None or not part.versions.covers(version):
            continue
        if part.is_array or part.type in {"bytes", "records"}:
            total += 1 if compact else 4
        elif part.type == "string":
            total += 1 if compact else 2
        elif part.is_struct:
            total += 1 if part.nullable else _size_min_at(structs[part.type], version, message, structs)
        else:
            total += FIXED[part.type][1]
    return total


# Conditions on the version


def condition(versions: Versions, within: Versions) -> str:
    """When `versions` holds, given that the version lies `within`; empty if always."""
    clipped = versions.within(within)
    if clipped is None:
        raise SchemaError(f"versions {versions.first}-{versions.last} never occur")
    if clipped == within:
        return ""
    if clipped.last == within.last:
        return f"version >= {clipped.first}"
    if clipped.first == within.first:
        return f"version <= {clipped.last}"
    if clipped.first == clipped.last:
        return f"version == {clipped.first}"
    return f"{clipped.first} <= version <= {clipped.last}"


def opposite(when: str) -> str:
    return when.replace(">=", "<") if when.startswith("version >=") else f"not {when}"


# Code


@dataclass
class Code:
    """Lines of Python under construction, at some depth."""

    depth: int = 0
    lines: list[str] = field(default_factory=list)

    def add(self, line: str = "", deeper: int = 0) -> None:
        self.lines.append(("    " * (self.depth + deeper) + line) if line else "")

    def commented(self, line: str, comment: str) -> None:
        if comment and self._fits(f"{line}  # {comment}"):
            line = f"{line}  # {comment}"
        elif comment:
            self.add(f"# {comment}")
        self.add(line)

    def assign(self, target: str, value: str, when: str = "", otherwise: str = "") -> None:
        line = f"{target} = {value}" + (f" if {when} else {otherwise}" if when else "")
        if self._fits(line):
            self.add(line)
        elif when:
            self.add(f"{target} = (")
            self.add(value, 1)
            self.add(f"if {when}", 1)
            self.add(f"else {otherwise}", 1)
            self.add(")")
        else:
            self._wrapped("(", target, f") = {value}")

    def call(self, function: str, arguments: list[str]) -> None:
        listed = ", ".join(arguments)
        if self._fits(f"{function}({listed})"):
            self.add(f"{function}({listed})")
        else:
            self._wrapped(f"{function}(", listed, ")")

    def _fits(self, line: str) -> bool:
        return len(line) + 4 * self.depth <= WIDTH

    def _wrapped(self, opening: str, listed: str, closing: str) -> None:
        indent = "    " * (self.depth + 1)
        self.add(opening)
        self.lines += textwrap.wrap(listed + ",", WIDTH, initial_indent=indent, subsequent_indent=indent)
        self.add(closing)


@dataclass
class StructWriter:
    """Writes the class of one struct or message body."""

    struct: StructSchema
    message: Message
    structs: dict[str, StructSchema]
    layouts: set[str]  # formats of the struct.Structs that the module needs

    def __post_init__(self) -> None:
        assert self.struct.reach is not None
        reach = self.struct.reach.within(self.message.versions)
        assert reach is not None
        self.reach = reach
        parts = [part for part in self.struct.fields if part.versions.within(reach)]
        self.plain = [part for part in parts if part.tag is None]
        self.tagged = sorted((part for part in parts if part.tag is not None), key=lambda part: part.tag or 0)
        self.parts = parts
        flexible = self.message.flexible and self.message.flexible.within(reach)
        self.flexible_when = condition(flexible, reach) if flexible else ""
        # How generated code says whether lengths are compact: a variable only where both ways occur.
        self.compact = "False" if not flexible else "compact" if self.flexible_when else "True"

    def lines(self) -> list[str]:
        code = Code()
        code.add("@dataclass(slots=True)")
        code.add(f"class {self.struct.name}:")
        code.depth = 1
        self._class_variables(code)
        for part in self.parts:
            code.commented(f"{part.name}: {python_type(part)} = {self._field_default(part)}", part.comment)
        if self.parts:
            code.add()
        self._decode(code)
        code.add()
        self._encode(code)
        return code.lines

    def _class_variables(self, code: Code) -> None:
        if self.struct is not self.message.body:
            return
        if self.message.key is not None:
            code.add(f"{self.message.kind.upper()}_KEY: ClassVar[int] = {self.message.key}")
        versions = self.message.versions
        code.add(f"VERSIONS: ClassVar[tuple[int, int]] = ({versions.first}, {versions.last})")
        flexible_from = self.message.flexible.first if self.message.flexible else None
        code.add(f"FLEXIBLE_FROM: ClassVar[int | None] = {flexible_from}")
        code.add()

    def _field_default(self, part: Field) -> str:
        default = default_value(part)
        if default == "[]":
            return "field(default_factory=list)"
        return f"field(default_factory={part.type})" if default == f"{part.type}()" else default

    # Decoding

    def _decode(self, code: Code) -> None:
        code.add("@classmethod")
        code.add("def decode(cls, reader: Reader, version: int) -> Self:")
        code.depth += 1
        body = Code(code.depth)
        for run in self._runs():
            self._decode_run(body, run)
        self._decode_tags(body)
        body.call("return cls", [part.name for part in self.parts])
        self._say_compact(code, body)
        code.lines += body.lines
        code.depth -= 1

    def _say_compact(self, code: Code, body: Code) -> None:
        if self.compact == "compact" and any(re.search(r"\bcompact\b", line) for line in body.lines):
            code.add(f"compact = {self.flexible_when}")

    def _decode_run(self, code: Code, run: list[Field]) -> None:
        when = condition(run[0].versions, self.reach)
        names = ", ".join(part.name for part in run)
        defaults = ", ".join(default_value(part) for part in run)
        if len(run) > 1:
            code.assign(names, f"reader.unpack({self._layout(run)})", when, f"({defaults})")
            return
        value, null_when, otherwise = self._read(run[0], self.compact)
        if when and null_when:
            code.add(f"{names}: {python_type(run[0])} = {defaults}")
            code.add(f"if {when}:")
            code.depth += 1
            code.assign(names, value, null_when, otherwise)
            code.depth -= 1
        else:
            code.assign(names, value, when or null_when, defaults if when else otherwise)

    def _read(self, part: Field, compact: str) -> tuple[str, str, str]:
        """How to read a value that is there; if that depends: on what, and how to read it otherwise."""
        if part.is_struct and not part.is_array:
            value = f"{part.type}.decode(reader, version)"
            return (value, "reader.int8() >= 0", "None") if part.nullable else (value, "", "")
        plain, nullable = self._reads(part, compact)
        null_in = part.nullable.within(self._present(part)) if part.nullable else None
        if null_in is None:
            return plain, "", ""
        return nullable, condition(null_in, self._present(part)), plain

    def _reads(self, part: Field, compact: str) -> tuple[str, str]:
        """How to read the value where it cannot be null, and where it can."""
        name = _method(part)
        if part.is_array and part.is_struct:
            least = size_min(self.structs[part.type], self.message, self.structs)
            arguments = f"{part.type}.decode, version, {compact}, {least}"
        elif part.is_array and part.type in NUMBERS:
            arguments = f'"{NUMBERS[part.type][0]}"' + ("" if compact == "False" else f", {compact}")
        elif part.is_fixed:
            arguments = ""
        else:
            arguments = "" if compact == "False" else compact
        if part.type == "records":
            name = "view"
        return f"reader.{name}({arguments})", f"reader.nullable_{name}({arguments})"

    def _decode_tags(self, code: Code) -> None:
        if self.compact == "False":
            return
        for part in self.tagged:
            code.add(f"{part.name}: {python_type(part)} = {default_value(part)}")
        if self.compact == "compact":
            code.add("if compact:")
            code.depth += 1
        if not self.tagged:
            code.add("reader.skip_tagged_fields()")
        else:
            code.add("for tag in reader.tagged_fields():")
            for word, part in zip(["if"] + ["elif"] * len(self.tagged), self.tagged, strict=False):
                when = condition(part.versions, self._flexible_reach())
                code.add(f"{word} tag == {part.tag}{' and ' + when if when else ''}:", 1)
                code.depth += 2
                code.assign(part.name, *self._read(part, "True"))
                code.depth -= 2
        if self.compact == "compact":
            code.depth -= 1

    # Encoding

    def _encode(self, code: Code) -> None:
        code.add("def encode(self, writer: Writer, version: int) -> None:")
        code.depth += 1
        body = Code(code.depth)
        for run in self._runs():
            self._encode_run(body, run)
        self._encode_tags(body)
        self._say_compact(code, body)
        code.lines += body.lines
        if not body.lines:
            code.add("pass")
        code.depth -= 1

    def _encode_run(self, code: Code, run: list[Field]) -> None:
        when = condition(run[0].versions, self.reach)
        if when:
            code.add(f"if {when}:")
            code.depth += 1
        if len(run) > 1:
            code.call("writer.pack", [self._layout(run), *(f"self.{part.name}" for part in run)])
        else:
            self._write(code, run[0], self.compact, "writer")
        if when:
            code.depth -= 1
            self._refuse(code, [part for part in run if not part.ignorable])

    def _refuse(self, code: Code, parts: list[Field]) -> None:
        """In versions without these fields, a value that is not the default must not vanish silently."""
        for part in parts:
            code.add(f"elif {differs_from_default(part)}:")
            code.add(f'raise unsayable("{self.struct.name}.{part.name}", version)', 1)

    def _write(self, code: Code, part: Field, compact: str, writer: str) -> None:
        value = f"self.{part.name}"
        if part.is_struct and not part.is_array:
            if part.nullable:
                code.add(f"if {value} is None:")
                code.add(f"{writer}.int8(-1)", 1)
                code.add("else:")
                code.depth += 1
                code.add(f"{writer}.int8(1)")
            code.add(f"{value}.encode({writer}, version)")
            code.depth -= 1 if part.nullable else 0
            return
        may_be_null = part.nullable or part.type == "records"
        null_in = part.nullable.within(self._present(part)) if part.nullable else None
        when = condition(null_in, self._present(part)) if null_in else ""
        checked = f'required({value}, "{self.struct.name}.{part.name}", version)' if may_be_null else value
        if null_in is None:
            code.add(self._writes(part, compact, writer, "", checked))
        elif not when:
            code.add(self._writes(part, compact, writer, "nullable_", value))
        else:
            code.add(f"if {when}:")
            code.add(self._writes(part, compact, writer, "nullable_", value), 1)
            code.add("else:")
            code.add(self._writes(part, compact, writer, "", checked), 1)

    def _writes(self, part: Field, compact: str, writer: str, nullable: str, value: str) -> str:
        name = nullable + _method(part)
        if part.is_fixed:
            return f"{writer}.{name}({value})"
        if part.is_array and part.is_struct:
            return f"{writer}.{name}({value}, version, {compact})"
        flag = "" if compact == "False" else f", {compact}"
        if part.is_array and part.type in NUMBERS:
            return f'{writer}.{name}("{NUMBERS[part.type][0]}", {value}{flag})'
        return f"{writer}.{name}({value}{flag})"

    def _encode_tags(self, code: Code) -> None:
        if self.compact == "False":
            return
        if self.compact == "compact":
            code.add("if compact:")
            code.depth += 1
        if not self.tagged:
            code.add("writer.no_tagged_fields()")
        else:
            code.add("tagged: list[tuple[int, Writer]] = []")
            for part in self.tagged:
                self._encode_tag(code, part)
            code.add("writer.tagged_fields(tagged)")
        if self.compact == "compact":
            code.depth -= 1
        self._refuse_tags(code)

    def _encode_tag(self, code: Code, part: Field) -> None:
        when = condition(part.versions, self._flexible_reach())
        code.add(f"if {when + ' and ' if when else ''}{differs_from_default(part)}:")
        code.depth += 1
        code.add("value = Writer()")
        self._write(code, part, "True", "value")
        code.add(f"tagged.append(({part.tag}, value))")
        code.depth -= 1

    def _refuse_tags(self, code: Code) -> None:
        for part in self.tagged:
            when = condition(part.versions, self.reach)
            if when and not part.ignorable:
                code.add(f"if {opposite(when)} and {differs_from_default(part)}:")
                code.add(f'raise unsayable("{self.struct.name}.{part.name}", version)', 1)

    # What both need

    def _runs(self) -> list[list[Field]]:
        """Neighbouring fields of fixed size that come and go together: one struct.Struct reads them all."""
        runs: list[list[Field]] = []
        for part in self.plain:
            last = runs[-1][-1] if runs else None
            if last and part.is_fixed and last.is_fixed and self._present(part) == self._present(last):
                runs[-1].append(part)
            else:
                runs.append([part])
        return runs

    def _layout(self, run: list[Field]) -> str:
        letters = "".join(FIXED[part.type][0] for part in run)
        self.layouts.add(letters)
        return layout_name(letters)

    def _present(self, part: Field) -> Versions:
        present = part.versions.within(self.reach)
        assert present is not None
        return present

    def _flexible_reach(self) -> Versions:
        assert self.message.flexible is not None
        reach = self.message.flexible.within(self.reach)
        assert reach is not None
        return reach


def _method(part: Field) -> str:
    """The name of the Reader's and Writer's method for a type."""
    if part.is_array:
        if part.is_struct:
            return "array"
        return "numbers" if part.type in NUMBERS else f"{part.type}s"
    return {"bool": "boolean", "bytes": "blob", "records": "blob"}.get(part.type, part.type)


def layout_name(letters: str) -> str:
    return "_" + letters.replace("?", "t").replace("16s", "u")
