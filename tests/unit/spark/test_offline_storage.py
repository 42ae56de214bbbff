"""Files appear whole or not at all, and can be told from what attempts left behind."""

from __future__ import annotations

import hashlib
import pickle
from typing import TYPE_CHECKING

import pytest

from headrace_spark.offline.errors import OfflineFailed
from headrace_spark.offline.storage import Storage, is_temporary

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["path", "uri"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return Storage.at(str(tmp_path) if request.param == "path" else f"file://{tmp_path}/")


def test_a_file_is_seen_when_it_is_whole(storage: Storage) -> None:
    with storage.whole_file("a/b/name") as file:
        file.write(b"one ")
        file.write(b"two")
        assert storage.size("a/b/name") is None
        (temporary,) = storage.list()
        assert is_temporary(temporary)

    assert storage.read("a/b/name") == b"one two"
    assert storage.list() == {"a/b/name": 7}
    assert file.sha256 == hashlib.sha256(b"one two").hexdigest() == storage.sha256("a/b/name")
    assert file.size == 7


def test_a_file_that_fails_leaves_nothing(storage: Storage) -> None:
    storage.write("name", b"before")

    def write_half() -> None:
        with storage.whole_file("name") as file:
            file.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()

    assert storage.list() == {"name": 6}


def test_what_is_not_there_is_none(storage: Storage) -> None:
    assert storage.read("nothing") is None
    assert storage.size("nothing") is None
    assert Storage.at(f"{storage.location.rstrip('/')}/nowhere").list() == {}
    storage.delete("nothing")


def test_it_travels(storage: Storage) -> None:
    storage.write("name", b"here")

    assert pickle.loads(pickle.dumps(storage)).read("name") == b"here"


def test_a_place_that_makes_no_sense_is_told() -> None:
    with pytest.raises(OfflineFailed, match="no place that can be opened"):
        Storage.at("gopher://somewhere/else")
