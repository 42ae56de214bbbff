"""Sizes and rates as people write them."""

from __future__ import annotations

import re

import click

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


def parse_size(text: str) -> int:
    """`256MB`, `1GiB` or a number of bytes. Raises ValueError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    if not found or found[2].upper() not in UNITS:
        raise ValueError(f"{text!r} is no size; expected one such as 256MB, 1GiB or a number of bytes")
    size = int(float(found[1]) * UNITS[found[2].upper()])
    if size < 1:
        raise ValueError(f"{text!r} is no size; expected at least one byte")
    return size


def size_option(_: click.Context, __: click.Parameter, text: str) -> int:
    """As a click callback."""
    try:
        return parse_size(text)
    except ValueError as wrong:
        raise click.BadParameter(str(wrong)) from wrong


def rate_option(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    """As a click callback: `10MB/s`, or bytes per second."""
    try:
        return None if text is None else parse_size(text.strip().removesuffix("/s"))
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no rate; expected one such as 10MB/s, 512KiB/s or a number of bytes per second"
        ) from None
