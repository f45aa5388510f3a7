"""Aeron's C client with Ordo's driver, Ordo's client with Aeron's C driver, and streams between the two drivers."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.peers.c_peer import start_c_driver
from tests.peers.conversation import (
    BACK,
    KINDS,
    MEDIA,
    SIZES_BYTES,
    THERE,
    FreePort,
    Kind,
    StartDriver,
    channels,
    converse,
    converse_with_loss,
    udp,
)
from tests.peers.ordo_peer import connect
from tests.peers.peer_process import PeerProcess

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.timeout(240)]
END_TIMEOUT_S = 30
StartCEcho = Callable[[Path | str, str, str, Kind], PeerProcess]


@pytest.fixture
def start_echo(programs: Path) -> Iterator[StartCEcho]:
    """Starts a C client that answers what it reads, with the driver of a folder."""
    with ExitStack() as stack:

        def start(folder: Path | str, there: str, back: str, kind: Kind) -> PeerProcess:
            arguments = [str(folder), there, str(THERE), back, str(BACK), kind]
            peer = stack.enter_context(PeerProcess([str(programs / "echo_stream"), *arguments]))
            peer.await_line("ready")
            return peer

        yield start


@contextmanager
def c_driver(programs: Path, folder: Path) -> Iterator[Path]:
    """Aeron's C driver in this folder; it ends well when it is told to."""
    with start_c_driver(programs, folder) as process:
        yield folder
        process.terminate()
        said, _ = process.communicate(timeout=END_TIMEOUT_S)
        assert process.returncode == signal.SIGTERM, said  # which it returns after it has closed everything
        assert not folder.exists()


@MEDIA
@KINDS
def test_c_client_of_an_ordo_driver(
    start_echo: StartCEcho, start_driver: StartDriver, free_port: FreePort, media: str, kind: Kind
) -> None:
    driver = start_driver()
    there, back = channels(media, free_port)
    converse(driver.connect(), there, back, kind, lambda: start_echo(driver.directory, there, back, kind), SIZES_BYTES)
    assert not driver.errors


@MEDIA
@KINDS
def test_ordo_client_of_a_c_driver(
    programs: Path, start_echo: StartCEcho, free_port: FreePort, shm_path: Path, media: str, kind: Kind
) -> None:
    there, back = channels(media, free_port)
    with c_driver(programs, shm_path / "c") as folder:
        peer = start_echo(folder, there, back, kind)
        converse(connect(str(folder)), there, back, kind, lambda: peer, SIZES_BYTES)


@KINDS
def test_udp_between_ordos_driver_and_aerons_c_driver(
    programs: Path, start_echo: StartCEcho, start_driver: StartDriver, free_port: FreePort, shm_path: Path, kind: Kind
) -> None:
    driver = start_driver()
    there, back = udp(free_port()), udp(free_port())
    with c_driver(programs, shm_path / "c") as folder:
        converse(driver.connect(), there, back, kind, lambda: start_echo(folder, there, back, kind), SIZES_BYTES)
    assert not driver.errors


def test_loss_between_ordos_driver_and_aerons_c_driver(
    programs: Path, start_echo: StartCEcho, start_driver: StartDriver, free_port: FreePort, shm_path: Path
) -> None:
    with c_driver(programs, shm_path / "c") as folder:
        converse_with_loss(start_driver(), free_port, lambda there, back: start_echo(folder, there, back, "exclusive"))
