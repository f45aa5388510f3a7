"""Names between drivers: entries on the wire, who hears of whom, and who is forgotten."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest

from ordo.runtime.errors import ConfigurationError, DecodeError, RegistrationError
from ordo.transport.driver.channels.gossip import Entry, Gossip, decode_frame, encode_frame
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.conducting.conductor import INVALID_PACKETS
from ordo.transport.inspection.trace import KINDS, open_trace, read_lines
from ordo.transport.udp import pack_address
from tests.simulation.network import Faults
from tests.transport.driver_world import MS, Node, S, World

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
PORT = 8050


@pytest.fixture
def world() -> Iterator[World]:
    world = World(step_ns=MS)
    yield world
    world.close()


def driver(world: World, address: str, name: str, bootstrap: str = "", interface: str = "") -> Node:
    return world.node(
        address, resolver_name=name, resolver_interface=interface or f"{address}:{PORT}", resolver_bootstrap=bootstrap
    )


def gossip(node: Node) -> Gossip:
    found = node.driver.context.names.gossip
    assert found is not None
    return found


def knows(node: Node, *names: str) -> bool:
    return all(gossip(node).lookup(name) is not None for name in names)


# --- on the wire ------------------------------------------------------------------------------------------------------


def test_an_entry_on_the_wire() -> None:
    """transport-wire.md §2.8, byte for byte: type, flags, port, age, address, length, name, aligned to 8."""
    frame = encode_frame([Entry("abc", "10.0.0.1", 8050, 5, True)])
    entry = struct.pack("<BBHi", 1, 0x80, 8050, 5) + bytes([10, 0, 0, 1]) + struct.pack("<h", 3) + b"abc"
    assert frame == struct.pack("<iBBH", 8 + 24, 0, 0, 7) + entry.ljust(24, b"\0")
    wide = encode_frame([Entry("abc", "fd00::1", 8050, 5, False)])
    assert wide[8:16] == struct.pack("<BBHi", 2, 0, 8050, 5) and len(wide) == 8 + 32


def test_what_is_encoded_is_decoded() -> None:
    entries = [Entry("a" * length, host, 1, 2, length % 2 == 0) for length in range(1, 20) for host in (A, "fd00::7")]
    assert decode_frame(encode_frame(entries)) == entries


def test_of_a_damaged_frame_nothing_is_taken() -> None:
    frame = encode_frame([Entry("name", A, PORT, 0, True), Entry("other", "fd00::1", PORT, 9, False)])
    random = Random(1)
    for length in range(len(frame)):
        with pytest.raises(DecodeError):
            decode_frame(frame[:length])
    for _ in range(2_000):
        damaged = bytearray(frame)
        for _ in range(random.randint(1, 4)):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        with suppress(DecodeError):
            for entry in decode_frame(bytes(damaged)):
                assert 1 <= len(entry.name) <= 512 and entry.age_ms >= 0


# --- between drivers --------------------------------------------------------------------------------------------------


def test_a_driver_is_reached_by_its_name(world: World) -> None:
    a, b = driver(world, A, "left"), driver(world, B, "right", f"{A}:{PORT}")
    world.until(lambda: knows(a, "right") and knows(b, "left"))
    assert gossip(a).lookup("right") == B and gossip(a).lookup("left") == A
    subscription = b.client.add_subscription("aeron:udp?endpoint=right:4000", 10)
    publication = a.client.add_publication("aeron:udp?endpoint=right:4000", 10)
    world.until(lambda: publication.is_connected and subscription.is_connected)
    assert a.counter(15) == 1 and a.counter(16) == 1


def test_configured_neighbours_have_counters_of_their_own(world: World) -> None:
    """As drivers of Aeron 1.51 have them: where each is, by its place in the setting."""
    bootstrap = f"{B}:{PORT},{C}:{PORT}"
    left = driver(world, A, "left", bootstrap)
    driver(world, B, "right")

    def found() -> dict[tuple[str, bytes], int]:
        counters = [one for one in left.client.counters if one.type_id == 21]
        return {(one.label, one.key[:4]): one.value for one in counters}

    labels = [f"Bootstrap neighbor: name={host}:{PORT} resolved={host}:{PORT}" for host in (B, C)]
    heard, missing = (labels[0], struct.pack("<i", 0)), (labels[1], struct.pack("<i", 1))
    world.until(lambda: found() == {heard: 1, missing: 0})


def test_names_are_handed_on(world: World) -> None:
    """Two that know only the one between them hear of each other, and become neighbours."""
    middle = driver(world, B, "middle")
    ends = [driver(world, A, "left", f"{B}:{PORT}"), driver(world, C, "right", f"{B}:{PORT}")]
    world.until(lambda: knows(ends[0], "right") and knows(ends[1], "left"))
    world.until(lambda: (C, PORT) in gossip(ends[0]).neighbours and (A, PORT) in gossip(ends[1]).neighbours)
    middle.crash()
    world.run(30 * S, step_ns=20 * MS)
    assert knows(ends[0], "right") and knows(ends[1], "left"), "without the one they had it from"
    assert not knows(ends[0], "middle") and not knows(ends[1], "middle"), "who is silent is forgotten"


def test_a_late_driver_is_heard_of_and_one_that_moved_is_found(world: World) -> None:
    a = driver(world, A, "left")
    with pytest.raises(RegistrationError, match="Unable to resolve"):
        a.client.add_publication("aeron:udp?endpoint=right:4000", 10)
    b = driver(world, B, "right", f"{A}:{PORT}")
    world.until(lambda: knows(a, "right"))
    publication = a.client.add_publication("aeron:udp?endpoint=right:4000", 10)
    b.crash()
    c = driver(world, C, "right", f"{A}:{PORT}")
    c.client.add_subscription(f"aeron:udp?endpoint={C}:4000", 10)
    world.until(lambda: publication.is_connected, timeout_ns=60 * S, step_ns=5 * MS)
    assert gossip(a).lookup("right") == C


def test_a_wildcard_address_is_that_of_the_datagram(world: World) -> None:
    a = driver(world, A, "left")
    driver(world, B, "right", f"{A}:{PORT}", interface=f"0.0.0.0:{PORT}")
    world.until(lambda: knows(a, "right"))
    assert gossip(a).lookup("right") == B


def test_names_survive_a_lossy_network() -> None:
    world = World(step_ns=MS, faults=Faults(loss=0.3))
    nodes = [driver(world, f"10.0.0.{i}", f"n{i}", f"10.0.0.1:{PORT}") for i in range(1, 5)]
    world.until(lambda: all(knows(node, "n1", "n2", "n3", "n4") for node in nodes), timeout_ns=60 * S, step_ns=5 * MS)
    world.close()


def test_strangers_fill_nothing_beyond_its_bound(world: World) -> None:
    a = driver(world, A, "left")
    stranger = world.network.host("10.0.0.9").open(("10.0.0.9", 9))
    for first in range(0, 6_000, 40):
        entries = [Entry(f"n{first + i}", "10.1.0.1", 1 + first + i, 0, False) for i in range(40)]
        stranger.send_bytes(encode_frame(entries), pack_address(A, PORT))
        world.run(20 * MS)
    assert len(gossip(a).cache) <= 4096 and len(gossip(a).neighbours) <= 1024
    stranger.send_bytes(encode_frame([Entry("left", "10.1.0.1", 1, 0, True)]), pack_address(A, PORT))
    world.run(50 * MS)
    assert gossip(a).lookup("left") == A, "nobody says who we are"


def test_datagrams_that_are_no_names_are_counted_and_change_nothing(world: World) -> None:
    a = driver(world, A, "left")
    stranger = world.network.host("10.0.0.9").open(("10.0.0.9", 9))
    whole = encode_frame([Entry("right", "10.1.0.1", 1, 0, True)])
    for datagram in (b"x", whole[:-8], bytes(32), whole[:6] + b"\1\0" + whole[8:]):
        stranger.send_bytes(datagram, pack_address(A, PORT))
    world.run(50 * MS)
    assert a.driver.system_counter(INVALID_PACKETS) == 4
    assert gossip(a).cache == gossip(a).neighbours == {}


def test_a_trace_shows_the_names_that_are_told(world: World) -> None:
    a = driver(world, A, "left")
    with open_trace(a.memory, f"/sim/{A}", world.clock, KINDS["frames-in"] | KINDS["frames-out"]) as log:
        driver(world, B, "right", f"{A}:{PORT}")
        world.until(lambda: knows(a, "right"))
        world.run(2 * S)
        lines = read_lines(log)
    frame = "RES length_bytes=32 frame_length=32 flags=00000000"
    for wanted in (
        f"in {B}:{PORT} {frame} own name=right host={B} port={PORT} age_ms=0",
        f"out {B}:{PORT} {frame} own name=left host={A} port={PORT} age_ms=0",
        f" name=right host={B}",
    ):
        assert any(wanted in line for line in lines), (wanted, lines)


@pytest.mark.parametrize(
    "settings",
    [
        {"resolver_name": "a"},
        {"resolver_interface": "10.0.0.1:1"},
        {"resolver_name": "ä", "resolver_interface": "10.0.0.1:1"},
        {"resolver_name": "a", "resolver_interface": "10.0.0.1"},
        {"resolver_bootstrap": "b:port"},
    ],
)
def test_wrong_settings_are_named(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="resolver_"):
        MediaDriverSettings(directory="/x", **settings)  # type: ignore[arg-type]
