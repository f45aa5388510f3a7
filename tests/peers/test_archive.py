"""Aeron's archive client against Ordo's archive, and Ordo's client against Aeron's archive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.archive.test_serve import Served
from tests.peers.java_peer import JavaPeers

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.timeout(240)]


@pytest.mark.parametrize("is_local", [False, True], ids=["udp", "ipc"])
def test_aerons_client_uses_an_archive_of_ordo(
    java: JavaPeers, tmp_path: Path, shm_path: Path, free_port: Callable[[], int], is_local: bool
) -> None:
    """Over UDP with a Java driver of its own; over IPC on the archive's driver, with its recording counters."""
    served = Served(free_port(), tmp_path / "archive", shm_path / "driver")
    try:
        served.connect().close()
        if is_local:
            places = [str(served.aeron_dir), "attach", "aeron:ipc", "aeron:ipc"]
            streams = ["aeron:ipc?alias=java", "aeron:ipc"]
        else:
            ports = [free_port() for _ in range(3)]
            places = [str(shm_path / "java"), "launch", f"aeron:udp?endpoint={served.address}"]
            places.append(f"aeron:udp?endpoint=127.0.0.1:{ports[0]}")
            streams = [
                f"aeron:udp?endpoint=127.0.0.1:{ports[1]}|alias=java",
                f"aeron:udp?endpoint=127.0.0.1:{ports[2]}",
            ]
        said = java.run("ArchiveUser", *places, *streams)
        assert said[1:] == ["recorded 0", "replayed 3000", "extended", "replayed 6000", "segments", "errors", "done"]
    finally:
        log = served.stop()
    assert "archive.error" not in log
