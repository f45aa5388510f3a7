"""Streams between Ordo and Aeron, each with its own driver or both with one: every message goes there and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.conversation import (
    BACK,
    FRAGMENTED,
    IPC,
    KINDS,
    MEDIA,
    SIZES_BYTES,
    THERE,
    FreePort,
    Kind,
    StartDriver,
    StartEcho,
    channels,
    converse,
    converse_with_loss,
    udp,
)
from tests.peers.java_peer import JavaPeers
from tests.peers.ordo_peer import await_that, connect, exchange
from tests.peers.peer_process import PeerProcess
from tests.transport.test_driver_threads import running

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.timeout(240)]


def starter(java: JavaPeers, folder: str | Path, driver: str, there: str, back: str, kind: Kind) -> StartEcho:
    """Starts a Java program that answers on `back` what it reads from `there`."""

    def start() -> PeerProcess:
        peer = java.start("EchoStream", folder, driver, there, THERE, back, BACK, kind)
        peer.await_line("ready")
        return peer

    return start


@KINDS
def test_udp_between_two_drivers(
    java: JavaPeers, start_driver: StartDriver, free_port: FreePort, shm_path: Path, kind: Kind
) -> None:
    driver = start_driver()
    there, back = udp(free_port()), udp(free_port())
    start_echo = starter(java, shm_path / "java", "launch", there, back, kind)
    converse(driver.connect(), there, back, kind, start_echo, SIZES_BYTES)
    assert not driver.errors


def test_udp_with_loss_between_two_drivers(
    java: JavaPeers, start_driver: StartDriver, free_port: FreePort, shm_path: Path
) -> None:
    folder = shm_path / "java"
    converse_with_loss(
        start_driver(), free_port, lambda there, back: starter(java, folder, "launch", there, back, "exclusive")()
    )


@KINDS
def test_dynamic_destinations(
    java: JavaPeers, start_driver: StartDriver, free_port: FreePort, shm_path: Path, kind: Kind
) -> None:
    """Publications that send to whoever asks at their control address, each way."""
    driver = start_driver()
    there, back = (f"aeron:udp?control=127.0.0.1:{free_port()}|control-mode=dynamic" for _ in range(2))
    listen_there, listen_back = (
        f"aeron:udp?endpoint=127.0.0.1:{free_port()}|{publication.removeprefix('aeron:udp?')}"
        for publication in (there, back)
    )
    start_echo = starter(java, shm_path / "java", "launch", listen_there, back, kind)
    client = driver.connect()
    with client:
        subscription = client.add_subscription(listen_back, BACK)
        publication = client.add_publication(there, THERE)
        peer = start_echo()
        await_that(lambda: publication.is_connected and subscription.is_connected, client, "the connection")
        exchange(client, publication, subscription, FRAGMENTED * 60)
        peer.tell("end")
        peer.await_line("echoed")
        peer.finish()
    assert not driver.errors


def test_multicast(java: JavaPeers, start_driver: StartDriver, free_port: FreePort, shm_path: Path) -> None:
    driver = start_driver()
    there, back = (f"aeron:udp?endpoint=224.20.30.{host}:{free_port()}|interface=127.0.0.1" for host in (39, 41))
    start_echo = starter(java, shm_path / "java", "launch", there, back, "exclusive")
    converse(driver.connect(), there, back, "exclusive", start_echo, FRAGMENTED * 60)
    assert not driver.errors


@KINDS
def test_java_client_of_an_ordo_driver_over_ipc(java: JavaPeers, start_driver: StartDriver, kind: Kind) -> None:
    driver = start_driver()
    start_echo = starter(java, driver.directory, "attach", IPC, IPC, kind)
    converse(driver.connect(), IPC, IPC, kind, start_echo, SIZES_BYTES)
    assert not driver.errors


@KINDS
def test_java_client_of_an_ordo_driver_over_udp(
    java: JavaPeers, start_driver: StartDriver, free_port: FreePort, kind: Kind
) -> None:
    driver = start_driver()
    there, back = udp(free_port()), udp(free_port())
    start_echo = starter(java, driver.directory, "attach", there, back, kind)
    converse(driver.connect(), there, back, kind, start_echo, SIZES_BYTES)
    assert not driver.errors


@pytest.mark.parametrize("mode", ["shared", "shared-network", "dedicated"])
def test_java_client_of_an_ordo_driver_with_threads(
    java: JavaPeers, free_port: FreePort, shm_path: Path, mode: str
) -> None:
    with running(shm_path, threading_mode=mode, term_length=1 << 20) as driver:
        there, back = udp(free_port()), udp(free_port())
        start_echo = starter(java, driver.directory, "attach", there, back, "exclusive")
        converse(connect(driver.directory), there, back, "exclusive", start_echo, FRAGMENTED * 60)


@MEDIA
@KINDS
def test_ordo_client_of_a_java_driver(
    java: JavaPeers, free_port: FreePort, shm_path: Path, media: str, kind: Kind
) -> None:
    there, back = channels(media, free_port)
    folder = shm_path / "java"
    peer = starter(java, folder, "launch", there, back, kind)()
    converse(connect(str(folder)), there, back, kind, lambda: peer, SIZES_BYTES)
