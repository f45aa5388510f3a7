"""A process whose node found its disk full: what it takes for that, and how long it waits."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.cluster.node import disk_wait
from ordo.cluster.node.disk_wait import DiskWait, is_want_of_room
from ordo.cluster.settings.config import NodeSettings
from ordo.runtime.errors import StorageError, StorageFullError


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Gives back the signals that a wait takes."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def config_of(folder: Path) -> NodeSettings:
    return NodeSettings.model_validate(
        {"node": {"member_id": 0, "data_dir": folder}, "members": [{"id": 0, "host": "localhost", "port": 20000}]}
    )


def test_only_a_full_disk_of_data_dir_is_waited_for(tmp_path: Path) -> None:
    full = StorageFullError(f"cannot record: path={tmp_path}/archive/0-0.rec: No space left on device")
    assert is_want_of_room(full, tmp_path)
    assert not is_want_of_room(StorageFullError("cannot create file: path=/dev/shm/ordo/cnc.dat"), tmp_path)
    assert not is_want_of_room(StorageError(f"cannot record: path={tmp_path}: Input/output error"), tmp_path)


def test_it_waits_until_there_is_as_much_room_as_the_high_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path)
    high = config.archive.disk_high_bytes
    found = iter([0, high - 1, high])
    monkeypatch.setattr(disk_wait, "free_bytes", lambda folder: next(found))
    monkeypatch.setattr(disk_wait, "WAIT_NS_MIN", 0)
    monkeypatch.setattr(disk_wait, "LOOK_INTERVAL_S", 0.001)
    said: list[tuple[str, dict[str, Any]]] = []
    wait = DiskWait(config, lambda event, **context: said.append((event, context)))
    assert wait.wait(StorageFullError("full"))
    assert next(found, None) is None
    ((event, context),) = said
    assert (event, context["member_id"], context["reason"]) == ("node.waits", 0, "full")


def test_a_signal_ends_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(folder: Path) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        return 0

    monkeypatch.setattr(disk_wait, "free_bytes", look)
    monkeypatch.setattr(disk_wait, "WAIT_NS_MIN", 0)
    assert not DiskWait(config_of(tmp_path), lambda event, **context: None).wait(StorageFullError("full"))
