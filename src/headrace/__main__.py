"""`python -m headrace`, and the installed commands `headrace` and `streaming-system`."""

from __future__ import annotations

import sys

from headrace.cli.app import run


def main() -> None:
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
