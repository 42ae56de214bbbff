"""The process that cleans one log: a job on standard input, events on standard output. It ends with its pipe.

Started by the node for each pass, so that the memory of the key map goes back to the system afterwards, and so that
nothing that happens here can hurt the node.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from contextlib import suppress

from headrace.runtime.disk import SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.storage.compaction.cleaning import clean
from headrace.storage.compaction.job import CleaningJob, Damaged, Event, Failed, Worked, encode_event
from headrace.storage.compaction.key_map import SALT_BYTES
from headrace.storage.damage import DamagedLog

LOCK = ".cleaner.lock"
NICENESS = 10  # a node that is busy serving goes first
RESTS_AT_MOST_S = 60.0  # a throttle so tight that one step takes longer is not meant to stop it altogether


def main(root: str, bytes_per_s: str) -> int:
    with suppress(OSError):
        os.nice(NICENESS)
    lock = os.open(f"{root}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    # The last node may have been killed, and its cleaner not yet have noticed: two must not write the same files.
    fcntl.flock(lock, fcntl.LOCK_EX)
    disk = SystemDisk(root, is_shared=True)
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return 1  # the node was gone before it could say what to do
    salt = SystemEntropy().token(SALT_BYTES)
    try:
        for event in clean(disk, CleaningJob.decode(line), salt=salt):
            _tell(event)
            if isinstance(event, Worked):
                time.sleep(min(event.size / float(bytes_per_s), RESTS_AT_MOST_S))
    except DamagedLog as damage:
        _tell(Damaged(damage.path, damage.position, damage.offset, damage.problem))
    except BrokenPipeError:  # the node is gone
        os._exit(1)  # and with it the pipe that Python would flush on its way out
    except OSError as error:
        _tell(Failed(error.errno or 0, str(error)))
    return 0


def _tell(event: Event) -> None:
    sys.stdout.buffer.write(encode_event(event) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
