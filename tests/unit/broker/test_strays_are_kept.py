"""Data that the metadata does not know is set aside, never removed; data of deleted topics goes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from headrace.testing import Broker

if TYPE_CHECKING:
    from pathlib import Path


def directories(data_dir: Path) -> list[str]:
    return sorted(path.name for path in (data_dir / "topics").iterdir())


def test_a_log_that_nobody_knows_is_kept(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        broker.create_topic("known")
    stray = "AAAAAAAAAAAAAAAAAAAAAw-0"
    known = next(name for name in directories(tmp_path) if not name.startswith("AAAA"))
    shutil.copytree(tmp_path / "topics" / known, tmp_path / "topics" / stray)

    with Broker(data_dir=tmp_path) as broker:
        assert broker.node.topics.named("known") is not None

    assert known in directories(tmp_path)
    assert f"{stray}.stray" in directories(tmp_path)
    assert stray not in directories(tmp_path)


def test_the_log_of_a_deleted_topic_goes_even_if_the_node_died_before_it_could_remove_it(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        broker.create_topic("doomed")
        doomed = next(name for name in directories(tmp_path) if not name.startswith("AAAA"))
        shutil.copytree(tmp_path / "topics" / doomed, tmp_path / "copy")
        broker.delete_topic("doomed")
    shutil.copytree(tmp_path / "copy", tmp_path / "topics" / doomed)

    with Broker(data_dir=tmp_path):
        pass

    assert not any(name.startswith(doomed) for name in directories(tmp_path))
