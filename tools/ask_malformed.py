"""Ask a broker on this machine what it makes of every kind of malformed batch. It must be fresh: it gets 200 topics.

python -m tools.ask_malformed PORT           print each answer, and what consumers make of what was taken
python -m tools.ask_malformed PORT --keep    keep them as Apache Kafka's answers, for the page and its test
"""

from __future__ import annotations

import sys
import time

from tests.faults.malformed.asking import ask_all, consume_taken, save
from tests.faults.malformed.page import KAFKA_ANSWERS


def main() -> int:
    match sys.argv[1:]:
        case [port] | [port, "--keep"] if port.isdigit():
            answers = ask_all(int(port), int(time.time() * 1000))
            consume_taken(int(port), answers)
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    if "--keep" in sys.argv:
        save(answers, KAFKA_ANSWERS)
        return 0
    for name, answer in answers.items():
        print(name, answer.code, *filter(None, (answer.message, answer.read, answer.consumed)), sep=" | ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
