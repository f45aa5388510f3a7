"""What is said between Ordo and a peer of Aeron's that sends every message back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from ordo.transport.client.client import TransportClient
from tests.peers.ordo_peer import OrdoDriver, await_that, exchange
from tests.peers.peer_process import PeerProcess
from tests.peers.relay import LossyRelay
from tests.thorough import few_of

THERE, BACK = 1001, 1002
IPC = "aeron:ipc"
FRAGMENTED = [1, 8, 32, 288, 1344, 1345, 1376, 4000, 100, 10_000, 64, 100 * 1024, 0, 2752, 16, 31]
SIZES_BYTES = FRAGMENTED * 250
KINDS = pytest.mark.parametrize("kind", few_of(["exclusive", "concurrent"], ["concurrent"]))
MEDIA = pytest.mark.parametrize("media", ["ipc", "udp"])
Kind = Literal["exclusive", "concurrent"]
StartDriver = Callable[..., OrdoDriver]
StartEcho = Callable[[], PeerProcess]
FreePort = Callable[[], int]


def udp(port: int, extra: str = "") -> str:
    return f"aeron:udp?endpoint=127.0.0.1:{port}{extra}"


def channels(media: str, free_port: FreePort) -> tuple[str, str]:
    """There and back."""
    return (IPC, IPC) if media == "ipc" else (udp(free_port()), udp(free_port()))


def converse(
    client: TransportClient, there: str, back: str, kind: Kind, start_echo: StartEcho, sizes_bytes: list[int]
) -> None:
    """Sends messages to the echo and back, then closes; each side sees the other's stream end."""
    with client:
        subscription = client.add_subscription(back, BACK)
        add = client.add_exclusive_publication if kind == "exclusive" else client.add_publication
        publication = add(there, THERE)
        peer = start_echo()
        await_that(lambda: publication.is_connected and subscription.is_connected, client, "the connection")
        exchange(client, publication, subscription, sizes_bytes)
        publication.close()
        await_that(lambda: (line := peer.poll()) and line.startswith("image-gone"), client, "the end of our stream")
        assert peer.said[-1].endswith(" true"), "our stream ended without its end being told"
        image = subscription.images[0]
        peer.tell("end")
        assert peer.await_line("echoed") == [str(len(sizes_bytes))]
        await_that(lambda: not subscription.is_connected, client, "the end of the echo's stream")
        assert image.is_end_of_stream
        peer.finish()


def converse_with_loss(driver: OrdoDriver, free_port: FreePort, start_echo: Callable[[str, str], PeerProcess]) -> None:
    """Every 50th datagram is lost, data, status messages, NAKs and SETUPs alike: retransmission in both directions.

    `start_echo(there, back)` starts a peer with a driver of its own.
    """
    peer_port, ordo_port = free_port(), free_port()
    with (
        LossyRelay(peer_port, loss=0.02, seed=1) as there,
        LossyRelay(ordo_port, loss=0.02, seed=2) as back,
        driver.connect() as client,
    ):
        subscription = client.add_subscription(udp(ordo_port), BACK)
        publication = client.add_exclusive_publication(udp(there.port), THERE)
        peer = start_echo(udp(peer_port), udp(back.port))
        await_that(lambda: publication.is_connected and subscription.is_connected, client, "the connection")
        exchange(client, publication, subscription, FRAGMENTED * 60)
        peer.tell("end")
        assert peer.await_line("echoed") == [str(len(FRAGMENTED) * 60)]
        assert there.dropped and back.dropped
        system = driver.driver.system_counter
        naks_sent, naks_received, retransmits = system(5), system(6), system(11)
        assert naks_sent and naks_received and retransmits
        peer.finish()
    assert not driver.errors
