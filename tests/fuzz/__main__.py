"""Coverage-guided fuzzing of everything that reads bytes of others.

python -m tests.fuzz                          all targets, and keep what is new
python -m tests.fuzz --inputs 10000000        as many inputs in all
python -m tests.fuzz --only http --jobs 1     one target
python -m tests.fuzz --play http FILE         one input, to see what it does; this needs no atheris

`make fuzz INPUTS=...` does the same. What is found stands in build/fuzz/<target>/found, with how to see it again.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.fuzz.corpus_files import keep, kept
from tests.fuzz.harness import judged
from tests.fuzz.targets import NAMES, target_named

if TYPE_CHECKING:
    from collections.abc import Sequence

SCRATCH: Final = Path("build") / "fuzz"
INPUTS: Final = 200_000
MEMORY_MB: Final = 1_024
TIMEOUT_S: Final = 10  # against hangs; what is merely slow is told by the harness
INSIDE: Final = "--inside"
NO_ATHERIS: Final = (
    "atheris is missing: `make fuzz` installs it where there is a wheel for this Python and machine; "
    "to build it elsewhere takes clang"
)


class Outcome(NamedTuple):
    name: str
    inputs: int
    cpu_s: float
    found: list[Path]
    kept: int

    def row(self) -> str:
        rate = self.inputs / self.cpu_s if self.cpu_s else 0
        return f"{self.name:10} {self.inputs:>10,} {self.cpu_s:>8.0f} {rate:>9,.0f} {self.kept:>6} {len(self.found):>6}"


def main(arguments: Sequence[str]) -> int:
    if INSIDE in arguments:
        return fuzz_inside(list(arguments))
    options = _options(arguments)
    if options.play:
        name, path = options.play
        target_named(name).play(Path(path).read_bytes())
        return 0
    if find_spec("atheris") is None:
        print(NO_ATHERIS, file=sys.stderr)
        return 2
    chosen = [target_named(name) for name in options.only or NAMES]
    whole = sum(target.share for target in chosen)
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(
            pool.map(lambda target: campaign(target.name, int(options.inputs * target.share / whole)), chosen)
        )
    print(f"{'target':10} {'inputs':>10} {'CPU s':>8} {'per CPU s':>9} {'kept':>6} {'found':>6}")
    for outcome in outcomes:
        print(outcome.row())
        for path in outcome.found:
            print(f"  {path}: python -m tests.fuzz --play {outcome.name} {path}")
    return 1 if any(outcome.found for outcome in outcomes) else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=INPUTS, help="over all targets")
    parser.add_argument("--only", action="append", help="a target; may be given again")
    parser.add_argument("--jobs", type=int, default=2, help="targets at the same time")
    parser.add_argument("--play", nargs=2, metavar=("TARGET", "FILE"), help="one input")
    return parser.parse_args(arguments)


def campaign(name: str, inputs: int) -> Outcome:
    """Fuzz one target in a process of its own, up to the first thing that it finds, and keep a small corpus."""
    home, target = SCRATCH / name, target_named(name)
    inputs_at, found_at, merged_at = home / "inputs", home / "found", home / "merged"
    for place in (inputs_at, found_at, merged_at):
        place.mkdir(parents=True, exist_ok=True)
        for old in place.iterdir():
            old.unlink()
    for number, data in enumerate((*target.seeds(), *kept(name))):
        (inputs_at / f"seed-{number:05}").write_bytes(data)
    log, cpu_s = _run(name, [f"-runs={inputs}", f"-artifact_prefix={found_at}/", str(inputs_at)], home / "log")
    done = max((int(number) for number in re.findall(r"^#(\d+)", log, re.MULTILINE)), default=0)
    _run(name, ["-merge=1", str(merged_at), str(inputs_at)], home / "merge-log")
    merged = [path.read_bytes() for path in merged_at.iterdir()]
    count = keep(name, merged) if merged else len(kept(name))
    return Outcome(name, done, cpu_s, sorted(found_at.iterdir()), count)


def _run(name: str, options: list[str], log_at: Path) -> tuple[str, float]:
    """What it says, and the time of a processor that it took."""
    command = [sys.executable, "-m", "tests.fuzz", INSIDE, name, *options]
    command += [f"-max_len={target_named(name).bytes_max}", f"-rss_limit_mb={MEMORY_MB}", f"-timeout={TIMEOUT_S}"]
    with log_at.open("wb") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log)
        _, running.returncode, used = os.wait4(running.pid, 0)
    return log_at.read_text(errors="replace"), used.ru_utime + used.ru_stime


def fuzz_inside(arguments: list[str]) -> int:
    """In a process of its own, which atheris never leaves."""
    import atheris  # type: ignore[import-not-found]

    arguments.remove(INSIDE)
    name, *options = arguments
    with atheris.instrument_imports(include=["headrace", "h11"]):
        target = target_named(name)
    # To merge, it starts itself once more with the words that it was started with.
    again = f"{sys.executable} -m tests.fuzz {INSIDE} {name}"
    atheris.Setup([again, *options], judged(target))
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
