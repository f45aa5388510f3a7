"""The losses and the moving names that Aeron's tests ask a driver for, around Ordo's driver."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ordo.runtime.errors import ConfigurationError, TransportError
from ordo.runtime.io.datagram import DatagramChannel
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.udp import pack_address
from tools.aeronmd_faults import FaultyNetwork, GapLosses, MovingNames, RandomLosses, RangeLosses, losses_of, names_of

DATA, SETUP = 1, 5
ROWS = "moving,127.0.0.1,127.0.0.2|named,localhost,nowhere.invalid|"


def frame(offset: int, length: int = 32, *, term_id: int = 7, kind: int = DATA, session_id: int = 1) -> bytes:
    header = struct.pack("<iBBHiiii", length, 0, 0, kind, offset, session_id, 10, term_id)
    return header + bytes(length - len(header))


def test_a_share_of_the_wanted_frames_is_lost() -> None:
    losses = losses_of(
        {
            "UDP_CHANNEL_INCOMING_INTERCEPTORS": "loss",
            "UDP_CHANNEL_TRANSPORT_BINDINGS_LOSS_ARGS": "rate=0.2|seed=3405691582|recv-msg-mask=0x2",
        }
    )
    assert losses == RandomLosses(0.2, 0xCAFEBABE, 0x2)
    lost = [losses.loses(frame(0)) for _ in range(1000)]
    assert 120 < sum(lost) < 280
    assert not any(losses.loses(frame(0, kind=SETUP)) for _ in range(100)) and not losses.loses(b"")


def test_a_range_of_a_term_is_lost_once() -> None:
    losses = RangeLosses(term_id=7, end=100)
    offsets = range(0, 192, 32)
    assert [losses.loses(frame(offset)) for offset in offsets] == [True, True, True, True, False, False]
    assert not any(losses.loses(frame(offset)) for offset in offsets), "what is sent again arrives"
    assert losses.loses(frame(0, session_id=2)) and not losses.loses(frame(0, term_id=8, session_id=3))


def test_gaps_of_a_term_are_lost_once() -> None:
    losses = GapLosses(term_id=7, step=128, length=16, count=2)
    lost = [offset for offset in range(0, 512, 32) if losses.loses(frame(offset))]
    assert lost == [128, 256]
    assert not losses.loses(frame(128)) and not losses.loses(frame(384))
    assert GapLosses(term_id=7, step=128, length=16, count=2).loses(frame(96, 64)), "a frame that reaches into a gap"


def test_what_aeron_has_no_losses_for_is_refused() -> None:
    assert losses_of({}) is None and names_of({"NAME_RESOLVER_SUPPLIER": "driver"}) is None
    with pytest.raises(ConfigurationError, match="INTERCEPTORS=other: loss, fixed-loss and multi-gap-loss"):
        losses_of({"UDP_CHANNEL_INCOMING_INTERCEPTORS": "other"})
    with pytest.raises(ConfigurationError, match="FIXED_LOSS_ARGS=term-id=1: 'term-offset' is missing"):
        losses_of(
            {
                "UDP_CHANNEL_INCOMING_INTERCEPTORS": "fixed-loss",
                "UDP_CHANNEL_TRANSPORT_BINDINGS_FIXED_LOSS_ARGS": "term-id=1",
            }
        )


def test_a_socket_loses_what_it_is_told_and_passes_on_the_rest() -> None:
    network = FaultyNetwork(RangeLosses(term_id=7, end=64), None)
    try:
        receiver, sender = network.open(("127.0.0.1", 0)), network.open(("127.0.0.1", 0))
        to = pack_address(*receiver.local_address)
        for offset in (0, 32, 64):
            assert sender.send_bytes(frame(offset), to) == 1
        assert [datagram for datagram, _ in _received(receiver)] == [frame(64)]
    finally:
        network.close()


def _received(channel: DatagramChannel) -> list[tuple[bytes, bytes]]:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if found := channel.receive_bytes():
            return list(found)
    raise AssertionError("nothing came")


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[tuple[MediaDriver, FaultyNetwork, MovingNames]]:
    names = MovingNames(ROWS)
    settings = MediaDriverSettings(directory=f"{tmp_path}/driver", threading_mode="shared")
    network = FaultyNetwork(None, names)
    with MediaDriver(settings, network=network) as made:
        names.add_counters(made.counters)
        yield made, network, names


def test_a_name_moves_with_its_counter(driver: tuple[MediaDriver, FaultyNetwork, MovingNames]) -> None:
    made, network, names = driver
    switch = made.counters.counter(made.counters.find(2001, key=b"\x06\0\0\0moving"))
    assert names.host_of("moving") == "127.0.0.1" and names.host_of("other") == "other"
    switch.set(1)
    assert names.host_of("moving") == "127.0.0.2"
    switch.set(-1)
    with pytest.raises(TransportError, match="Unable to resolve host='moving'"):
        network.lookup("moving")
