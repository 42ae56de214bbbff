"""One table of a pipeline's file, read key by key. What is wrong is told with its line and a hint."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from headrace.model.names import topic_name_problem
from headrace_spark.pipeline.file.errors import PipelineError, choices_hint
from headrace_spark.pipeline.file.toml_lines import KeyLines, KeyPath, find_key_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

T = TypeVar("T")

_VARIABLE = re.compile(r"\$(\$(?=\{)|\{(?P<name>\w+)(?::-(?P<otherwise>[^}]*))?\})")
_SYNTAX_ERROR = re.compile(r"(?P<what>.*?) ?\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)")

_KINDS: dict[type, str] = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    list: "a list",
    dict: "a table",
}


@dataclass(frozen=True)
class TomlFile:
    """Where a file lies, and on which line each of its keys stands."""

    path: Path
    key_lines: KeyLines

    def error(self, key_path: KeyPath, problem: str, hint: str = "") -> PipelineError:
        """An error about the key at this path, with its line."""
        return PipelineError(self.path, self.key_lines.line_of(key_path), problem, hint)

    def resolve(self, text: str) -> str:
        """Paths in the file are relative to the file. An address such as s3a://… stays as it is."""
        if "://" in text:
            return text
        return str((self.path.parent / text).resolve())


def read_toml(path: Path) -> tuple[TomlFile, dict[str, object]]:
    """Read a file. Raises PipelineError if it cannot be read, or is not TOML."""
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise PipelineError(path, None, f"it cannot be read: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise PipelineError(path, line, "this line is not UTF-8", "save the file as UTF-8, as TOML asks") from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(path, text, error) from error
    # Line breaks are one character for tomllib, too.
    return TomlFile(path, find_key_lines(text.replace("\r\n", "\n"))), values


def _syntax_error(path: Path, text: str, error: tomllib.TOMLDecodeError) -> PipelineError:
    found = _SYNTAX_ERROR.fullmatch(str(error))
    if found is None:
        return PipelineError(path, None, f"this is not TOML: {error}")
    lines = text.splitlines() or [""]
    if found["line"] is None:
        number, where = len(lines), "at the end of the file"
    else:
        number, where = int(found["line"]), f"column {found['column']}"
    line = lines[min(number, len(lines)) - 1]
    what = found["what"][:1].lower() + found["what"][1:]
    return PipelineError(path, number, f"this is not TOML: {what} ({where})", _syntax_hint(line, found["what"]))


def _syntax_hint(line: str, what: str) -> str:
    """For the slips that everybody makes."""
    if "Cannot" in what:
        return "a key or table may stand there only once; tables that repeat have double brackets, as in [[source]]"
    if "nterminated" in what or "Illegal character '\\n'" in what:
        return 'close the string; text of several lines goes between """ and """'
    if re.match(r"\s*[\w.-]+\s*=\s*[A-Za-z$/]", line):
        return 'text goes between quotes, as in topic = "orders"'
    if re.match(r"\s*[\w.-]+\s*:", line):
        return "a key and its value are joined by an equals sign"
    if re.match(r"\s*\[", line):
        return "a table is [run], one of several is [[source]]"
    return 'each line is key = value, as in topic = "orders"'


class Section:
    """One table. Every method raises PipelineError if the value does not fit, and for keys that are not `known`."""

    def __init__(self, file: TomlFile, key_path: KeyPath, values: object, known: Collection[str]) -> None:
        self.file = file
        self.key_path = key_path
        self._known = frozenset(known)
        if not isinstance(values, dict):
            raise file.error(
                key_path, f"{key_path[-1]} must be a table, not {_shown(values)}", f"write [{key_path[-1]}] above it"
            )
        self._values: Mapping[str, object] = values
        for name in values:
            if name not in self._known:
                problem = f"{self.title} has no key '{name}'"
                raise file.error((*key_path, name), problem, choices_hint(name, self._known))

    @property
    def title(self) -> str:
        """As it stands in the file."""
        names = [part for part in self.key_path if isinstance(part, str)]
        if not names:
            return "the pipeline"
        return f"[[{'.'.join(names)}]]" if isinstance(self.key_path[-1], int) else f"[{'.'.join(names)}]"

    def __contains__(self, name: str) -> bool:
        assert name in self._known, f"{name} is missing among the keys of {self.title}"
        return name in self._values

    def error(self, name: str | None, problem: str, hint: str = "") -> PipelineError:
        """An error about this key, or with None about the table as a whole."""
        key_path = self.key_path if name is None else (*self.key_path, name)
        return self.file.error(key_path, f"{self.title} {problem}", hint)

    # ---- one value

    def text(self, name: str, default: str = "") -> str:
        """A string, its `${VARIABLES}` replaced."""
        value = self._typed(name, str, default)
        return self._with_variables(name, value)

    def required_text(self, name: str, example: str) -> str:
        """A string that must be there, and not be empty; `example` is shown if it is not."""
        if name not in self:
            raise self.error(None, f"needs '{name}'", f'for example {name} = "{example}"')
        value = self.text(name)
        if not value.strip():
            raise self.error(name, f"{name} is empty", f'for example {name} = "{example}"')
        return value

    def optional_text(self, name: str) -> str | None:
        """A string that may be left out, but not be empty."""
        return self.required_text(name, "…") if name in self else None

    def flag(self, name: str, *, default: bool) -> bool:
        """true or false."""
        return self._typed(name, bool, default)

    def count(self, name: str, default: int) -> int:
        """A whole number from 1 on."""
        value = self._typed(name, int, default)
        if value < 1:
            raise self.error(name, f"{name} is {value}", "it must be at least 1")
        return value

    def choice(self, name: str, choices: Collection[str], default: str) -> str:
        """One of these words."""
        value = self.text(name, default)
        if value not in choices:
            raise self.error(name, f"{name} is '{value}'", choices_hint(value, choices))
        return value

    def check_topic_name(self, topic: str) -> None:
        """Raises PipelineError if no topic can have this name."""
        if problem := topic_name_problem(topic):
            raise self.error("topic", f"topic: {problem}")

    def parsed(self, name: str, parse: Callable[[str], T], default: T) -> T:
        """A string that must have a certain form; `parse` says in a ValueError what is wrong."""
        if name not in self:
            return default
        try:
            return parse(self.text(name))
        except ValueError as error:
            raise self.error(name, f"{name}: {error}") from error

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings; a single string is a list of one."""
        value = self._values.get(name, []) if name in self else []
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            raise self.error(name, f"{name} must be a string or a list of strings, not {_shown(value)}")
        return tuple(self._with_variables(name, item) for item in value)

    def raw(self, name: str) -> object:
        """The value as it is, for a key that takes several types."""
        return self._values.get(name) if name in self else None

    def _typed(self, name: str, kind: type[T], default: T) -> T:
        if name not in self:
            return default
        value = self._values[name]
        # true is no number, though Python thinks so
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.error(name, f"{name} must be {_KINDS[kind]}, not {_shown(value)}", self._type_hint(name, kind))
        return value

    def _type_hint(self, name: str, kind: type[object]) -> str:
        value = self._values[name]
        if kind is str and isinstance(value, (int, float)):
            return f'put it in quotes: {name} = "{str(value).lower()}"'
        if kind in {bool, int} and isinstance(value, str):
            return "leave the quotes out"
        return ""

    def _with_variables(self, name: str, value: str) -> str:
        """`${NAME}` is the environment's, `${NAME:-otherwise}` if it may be unset; `$${` stands for `${`."""

        def replacement(found: re.Match[str]) -> str:
            if found["name"] is None:
                return "$"
            otherwise: str | None = found["otherwise"]
            value = os.environ.get(found["name"], otherwise)
            if value is None:
                hint = f"set it, or give a default: ${{{found['name']}:-…}}"
                raise self.error(name, f"{name} uses the environment variable {found['name']}, which is not set", hint)
            return value

        return _VARIABLE.sub(replacement, value)

    # ---- tables inside

    def table(self, name: str, known: Collection[str]) -> Section:
        """Empty if the file does not have it."""
        value = self._values.get(name, {}) if name in self else {}
        if isinstance(value, list):
            raise self.file.error((*self.key_path, name), f"[[{name}]] can be there only once", f"write [{name}]")
        return Section(self.file, (*self.key_path, name), value, known)

    def tables(self, name: str, known: Collection[str]) -> list[Section]:
        """Tables that may be there several times, as `[[source]]`; none is an empty list."""
        values = self._values.get(name, []) if name in self else []
        if isinstance(values, dict):
            raise self.file.error((*self.key_path, name), f"[{name}] can be there several times", f"write [[{name}]]")
        if not isinstance(values, list):
            raise self.file.error(
                (*self.key_path, name), f"{name} must be a list of tables", f"write [[{name}]] above it"
            )
        return [Section(self.file, (*self.key_path, name, at), value, known) for at, value in enumerate(values)]

    def settings(self, name: str) -> dict[str, str]:
        """A table whose keys are the user's own. Dots without quotes make tables in tables: here it is all the same."""
        values = self._values.get(name, {}) if name in self else {}
        if not isinstance(values, dict):
            raise self.error(name, f"{name} must be a table, not {_shown(values)}", f"write [{name}] above it")
        return dict(self._flattened((name,), values))

    def _flattened(self, way: tuple[str, ...], values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
        for key, value in values.items():
            if isinstance(value, dict):
                yield from self._flattened((*way, key), value)
                continue
            setting = ".".join((*way[1:], key))
            if isinstance(value, bool):
                yield setting, str(value).lower()  # as Spark writes it
            elif isinstance(value, (str, int, float)):
                yield setting, self._with_variables(setting, str(value))
            else:
                raise self.file.error((*self.key_path, *way, key), f"{setting} must be a string, not {_shown(value)}")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, dict)):
        return f"a {'list' if isinstance(value, list) else 'table'}"
    return repr(value)
