"""Each public method of AeronArchive, asked of Aeron's archive and of Ordo's: the same answers, but for a few rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.archive.served import Served
from tests.patience import patient
from tests.peers.java_peer import JavaPeers, class_path
from tests.peers.peer_process import PeerMissingError, go_without

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.timeout(400)]
AERON_VERSION = "1.51.0"
ANSWERS_TIMEOUT_S = 120.0
DIFFERENT = {
    "startReplay, length 0": ("accepted", "error 16"),
    "truncateRecording, within a frame": ("error 0", "error 16"),
}
"""What is asked, what Aeron's archive answers, and Ordo's: each has a row in docs/DIVERGENCE.md."""


PROGRAM = Path(__file__).with_name("java_newest")
"""Methods that releases before this one have not, so that it is compiled for itself."""


@pytest.fixture(scope="module")
def peers() -> tuple[JavaPeers, JavaPeers]:
    """Those that have the host of Aeron's archive, and the program that asks."""
    try:
        return JavaPeers(*class_path(AERON_VERSION)), JavaPeers(*class_path(AERON_VERSION, PROGRAM, "newest"))
    except PeerMissingError as missing:
        go_without(missing)


def answers(java: JavaPeers, aeron_dir: Path, address: str, free_port: Callable[[], int]) -> dict[str, str]:
    """What an archive answers, by what it is asked."""
    ports = [free_port() for _ in range(8)]
    said = java.run("ArchiveMethods", aeron_dir, address, *ports, timeout_s=patient(ANSWERS_TIMEOUT_S))
    return dict(line.split(" => ", 1) for line in said)


def test_every_method_of_aerons_client_answers_as_with_aerons_archive(
    peers: tuple[JavaPeers, JavaPeers], tmp_path: Path, shm_path: Path, free_port: Callable[[], int]
) -> None:
    hosts, asking = peers
    address = f"127.0.0.1:{free_port()}"
    host = hosts.start(
        "ArchiveHost", shm_path / "java", tmp_path / "java", f"aeron:udp?endpoint={address}",
        "aeron:udp?endpoint=127.0.0.1:0",
    )  # fmt: skip
    try:
        host.await_line("ready")
        theirs = answers(asking, shm_path / "java", address, free_port)
    finally:
        hosts.close()
    with Served(free_port(), tmp_path / "archive", shm_path / "driver") as served:
        served.connect().close()
        ours = answers(asking, served.aeron_dir, served.address, free_port)
    assert [*ours] == [*theirs]
    assert len(ours) > 115
    different = {name: (theirs[name], ours[name]) for name in ours if ours[name] != theirs[name]}
    assert different == DIFFERENT
