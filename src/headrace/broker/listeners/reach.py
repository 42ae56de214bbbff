"""Who can reach an address."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether nobody outside this machine can. A name counts if it is `localhost`: others may change what they mean."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
