"""Users as a file: their verifiers, from which nobody learns a password. A new cluster can begin with them."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, Final

from headrace.access.authentication.credentials import (
    SCRAM_MECHANISMS,
    ScramUser,
    ScramVerifier,
    user_name_problem,
    verifier_problem,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_BYTES_MAX: Final = 1 << 20
_BYTES = ("salt", "stored_key", "server_key")


class NotUsers(ValueError):
    """The text says what was wrong, and what was expected; without a byte of a verifier."""


def users_text(verifiers: Mapping[ScramUser, ScramVerifier]) -> str:
    users = [
        {
            "name": user.name,
            "mechanism": user.mechanism.sasl_name,
            "iterations": it.iterations,
            **{key: b64encode(getattr(it, key)).decode() for key in _BYTES},
        }
        for user, it in sorted(verifiers.items())
    ]
    return json.dumps({"users": users}, indent=2, ensure_ascii=False) + "\n"


def users_of(text: str) -> dict[ScramUser, ScramVerifier]:
    """Raises NotUsers."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise NotUsers("it is not JSON") from None
    entries = content.get("users") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise NotUsers('it has no list "users"')
    users: dict[ScramUser, ScramVerifier] = {}
    for number, entry in enumerate(entries, start=1):
        try:
            user, verifier = _user(entry)
        except ValueError as wrong:
            raise NotUsers(f"user {number}: {wrong}") from None
        if user in users:
            raise NotUsers(f"user {number}: {user.name!r} has {user.mechanism.sasl_name} for the second time")
        users[user] = verifier
    return users


def _user(entry: Any) -> tuple[ScramUser, ScramVerifier]:
    if not isinstance(entry, dict):
        entry = {}
    name, mechanism = entry.get("name"), SCRAM_MECHANISMS.get(str(entry.get("mechanism")))
    if not isinstance(name, str) or mechanism is None:
        raise ValueError(f"expected a name, and a mechanism that is one of {', '.join(SCRAM_MECHANISMS)}")
    iterations = entry.get("iterations")
    if type(iterations) is not int:
        raise ValueError("expected iterations as a whole number")
    verifier = ScramVerifier(iterations=iterations, **{key: _bytes(entry, key) for key in _BYTES})
    problem = user_name_problem(name) or verifier_problem(mechanism, verifier)
    if problem is not None:
        raise ValueError(problem)
    return ScramUser(name, mechanism), verifier


def _bytes(entry: dict[str, Any], key: str) -> bytes:
    text = entry.get(key)
    try:
        if isinstance(text, str):
            return b64decode(text, validate=True)
    except ValueError:
        pass
    raise ValueError(f"expected {key} in base64")
