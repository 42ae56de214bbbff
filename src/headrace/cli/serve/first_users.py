"""Who can log in to a cluster that this node founds: from the file that its settings name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headrace.broker.access.first_users import SETTING, UnusableUsers, read_first_users
from headrace.broker.listeners.reach import everybody_may_read
from headrace.broker.membership.identity import IDENTITY_FILE
from headrace.cli.serve.addresses import CannotStart

if TYPE_CHECKING:
    from headrace.access.authentication.credentials import ScramUser, ScramVerifier
    from headrace.cli.serve.addresses import ServeOptions


def first_users_of(options: ServeOptions) -> dict[ScramUser, ScramVerifier]:
    """Raises CannotStart for a file that is not there, that holds something else, or that others may read: whoever has
    it can try passwords by the million."""
    is_new = not os.path.exists(options.data_dir / IDENTITY_FILE)
    path = options.configs.get(SETTING, "").strip()
    if is_new and path and everybody_may_read(path):
        raise CannotStart(
            f"{SETTING}: {path} holds what passwords are checked against, and everybody on this machine can read it: "
            f"chmod 600 {path}"
        )
    try:
        return read_first_users(options.configs, is_new=is_new)
    except UnusableUsers as wrong:
        raise CannotStart(str(wrong)) from wrong
