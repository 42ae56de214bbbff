"""The users that a new cluster begins with, from the file that an operator names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.access.authentication.verifier_file import NotUsers, users_of
from headrace.client.security.secret_values import UnusableSettings, read_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.access.authentication.credentials import ScramUser, ScramVerifier

SETTING: Final = "headrace.initial.users.file"


class UnusableUsers(ValueError):
    """The file cannot be read, or holds no users. The text says why."""


def read_first_users(configs: Mapping[str, str], *, is_new: bool) -> dict[ScramUser, ScramVerifier]:
    """None if no file is named. Raises UnusableUsers on a node that is new.

    One that is not has read its file when it was, and need not have kept it; it reads it all the same, in case it was
    stopped before the cluster had its users.
    """
    path = configs.get(SETTING, "").strip()
    if not path:
        return {}
    try:
        return users_of(read_secret(path, SETTING))
    except UnusableSettings as wrong:
        trouble = str(wrong)
    except NotUsers as wrong:
        trouble = f"{SETTING}: {path} holds no users: {wrong}. `headrace security init` makes such a file"
    if is_new:
        raise UnusableUsers(trouble)
    return {}
