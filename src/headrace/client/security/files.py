"""A client's settings in a file: Java's `.properties`, as Kafka's own tools take them, or TOML."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.client.security.secret_values import UnusableSettings, others_may_read, read_secret
from headrace.client.security.settings import is_security_setting, parse_security

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.client.security.settings import ClientSecurity

BOOTSTRAP_SERVERS: Final = "bootstrap.servers"

_SECRETS: Final = ("sasl.password", "sasl.jaas.config", "sasl.oauthbearer.token", "ssl.key.password")
_SECRET_TEXTS: Final = ("ssl.key.pem", "ssl.keystore.key")
_HELD_ELSEWHERE: Final = ("sasl.password.file", "ssl.key.location")
_LINE: Final = re.compile(r"(?P<name>(?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


class ClientFile(NamedTuple):
    """What a file says about the way to a cluster."""

    bootstrap_servers: str | None
    security: ClientSecurity
    warnings: tuple[str, ...]
    """What whoever gave the file should know."""


def read_client_file(path: str, overriding: Mapping[str, str] = MappingProxyType({})) -> ClientFile:
    """With what `overriding` says instead. Raises UnusableSettings, which names the file, and the line if one is at
    fault."""
    text = read_secret(path, "client settings")
    lines: dict[str, int] = {}
    try:
        given = _from_toml(text) if path.endswith(".toml") else parse_properties(text, lines)
        security = parse_security({**given, **overriding})
    except ValueError as wrong:
        raise UnusableSettings(f"{_place(path, lines, overriding, str(wrong))}{wrong}") from wrong
    servers = overriding.get(BOOTSTRAP_SERVERS) or given.get(BOOTSTRAP_SERVERS)
    origin = (security_of_file, (os.path.abspath(path), dict(overriding)))
    return ClientFile(servers or None, replace(security, origin=origin), tuple(_warnings(path, given)))


def security_of_file(path: str, overriding: Mapping[str, str]) -> ClientSecurity:
    """What a file says of the way in, wherever it is asked."""
    return read_client_file(path, overriding).security


def client_settings(given: Mapping[str, str]) -> ClientFile:
    """The same without a file. Raises UnusableSettings."""
    return ClientFile(given.get(BOOTSTRAP_SERVERS) or None, parse_security(given), tuple(_without_effect(given)))


def is_secret(name: str) -> bool:
    """Whether the value of this setting is for nobody else's eyes."""
    return name in _SECRETS or name in _SECRET_TEXTS


def _place(path: str, lines: Mapping[str, int], overriding: Mapping[str, str], wrong: str) -> str:
    """Where to look. What is wrong with a setting begins with its name."""
    name = wrong.split(maxsplit=1)[0].rstrip(":,")
    if name in overriding:
        return ""
    return f"{path}, line {lines[name]}: " if name in lines else f"{path}: "


def parse_properties(text: str, lines: dict[str, int] | None = None) -> dict[str, str]:
    """As Java's `Properties.load` reads it, but that nothing may be set twice. Raises ValueError with the line.

    `lines` is told where each name stands.
    """
    found: dict[str, str] = {}
    for number, line in _whole_lines(text):
        parts = _LINE.fullmatch(line)
        if parts is None:
            raise UnusableSettings(f"line {number} ends with a backslash that nothing follows")
        name = _unescaped(parts["name"])
        if name in found:
            raise UnusableSettings(f"line {number}: {name} is set twice")
        found[name] = _unescaped(parts["value"])
        if lines is not None:
            lines[name] = number
    return found


def _whole_lines(text: str) -> Iterator[tuple[int, str]]:
    """Without comments, and joined where a backslash says that a line goes on. The number is that of the first."""
    pending, began = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.lstrip(" \t\f")
        if not pending:
            if not stripped or stripped[0] in "#!":
                continue
            began = number
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        if backslashes % 2:
            pending += stripped[:-1]
            continue
        yield began, pending + stripped
        pending = ""
    if pending:
        yield began, pending


def _unescaped(text: str) -> str:
    signs = _ESCAPE.sub(lambda found: chr(int(found[1][1:], 16)) if len(found[1]) > 1 else _control(found[1]), text)
    # Java writes signs beyond 16 bits as two.
    return signs.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def _control(letter: str) -> str:
    return _CONTROLS.get(letter, letter)


def _from_toml(text: str) -> dict[str, str]:
    """`security.protocol = "SASL_SSL"`, or the same in tables: `[security]` and `protocol = "SASL_SSL"`."""
    try:
        return dict(_flat("", tomllib.loads(text)))
    except tomllib.TOMLDecodeError as wrong:
        raise UnusableSettings(f"it is not TOML: {wrong}") from None


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(f"{prefix}.{name}" if prefix else name, inner)
    elif isinstance(value, bool):
        yield prefix, str(value).lower()
    elif isinstance(value, str | int | float):
        yield prefix, str(value)
    else:
        raise UnusableSettings(f"{prefix} is no text, number or boolean")


def _warnings(path: str, given: dict[str, str]) -> Iterator[str]:
    if _has_secret(given) and others_may_read(path):
        yield f"{path} holds a secret, and other users of this machine may read it: chmod 600 {path}"
    for name in _HELD_ELSEWHERE:
        held = given.get(name, "")
        if os.path.isfile(held) and others_may_read(held):
            yield f"{name} is {held}, and other users of this machine may read it: chmod 600 {held}"
    yield from (f"{path}: {warning}" for warning in _without_effect(given))


def _without_effect(given: Mapping[str, str]) -> Iterator[str]:
    others = sorted(name for name in given if name != BOOTSTRAP_SERVERS and not is_security_setting(name))
    if others:
        known = f"{BOOTSTRAP_SERVERS}, security.protocol, sasl.… and ssl.…"
        yield f"{', '.join(others)} has no effect here; known are {known}"


def _has_secret(given: dict[str, str]) -> bool:
    """Whether a secret stands in the file itself, rather than where to find it."""
    return any("${" not in given.get(name, "${") for name in _SECRETS) or any(name in given for name in _SECRET_TEXTS)
