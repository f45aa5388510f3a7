"""`ordo lake run` as a process that is killed with SIGKILL, again and again, while it feeds two tables."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ordo.pipeline.generate import LogShape
from tests.patience import patient
from tests.thorough import few_of

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-W", "ignore", "-m", "ordo.cli", "lake", *arguments]


def output_of(*arguments: str, status: int = 0) -> str:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=patient(120), check=False)
    assert done.returncode == status, done
    return done.stdout + done.stderr


@pytest.mark.parametrize("kills", few_of([2, 8], []))
def test_a_feed_that_is_killed_loses_and_doubles_nothing(
    archive: str, shape: LogShape, tmp_path: Path, kills: int
) -> None:
    from ordo.pipeline.lake.delta_table import DeltaLake
    from ordo.pipeline.lake.iceberg_table import IcebergLake
    from ordo.pipeline.lake.tables import LakeTable

    tables = ["--delta", str(tmp_path / "delta"), "--iceberg", str(tmp_path / "iceberg")]
    small = ["--chunk-mb", "0.2", "--compact-every", "3", "--keep-hours", "0"]
    found: list[LakeTable] = [DeltaLake(tables[1]), IcebergLake(tables[3])]
    for kill in range(kills):
        which = found[kill % 2]
        before = which.progress().position
        with subprocess.Popen(command("run", archive, *tables, *small), stdout=subprocess.DEVNULL) as feed:
            deadline_s = time.monotonic() + patient(90)
            while which.progress().position == before:
                assert feed.poll() is None and time.monotonic() < deadline_s
            feed.kill()
    assert min(table.progress().position for table in found) > 0
    output_of("run", archive, *tables, *small, "--once")
    said = output_of("check", archive, *tables)
    assert said.count(": complete up to position") == 2, said
    for table in found:
        positions = table.rows(-1, 1 << 62, ["position"])["position"].to_pylist()
        assert len(positions) == len(set(positions)) >= shape.messages


def test_what_is_missing_is_named_and_mistakes_are_one_line(archive: str, tmp_path: Path) -> None:
    import deltalake

    table = str(tmp_path / "delta")
    assert "to position" in output_of("run", archive, "--delta", table, "--once")
    rows = deltalake.DeltaTable(table).to_pyarrow_table(columns=["position"])["position"].to_pylist()
    position = sorted(rows)[700]
    deltalake.DeltaTable(table).delete(f"position = {position}")
    assert f"the record at position {position} is missing" in output_of("check", archive, "--delta", table, status=1)
    for line, said in (
        (("run", archive), "no table: give --delta, --iceberg, or both"),
        (("run", archive, "--delta", table, "--commit", "recorded"), "a feed takes what is committed"),
        (("run", str(tmp_path / "no"), "--delta", table, "--once"), "no archive in"),
        (("run", archive, "--iceberg", "/proc/no"), "cannot write to /proc/no"),
    ):
        told = output_of(*line, status=6)
        assert said in told and len(told.splitlines()) == 1, told
