"""The file of a new cluster's users is as secret as a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.access.authentication.credentials import ScramMechanism, ScramUser, verifier_for
from headrace.access.authentication.verifier_file import users_text
from headrace.broker.access.first_users import SETTING
from headrace.broker.listeners.plans import planned
from headrace.broker.membership.identity import IDENTITY_FILE
from headrace.cli.serve.addresses import CannotStart, ServeOptions
from headrace.cli.serve.first_users import first_users_of

if TYPE_CHECKING:
    from pathlib import Path

ADMIN = ScramUser("admin", ScramMechanism.SCRAM_SHA_256)
USERS = {ADMIN: verifier_for("hunter2", ADMIN.mechanism, b"salt salt", 4096)}


def options_with(home: Path, mode: int) -> ServeOptions:
    path = home / "users.json"
    path.write_text(users_text(USERS))
    path.chmod(mode)
    return ServeOptions(home / "data", planned({}), None, configs={SETTING: str(path)})


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_it_is_read_where_others_cannot(tmp_path: Path, mode: int) -> None:
    assert first_users_of(options_with(tmp_path, mode)) == USERS


@pytest.mark.parametrize("mode", [0o644, 0o602])
def test_it_is_refused_where_everybody_can(tmp_path: Path, mode: int) -> None:
    with pytest.raises(CannotStart, match="everybody on this machine can read it: chmod 600"):
        first_users_of(options_with(tmp_path, mode))


def test_it_does_not_matter_any_more_once_the_node_has_begun(tmp_path: Path) -> None:
    options = options_with(tmp_path, 0o644)
    options.data_dir.mkdir()
    (options.data_dir / IDENTITY_FILE).touch()
    assert first_users_of(options) == USERS
