"""Whether a quota holds, and whether whoever has none notices: real clients, each a process of its own."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Self

from bench.programs import BenchError
from bench.report import Line, Outcome, at_least, at_most
from bench.stage import BATCH_1MB, TOPIC, load

if TYPE_CHECKING:
    from bench.node import Node
    from bench.stage import Stage

QUOTA: Final = 5_000_000  # bytes per second
NEIGHBOUR: Final = 10_000_000  # what the one without a quota sends or reads, if nobody keeps it from that
LOADED_MB: Final = 200
WARM_S: Final = 3.0
PATIENCE_S: Final = 30.0
GREEDY: Final = "greedy"
SIDES: Final = {"produce": "--produce-rate", "consume": "--fetch-rate"}


def quotas(stage: Stage) -> Outcome:
    outcome = Outcome()
    for side, option in SIDES.items():
        with stage.node() as node:
            node.create_topic(1)
            load(node, "produce_load", **BATCH_1MB, in_flight=5, megabytes=LOADED_MB)
            _set_quota(node, option)
            stage.say(f"{side}: the neighbour alone")
            with Client(node, side, "neighbour", NEIGHBOUR) as neighbour:
                alone = neighbour.rate(stage.seconds(10))
                stage.say(f"{side}: beside one with a quota of {QUOTA / 1e6:g} MB/s that takes all it can get")
                with Client(node, side, GREEDY, 0) as greedy, Watch(greedy) as held:
                    beside = neighbour.rate(stage.seconds(25))
                held_rate = held.rate
        outcome.rounds.append({"side": side, "alone": alone, "beside": beside, "held": held_rate})
        off = 100 * abs(held_rate - QUOTA) / QUOTA
        outcome.lines += [
            Line(f"{side}, quota of 5 MB/s", held_rate / 1e6, "MB/s"),
            Line(f"{side}, off its quota", off, "%", at_most(10)),
            Line(f"{side}, a neighbour without quota, alone", alone / 1e6, "MB/s"),
            Line(f"{side}, the neighbour beside it, share of that", 100 * beside / alone, "%", at_least(90)),
        ]
    return outcome


def _set_quota(node: Node, option: str) -> None:
    told = ("--client-id", GREEDY, option, str(QUOTA))
    command = [sys.executable, "-m", "headrace", "quotas", "set", "--bootstrap-server", f"127.0.0.1:{node.port}", *told]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise BenchError(f"the quota could not be set: {ran.stderr}")


class Client:
    """`with` starts it and waits until it is served; leaving ends it."""

    def __init__(self, node: Node, side: str, client_id: str, rate: int) -> None:
        self._command = [
            *(sys.executable, "-m", "bench.quota_client", side),
            *(str(node.port), TOPIC, client_id, str(rate)),
        ]
        self._told: deque[tuple[float, int]] = deque([(0.0, 0)], maxlen=1)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        began_s = time.monotonic()
        while not self.now[1]:
            if time.monotonic() - began_s > PATIENCE_S or self._process.poll() is not None:
                self._process.kill()
                raise BenchError("a client is not served")
            time.sleep(0.05)
        time.sleep(WARM_S)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()

    @property
    def now(self) -> tuple[float, int]:
        """A time, and how many bytes it had done by then."""
        return self._told[0]

    def rate(self, seconds: float) -> float:
        with Watch(self) as watch:
            time.sleep(seconds)
        return watch.rate

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            at_s, done = line.split()
            self._told.append((float(at_s), int(done)))


class Watch:
    """The rate of a client while the block runs."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.rate = 0.0

    def __enter__(self) -> Self:
        self._from = self._client.now
        return self

    def __exit__(self, *_: object) -> None:
        (since_s, before), (until_s, after) = self._from, self._client.now
        self.rate = (after - before) / (until_s - since_s)
