"""Where a command gets a password from: a file, stdin, or somebody at a terminal. Never from its command line."""

from __future__ import annotations

import sys

import click

STDIN = "-"
PASSWORD_CHARACTERS_MAX = 4096  # longer is a file that was not meant


def read_password(path: str | None) -> str:
    """Without the end of its line. Complaint if there is none that could be sent."""
    from headrace.cli.terminal.complaints import Complaint
    from headrace.client.security.secret_values import UnusableSettings, read_secret

    if path is None:
        return _typed()
    if path == STDIN:
        password = _first_line(sys.stdin.buffer.read(PASSWORD_CHARACTERS_MAX + 2))
    else:
        try:
            password = read_secret(path, "--password-file")
        except UnusableSettings as wrong:
            raise Complaint(str(wrong)) from wrong
    if not password or "\n" in password or "\0" in password or len(password) > PASSWORD_CHARACTERS_MAX:
        place = "stdin" if path == STDIN else path
        raise Complaint(f"--password-file: expected {place} to hold one line, which is the password")
    return password


def _first_line(content: bytes) -> str:
    try:
        return content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        return ""  # as good as none


def _typed() -> str:
    if not sys.stdin.isatty():
        raise click.UsageError("give --password-file FILE, or - for stdin: nobody is there to type a password")
    password: str = click.prompt("Password", hide_input=True, confirmation_prompt="Again", err=True)
    return password
