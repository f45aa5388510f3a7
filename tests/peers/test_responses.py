"""Response channels between Ordo and Aeron: a requester of one, a responder of the other, and the other way round."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ordo.runtime.native.clock import SystemClock
from ordo.transport.client.client import TransportClient
from ordo.transport.streams.publication import ExclusivePublication
from tests.background import in_background
from tests.peers.java_peer import JavaPeers
from tests.peers.ordo_peer import OrdoDriver, await_that, exchange

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.timeout(240)]
REQUEST_STREAM, RESPONSE_STREAM = 1001, 1002
SIZES_BYTES = [8, 32, 288, 1344, 1345, 4000, 0, 10_000, 31] * 40
ECHOES = 300
StartDriver = Callable[..., OrdoDriver]
FreePort = Callable[[], int]


def test_an_aeron_responder_answers_ordo(
    java: JavaPeers, start_driver: StartDriver, free_port: FreePort, shm_path: Path
) -> None:
    requests = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
    control = f"127.0.0.1:{free_port()}"
    driver = start_driver()
    with driver.connect() as client:
        peer = java.start(
            "ResponseStream", shm_path / "java", "responder", requests, REQUEST_STREAM, control, RESPONSE_STREAM
        )
        peer.await_line("ready")
        responses = client.add_subscription(f"aeron:udp?control-mode=response|control={control}", RESPONSE_STREAM)
        channel = f"{requests}|response-correlation-id={responses.registration_id}"
        publication = client.add_exclusive_publication(channel, REQUEST_STREAM)
        await_that(lambda: publication.is_connected and responses.is_connected, client, "the connection")
        exchange(client, publication, responses, SIZES_BYTES)
        peer.finish()
    assert not driver.errors


def respond(client: TransportClient, requests: str, control: str, must_end: threading.Event) -> None:
    """Sends each requester its own messages back."""
    publications: dict[int, ExclusivePublication] = {}
    subscription = client.add_subscription(requests, REQUEST_STREAM)
    while not must_end.is_set():
        for image in subscription.images:
            if image.correlation_id not in publications:
                channel = (
                    f"aeron:udp?control-mode=response|control={control}|response-correlation-id={image.correlation_id}"
                )
                publications[image.correlation_id] = client.add_exclusive_publication(channel, RESPONSE_STREAM)
            publication = publications[image.correlation_id]

            def echo(payload: bytes, _: object, to: ExclusivePublication = publication) -> None:
                while to.offer(payload) < 0 and to.is_connected:
                    client.idle()

            if publication.is_connected:
                image.poll(echo, 10)
        client.do_work(SystemClock().now())
        client.idle()


def test_ordo_answers_an_aeron_requester(
    java: JavaPeers, start_driver: StartDriver, free_port: FreePort, shm_path: Path
) -> None:
    requests = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
    control = f"127.0.0.1:{free_port()}"
    driver = start_driver()
    with driver.connect() as client, in_background(partial(respond, client, requests, control)):
        arguments = (requests, REQUEST_STREAM, control, RESPONSE_STREAM, ECHOES)
        peers = [java.start("ResponseStream", shm_path / f"java{i}", "requester", *arguments) for i in range(2)]
        for peer in peers:
            assert peer.await_line("echoed") == [str(ECHOES)]
        for peer in peers:
            peer.finish()
    assert not driver.errors
