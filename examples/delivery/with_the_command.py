"""The same three promises with the `headrace` command, killed while it prints or copies."""

from __future__ import annotations

import subprocess
import sys

from stage import BOOTSTRAP, ORDERS, new_topic, report

HEADRACE = (sys.executable, "-m", "headrace", "--bootstrap-server", BOOTSTRAP)
LINE_BYTES = 20_000  # far more than a pipe holds, so that the command is killed in the middle of a line
READ_BEFORE_CRASH = 5


def headrace(*arguments: str, stdin: str = "") -> list[str]:
    done = subprocess.run([*HEADRACE, *arguments], input=stdin, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def topic_of_long_orders() -> str:
    name = new_topic()
    lines = "".join(f"{number:<{LINE_BYTES}}\n" for number in range(ORDERS))
    headrace("produce", "--topic", name, "--linger-ms", "1000", "--delivery", "exactly-once", stdin=lines)
    return name


def printed(promise: str) -> list[int]:
    """What a consumer prints that is killed after a few lines, and started again."""
    topic = topic_of_long_orders()
    consume = ("consume", "--topic", topic, "--group", topic, "--instance-id", "reader", "--delivery", promise)
    seen = []
    with subprocess.Popen([*HEADRACE, *consume], stdout=subprocess.PIPE, text=True) as first_life:
        assert first_life.stdout is not None
        seen += [int(first_life.stdout.readline()) for _ in range(READ_BEFORE_CRASH)]
        first_life.kill()
    return seen + [int(line) for line in headrace(*consume)]


def copied() -> list[int]:
    """What another topic holds after a copier was killed as soon as its first copies were seen."""
    topic, copies = topic_of_long_orders(), new_topic()
    copy = ("consume", "--topic", topic, "--group", topic, "--instance-id", "copier", "--max-poll-records", "5")
    copy += ("--delivery", "exactly-once", "--to-topic", copies)
    read = ("consume", "--topic", copies, "--isolation", "read-committed")
    with subprocess.Popen([*HEADRACE, *copy]) as first_life:
        headrace(*read, "--follow", "--max-messages", "1")
        first_life.kill()
    headrace(*copy)
    return [int(line) for line in headrace(*read)]


if __name__ == "__main__":
    report("at most once", printed("at-most-once"))
    report("at least once", printed("at-least-once"))
    report("exactly once", copied())
