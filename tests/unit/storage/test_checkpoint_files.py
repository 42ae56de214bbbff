from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.model.names import LogId, TopicId
from headrace.storage.files.checkpoints import (
    decode_epochs,
    decode_offsets,
    encode_epochs,
    encode_offsets,
    read_offsets,
)
from headrace.storage.files.leader_epochs import EpochStart

if TYPE_CHECKING:
    from headrace.runtime.disk import SystemDisk

ID = "AAECAwQFBgcICQoLDA0ODw"
LOG_ID = LogId(TopicId(bytes(range(16))), 3)


def test_offsets_come_back() -> None:
    offsets = {LOG_ID: 17, LogId(TopicId(bytes(16)), 0): 0, LogId(TopicId(b"\xff" * 16), 4000): 1 << 62}
    assert decode_offsets(encode_offsets(offsets)) == offsets
    assert decode_offsets(encode_offsets({})) == {}


def test_epochs_come_back() -> None:
    epochs = [EpochStart(0, 0), EpochStart(4, 17)]  # type: ignore[arg-type]
    assert decode_epochs(encode_epochs(epochs)) == epochs
    assert decode_epochs(encode_epochs([])) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0\n",
        "0\n1\n",
        f"1\n1\n{ID} 3 17\n",
        f"0\n2\n{ID} 3 17\n",
        f"0\n1\n{ID} 3 17",
        f"0\n1\n{ID} 3 17\n\n",
        f"0\n1\n{ID} 3\n",
        f"0\n1\n{ID} 3 17 1\n",
        f"0\n1\n{ID} 3 -17\n",
        f"0\n1\n{ID} x 17\n",
        f"0\n1\n{ID[:-1]} 3 17\n",
        f"0\n1\n{ID}  3 17\n",
        "0\n1\n\u00e9 3 17\n",
    ],
)
def test_a_file_that_is_not_exactly_right_counts_as_missing(disk: SystemDisk, text: str) -> None:
    disk.write_file("points", text.encode())
    assert decode_offsets(text.encode()) is None
    assert read_offsets(disk, "points") == {}


def test_a_missing_file_is_an_empty_one(disk: SystemDisk) -> None:
    assert read_offsets(disk, "nowhere") == {}


@pytest.mark.parametrize("text", ["0\n2\n4 17\n4 18\n", "0\n2\n4 17\n5 16\n", "0\n1\n4\n", "0\n1\n4 x\n", "\0" * 20])
def test_epochs_that_do_not_rise_are_damage(text: str) -> None:
    assert decode_epochs(text.encode()) is None
