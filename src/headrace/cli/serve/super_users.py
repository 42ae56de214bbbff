"""Whether the settings leave anybody who can make the first access rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.identity import USER, parse_principals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def doubts_about_super_users(configs: Mapping[str, str]) -> Iterator[str]:
    """What somebody should hear who has locked himself out. It may be meant: rules may be there from before."""
    if not configs.get("authorizer.class.name"):
        return
    try:
        principals = parse_principals(configs.get("super.users", ""))
    except ValueError:
        return  # the node does not start, and says why
    if not principals and configs.get("allow.everyone.if.no.acl.found", "").lower() != "true":
        yield (
            "access rules are obeyed (authorizer.class.name), and super.users is empty: where no rule lets anybody "
            f"ALTER the cluster, nobody can make one. Name somebody, such as super.users={USER}:admin"
        )
    for other in sorted(principals):
        if other.kind != USER:
            yield f"super.users names {str(other)!r}, whom nobody can be: whoever connects here is a {USER}:NAME"
