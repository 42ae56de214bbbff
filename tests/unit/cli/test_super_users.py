"""What a node says at its start of settings that leave nobody who can make an access rule."""

from __future__ import annotations

import pytest

from headrace.cli.serve.super_users import doubts_about_super_users

OBEYED = {"authorizer.class.name": "headrace"}


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ({}, []),
        ({**OBEYED, "super.users": "User:admin"}, []),
        (OBEYED, ["super.users is empty"]),
        ({**OBEYED, "super.users": " ; "}, ["super.users is empty"]),
        ({**OBEYED, "allow.everyone.if.no.acl.found": "true"}, []),
        ({**OBEYED, "super.users": "User:a;Users:b;user:c"}, ["'Users:b', whom nobody can be", "'user:c', whom"]),
        ({**OBEYED, "super.users": "admin"}, []),  # the node does not start, and says why
        ({"super.users": "Users:b"}, []),
    ],
)
def test_who_has_locked_himself_out_hears_of_it(configs: dict[str, str], said: list[str]) -> None:
    doubts = list(doubts_about_super_users(configs))
    assert len(doubts) == len(said), doubts
    assert all(words in doubt for words, doubt in zip(said, doubts, strict=True)), doubts
