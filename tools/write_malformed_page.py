"""Write docs/malformed-batches.md from the catalogue of malformed batches and what is kept of Apache Kafka's answers.

python -m tools.write_malformed_page           write it
python -m tools.write_malformed_page --check   exit 1 if it is out of date

That a node does answer so is a test's to say: tests/faults/test_malformed_batches.py.
"""

from __future__ import annotations

import sys

from tests.faults.malformed.page import PAGE, expected, kept, page


def main() -> int:
    text = page(expected(), kept())
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text() != text:
            print("docs/malformed-batches.md is out of date; run `make generate`", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
