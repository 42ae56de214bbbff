"""The process that cleans logs: jobs on standard input, events on standard output. It ends with its pipe.

Started by the node when logs are due and ended when none is any more, so that the memory of the key map goes back to
the system, and so that nothing that happens here can hurt the node. Many small logs share one: to start it takes
longer than to clean them.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from contextlib import suppress

from headrace.runtime.disk import FILE_MODE, ReadFault, SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.storage.compaction.cleaning import clean
from headrace.storage.compaction.job import CleaningJob, Damaged, Event, Failed, Worked, encode_event
from headrace.storage.compaction.key_map import SALT_BYTES
from headrace.storage.files.damage import DamagedLog
from headrace.storage.files.read_faults import damage_by

LOCK = ".cleaner.lock"
NICENESS = 10  # a node that is busy serving goes first
RESTS_AT_MOST_S = 60.0  # a throttle so tight that one step takes longer is not meant to stop it altogether


def main(root: str) -> int:
    with suppress(OSError):
        os.nice(NICENESS)
    lock = os.open(f"{root}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    # The last node may have been killed, and its cleaner not yet have noticed: two must not write the same files.
    fcntl.flock(lock, fcntl.LOCK_EX)
    disk = SystemDisk(root, is_shared=True)
    try:
        while (line := sys.stdin.buffer.readline()).endswith(b"\n"):  # else the node is gone, or was while it spoke
            bytes_per_s, _, job = line.partition(b" ")
            _perform(disk, CleaningJob.decode(job), float(bytes_per_s))
    except BrokenPipeError:  # the node is gone
        os._exit(1)  # and with it the pipe that Python would flush on its way out
    return 0


def _perform(disk: SystemDisk, job: CleaningJob, bytes_per_s: float) -> None:
    try:
        for event in clean(disk, job, salt=SystemEntropy().token(SALT_BYTES)):
            _tell(event)
            if isinstance(event, Worked):
                time.sleep(min(event.size / bytes_per_s, RESTS_AT_MOST_S))
    except DamagedLog as damage:
        _tell(Damaged.from_error(damage))
    except ReadFault as fault:
        _tell(Damaged.from_error(damage_by(fault)))
    except BrokenPipeError:
        raise
    except OSError as error:
        _tell(Failed(error.errno or 0, str(error)))


def _tell(event: Event) -> None:
    sys.stdout.buffer.write(encode_event(event) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
