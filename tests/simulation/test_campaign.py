"""A campaign of seeds that was interrupted goes on where it stood."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from headrace.simulation.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path

SHORT = ["--trouble", "1"]


def seeds_in(record: Path) -> list[int]:
    return [json.loads(line)["seed"] for line in record.read_text().splitlines()[1:]]


def test_what_a_record_has_is_counted_and_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "record"
    assert main([*SHORT, "--seeds", "2", "--record", str(record)]) == 0
    interrupted = record.read_text()
    assert main([*SHORT, "--seeds", "3", "--record", str(record)]) == 0
    assert record.read_text().startswith(interrupted)
    assert seeds_in(record) == [0, 1, 2]
    capsys.readouterr()
    assert main([*SHORT, "--seeds", "3", "--record", str(record)]) == 0
    assert seeds_in(record) == [0, 1, 2]
    assert capsys.readouterr().out.startswith("3 seeds, ")


def test_a_bad_seed_stays_bad(tmp_path: Path) -> None:
    record = tmp_path / "record"
    main([*SHORT, "--seeds", "1", "--record", str(record)])
    record.write_text(record.read_text().replace('"is_good": true', '"is_good": false'))
    assert main([*SHORT, "--seeds", "1", "--record", str(record)]) == 1


def test_the_record_of_other_runs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "record"
    main([*SHORT, "--seeds", "1", "--record", str(record)])
    before = record.read_text()
    with pytest.raises(SystemExit):
        main(["--seeds", "1", "--record", str(record)])
    assert "take another file" in capsys.readouterr().err
    assert record.read_text() == before


def test_processes_that_inherit_nothing_share_the_seeds() -> None:
    """As they are started by default from CPython 3.14 on."""
    program = (
        "import multiprocessing, runpy, sys; multiprocessing.set_start_method('spawn'); "
        "sys.argv = ['simulation', '--seeds', '2', '--jobs', '2', '--trouble', '1']; "
        "runpy.run_module('headrace.simulation', run_name='__main__', alter_sys=True)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 seeds, ")
