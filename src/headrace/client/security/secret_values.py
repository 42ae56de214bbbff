"""Values that stand elsewhere, in a file or in the environment: so a settings file that people share has no secret."""

from __future__ import annotations

import os
import re
from typing import Final

SECRET_BYTES_MAX: Final = 1 << 20
OTHERS_MAY_READ: Final = 0o044

_REFERENCE: Final = re.compile(r"\$\{(env|file):([^}]*)\}")


class UnusableSettings(ValueError):
    """Settings that cannot be followed. The text says which, what was expected and what to do; it tells no secret."""


def resolved(value: str, setting: str) -> str:
    """With what `${env:NAME}` and `${file:/path}` stand for. What is found there is taken as it is."""
    return _REFERENCE.sub(lambda found: _looked_up(found[1], found[2], setting), value)


def read_secret(path: str, setting: str) -> str:
    """A file's content without the end of its line."""
    try:
        with open(path, "rb") as file:
            content = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise UnusableSettings(f"{setting}: cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    if len(content) > SECRET_BYTES_MAX:
        raise UnusableSettings(f"{setting}: {path} has more than {SECRET_BYTES_MAX} bytes: that is no secret")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise UnusableSettings(f"{setting}: {path} is not UTF-8 text") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise UnusableSettings(f"{setting}: {path} is empty")
    return text


def others_may_read(path: str) -> bool:
    """Whether people with an account on this machine can."""
    return bool(os.stat(path).st_mode & OTHERS_MAY_READ)


def _looked_up(kind: str, name: str, setting: str) -> str:
    if kind == "file":
        return read_secret(name, setting)
    found = os.environ.get(name)
    if not found:
        raise UnusableSettings(f"{setting}: the environment has no {name}, which ${{env:{name}}} asks for")
    return found
