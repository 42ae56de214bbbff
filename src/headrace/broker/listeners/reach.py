"""Who can reach an address, and who can read a file."""

from __future__ import annotations

import os
import stat
from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether nobody outside this machine can. A name counts if it is `localhost`: others may change what they mean."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def everybody_may_read(path: str) -> bool:
    """Or write it. Whoever reads it hears why it cannot be read."""
    try:
        return bool(os.stat(path).st_mode & (stat.S_IROTH | stat.S_IWOTH))
    except OSError:
        return False
