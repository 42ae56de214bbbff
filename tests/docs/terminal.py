"""A reader's terminal: `headrace` and `python` are on its path, and a node where commands look for one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.docs.blocks import Block, Command

PATIENCE_S: Final = 600.0  # for one command, against hangs only; some start a JVM
COLUMNS: Final = "100"  # how wide the pages' tables are
ON_THE_PAGES: Final = "127.0.0.1:9092"

Mask = tuple[tuple[str, str], ...]

# What differs from run to run, and what stands for it when two texts are compared.
VARIABLE: Final[Mask] = (
    (r"^WARNING: Using incubator modules: .*\n", ""),  # by Java, where it is the machine's own
    (r"^( \S+ +\d+ +\d+ +)[\d,]+( +\d+ +\d+ +[\d.]+ s )", r"\1(rate)\2"),  # a query in the pipeline's table
    (r"rows, [\d.]+ MB", "rows, (size)"),
    (r"[\d,.]+ (?:MB|messages)/s", "(rate)"),
    (r"[\d.]+ (?:s|min)\b", "(duration)"),
    (r"(headrace-dlq-at=)[\dT:.-]+Z", r"\1(moment)"),
    (r"^(files: .* files?,) [\d.]+ \w+", r"\1 (size)"),
    (r" {2,}", "  "),  # columns are as wide as what is in them
    (r"─+", "─"),
    (r"[ \t]+$", ""),
)
# Where other numbers of the same kind are as good.
NUMBERS: Final[Mask] = (
    (r"^(Cluster: +)\S+$", r"\1(id)"),
    (r"^((?:cluster|disk): +)\S+$", r"\1(id)"),
    (r"data=\S+", "data=(directory)"),
    (r"[\d.]+ (?:[KMGi]*B)\b", "(size)"),
    (r"\b(?:controller|voter)( +\d+ +\d+ +\d+)$", r"(role)\1"),
    (r"\d[\d.,:]*", "N"),
    (r" {2,}", "  "),
    (r"[ \t]+$", ""),
)


def masked(text: str, mask: Mask = VARIABLE) -> str:
    for pattern, stand_in in mask:
        text = re.sub(pattern, stand_in, text, flags=re.MULTILINE)
    return text.strip()


class Terminal:
    """Commands of a page are typed in here, one after the other, as they stand."""

    def __init__(self, home: Path, addresses: str) -> None:
        self.home = home
        programs = home / ".venv" / "bin"
        programs.mkdir(parents=True)
        for name, arguments in {"headrace": "-m headrace", "python": ""}.items():
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
            program.chmod(0o755)
        (programs / "activate").write_text(f'PATH="{programs}:$PATH"\n')
        self.environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HEADRACE_BOOTSTRAP_SERVER": addresses,
            "COLUMNS": COLUMNS,
        }

    def type(self, line: str) -> str:
        """Its output and its talk together, as a reader sees them. It has to succeed."""
        ran = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ran.returncode == 0, f"$ {line}\n{ran.stdout}"
        return ran.stdout

    def follow(self, block: Block, mask: Mask = VARIABLE) -> str:
        return self.follow_commands(block.commands, mask)

    def follow_commands(self, commands: Iterable[Command], mask: Mask = VARIABLE) -> str:
        """Each prints what the page shows, if it shows anything. All that was printed."""
        texts = []
        for command in commands:
            printed = self.type(command.line)
            if command.shown:
                assert masked(printed, mask) == masked(command.shown, mask), f"$ {command.line}\n{printed}"
            texts.append(printed)
        return "".join(texts)


def listed_names(listing: str) -> list[str]:
    """A pattern for each path of a listing; what is a number or an id there may be another."""
    names: list[str] = []
    above = ""
    for line in listing.splitlines():
        name = re.split(r" {2,}", line.strip())[0]
        pattern = re.sub(r"<[^>]+>|…|\d+", "[^/]+", re.sub(r"([.=])", r"\\\1", name))
        if not line.startswith(" "):
            above = pattern if name.endswith("/") else ""
            names.append(pattern.rstrip("/"))
        else:
            names += [above + part for part in pattern.split(", ")]
    return names
