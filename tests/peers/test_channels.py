"""Channels that Ordo's driver takes or refuses, and the parameters of the streams, are those of Aeron's drivers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ordo.runtime.errors import RegistrationError
from ordo.transport.client.client import TransportClient
from tests.peers.ordo_peer import OrdoDriver

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.timeout(180)]
STREAM_ID = 10
ENDPOINT = "aeron:udp?endpoint=127.0.0.1:{port}"
PUBLICATIONS = [
    *(ENDPOINT + f"|mtu={mtu}" for mtu in ("32", "64", "1000", "1024", "1k", "1500", "65504", "65536")),
    *(ENDPOINT + f"|term-length={length}" for length in ("32k", "64k", "100k", "2g")),
    *(ENDPOINT + f"|session-id={number}" for number in ("5", "-5", "abc", "4294967295")),
    *(
        ENDPOINT + f"|term-length=64k|init-term-id={initial}|term-id={term}" + (f"|term-offset={at}" if at else "")
        for initial, term, at in (
            (1, 2, "64"),
            (1, 2, "63"),
            (1, 2, ""),
            (5, 2, "64"),
            (1, 2, "65536"),
            (1, 2, "131072"),
        )
    ),
    *(ENDPOINT + f"|linger={time}" for time in ("0", "5s", "-1", "abc")),
    *(ENDPOINT + f"|pub-wnd={length}" for length in ("64k", "10", "1g")),
    *(ENDPOINT + f"|max-resend={count}" for count in ("8", "0", "1000")),
    *(ENDPOINT + f"|so-sndbuf={length}" for length in ("64k", "1m", "10")),
    *(ENDPOINT + f"|channel-snd-ts-offset={at}" for at in ("0", "reserved", "-8", "abc")),
    *(ENDPOINT + f"|{rest}" for rest in ("ttl=5", "eos=false", "ssc=true", "alias=any", "unknown=5", "=5")),
    *(f"aeron:udp?control=127.0.0.1:{{port}}|control-mode=dynamic|fc={how}" for how in ("min,g:/-1", "tagged,x:5")),
    *("aeron:udp?control-mode=manual", "aeron:udp?control-mode=dynamic", "aeron:udp"),
    *(f"aeron:udp?endpoint=127.0.0.1{rest}" for rest in ("", ":99999", ":0")),
    *(
        "aeron:udp?endpoint=224.0.1.2:{port}|interface=127.0.0.1",
        "aeron:udp?endpoint=224.0.1.1:{port}|interface=127.0.0.1",
    ),
    *("aeron:ipc?term-length=64k", "aeron:ipc?mtu=1408", "aeron:ipc?session-id=7"),
    *("aeron:tcp?endpoint=127.0.0.1:{port}", "aeron-other:udp", "udp://x", ""),
]
SUBSCRIPTIONS = [
    *(ENDPOINT + f"|rcv-wnd={length}" for length in ("64k", "10", "1g")),
    *(ENDPOINT + f"|nak-delay={time}" for time in ("1ms", "0", "abc")),
    *(ENDPOINT + f"|session-id={number}" for number in ("5", "abc", "tag:99")),
    *(ENDPOINT + f"|gtag={tag}" for tag in ("5", "abc")),
    *(ENDPOINT + f"|channel-rcv-ts-offset={at}" for at in ("8", "reserved")),
    *(ENDPOINT + f"|{rest}" for rest in ("rejoin=false", "reliable=false", "tether=false", "group=true", "cc=cubic")),
    *("aeron:udp?control-mode=manual", "aeron:udp", "aeron:ipc", "aeron:ipc?session-id=5", "aeron-spy:aeron:ipc"),
    *("aeron:udp?control=127.0.0.1:{port}", "aeron:udp?control-mode=response|control=127.0.0.1:{port}"),
    *(f"aeron:udp?endpoint={address}" for address in ("127.0.0.1:0", "127.0.0.1", "10.77.1.2:{port}")),
    *(
        "aeron:udp?endpoint=224.0.1.1:{port}|interface=127.0.0.1",
        "aeron:udp?endpoint=224.0.1.2:{port}|interface=127.0.0.1",
    ),
    f"aeron-spy:{ENDPOINT}",
]


DIFFERENT = {
    # Aeron's Java code takes what cannot be, and its C code reads letters as a number.
    *(ENDPOINT + "|linger=-1", ENDPOINT + "|channel-snd-ts-offset=-8", ENDPOINT + "|nak-delay=abc"),
    *(f"aeron:udp?control=127.0.0.1:{{port}}|control-mode=dynamic|fc={how}" for how in ("min,g:/-1", "tagged,x:5")),
    # The kernel gives a buffer of 2,304 bytes whatever was asked for, in which a datagram fits.
    ENDPOINT + "|so-sndbuf=10",
    # Aeron 1.47 has response channels as an experiment, and tells later what cannot be bound.
    *("aeron:udp?control-mode=response|control=127.0.0.1:{port}", "aeron:udp?endpoint=10.77.1.2:{port}"),
}
"""Where some release of Aeron differs, and why."""


def publication_of(client: TransportClient, channel: str) -> str:
    """What becomes of a publication: whether it is taken, and its parameters."""
    try:
        publication = client.add_exclusive_publication(channel, STREAM_ID)
    except RegistrationError:
        return "refused"
    found = f"payload up to {publication.max_payload_length}, from {publication.position}"
    if "term-length" in channel:
        found += f", terms of {publication.term_length}"
    publication.close()
    return found


def subscription_of(client: TransportClient, channel: str) -> str:
    try:
        client.add_subscription(channel, STREAM_ID).close()
    except RegistrationError:
        return "refused"
    return "taken"


def test_channels(
    client: TransportClient, start_driver: Callable[..., OrdoDriver], free_port: Callable[[], int]
) -> None:
    found: dict[str, list[str]] = {}
    with start_driver().connect() as ours:
        for look, channels in ((publication_of, PUBLICATIONS), (subscription_of, SUBSCRIPTIONS)):
            for channel in channels:
                # A port of its own: what was added before may linger, and the drivers are on one machine.
                found[channel] = [look(one, channel.format(port=free_port())) for one in (ours, client)]
    differences = [
        f"{channel}: {a}, Aeron's: {b}" for channel, (a, b) in found.items() if a != b and channel not in DIFFERENT
    ]
    assert not differences, "\n".join(differences)
    assert sum(both[0] == "refused" for both in found.values()) > 30
