"""Doors of the media driver: datagrams, log buffers and counters that clients share, commands."""

from __future__ import annotations

import struct
from collections.abc import Hashable
from typing import Any

from ordo.runtime.errors import OrdoError
from ordo.transport.control import commands
from ordo.transport.control.cnc import FILE_NAME
from ordo.transport.control.commands import encode, type_id_of
from ordo.transport.driver.frames.system_counters import LABELS, REFUSED_LABELS
from tests.fuzz.engine import pack, unpack
from tests.transport.driver_world import MS, Collector, Feeder, Node, S, World, transfer

HERE, THERE = "10.0.0.2", "10.0.0.1"
CHANNEL = f"aeron:udp?endpoint={HERE}:4000"
SOURCE = CHANNEL + "|term-length=64k|init-term-id=5|term-id=5|term-offset=0|session-id=7"
STREAM = 10
RING_START = 128
COUNTED = len(LABELS) + len(REFUSED_LABELS)
_TIMES = range(26, 34)


class Finding(AssertionError):
    """What must never be, whatever comes in."""


def check_errors(node: Node) -> None:
    """The error log may hold refusals; anything else was not foreseen."""
    for error in [*node.errors, *node.client_errors]:
        if isinstance(error, BaseException) and not isinstance(error, OrdoError):
            raise Finding(f"unforeseen {type(error).__name__}: {error}") from error


def check_others(world: World, node: Node) -> None:
    """Another client's stream goes on."""
    node.client = node.new_client()
    got = Collector(node.client.add_subscription("aeron:ipc", 999))
    transfer(world, Feeder(node.client.add_publication("aeron:ipc", 999), 10), [got], 5 * S)


def signature(world: World) -> tuple[Hashable, ...]:
    """How often each counter of each driver was counted, roughly."""
    found = []
    for node in world.nodes:
        for index in range(COUNTED):
            if index not in _TIMES and index > 1:
                found.append(node.driver.system_counter(index).bit_length())
        found.append(len({str(error)[:20] for error in node.errors}))
    return tuple(found)


class DatagramDoor:
    """Steps are datagrams: even kinds to the subscription's port, odd ones to the publication's."""

    name = "datagrams"

    def seeds(self) -> list[bytes]:
        """What two drivers say to each other in a short life, and attacks that once worked."""
        world, publication, got = self._world()
        transfer(world, Feeder(publication, 5), [got])
        publication.close()
        world.run(300 * MS, 5 * MS)
        said = [(0 if to[1] == 4000 else 1, datagram) for _, _, to, datagram in world.packets[:60]]
        world.close()
        header = struct.pack("<iBBHiiiiq", 0x7FFFFF00, 0, 0xC0, 1, 96, 9, STREAM, 5, 0)
        setup = struct.pack("<iBBHiiiiiiii", 40, 0, 0, 5, 0, 9, STREAM, 5, 5, 65536, 1408, 0)
        above = struct.pack("<iBBHiiiiq", 64, 0, 0xC0, 1, 64, 9, STREAM, 5, 0) + header
        below = struct.pack("<iBBHiiiiq", 96, 0, 0xC0, 1, 0, 9, STREAM, 5, 0) + bytes(64)
        return [pack(said), *(pack([step]) for step in said[:20]), pack([(0, setup), (0, above), (0, below)])]

    def _world(self) -> tuple[World, Any, Collector]:
        world = World()
        sender, receiver = world.node(THERE), world.node(HERE)
        got = Collector(receiver.client.add_subscription(CHANNEL, STREAM))
        publication = sender.client.add_exclusive_publication(SOURCE, STREAM)
        world.until(lambda: publication.is_connected)
        return world, publication, got

    def run(self, data: bytes) -> Hashable:
        world, publication, got = self._world()
        port = world.nodes[0].host.channels[0].local_address[1]
        for kind, datagram in unpack(data):
            if kind % 2:
                world.network.hosts[THERE].accept((HERE, 4000), (THERE, port), datagram)
            else:
                world.network.hosts[HERE].accept((THERE, port), (HERE, 4000), datagram)
            world.run(100_000)
            got.poll()
        publication.offer(b"and on")
        world.run(2 * MS)
        for image in world.nodes[1].driver.conductor.subscriptions.images.all.values():
            if image.rebuild_position > image.high_water:
                raise Finding(f"rebuild_position={image.rebuild_position} beyond high_water={image.high_water}")
        got.poll()
        if any(len(message) > 65504 for message in got.messages):
            raise Finding("a message is longer than any datagram")
        found = signature(world)
        for node in world.nodes:
            check_errors(node)
        check_others(world, world.nodes[1])
        world.close()
        return found


class LogBufferDoor:
    """Steps are writes of a client process into memory that it shares with the driver."""

    name = "logs"

    def seeds(self) -> list[bytes]:
        frame = struct.pack("<iBBHiiiiq", 64, 0, 0xC0, 1, 0, 7, STREAM, 5, 0) + b"y" * 32
        metadata = 3 * 65536
        return [
            pack([(0, struct.pack("<I", 0) + frame)]),
            pack([(1, struct.pack("<I", 0) + frame), (1, struct.pack("<Iq", metadata, (5 << 32) | 64))]),
            pack([(2, struct.pack("<I", 128) + frame)]),
            pack([(3, struct.pack("<Iq", 0, 64))]),
            pack([(0, struct.pack("<Ii", metadata + 24, 1)), (0, struct.pack("<Iq", metadata + 8, (6 << 32) | 96))]),
        ]

    def run(self, data: bytes) -> Hashable:
        world = World()
        sender, receiver = world.node(THERE), world.node(HERE)
        got = [Collector(receiver.client.add_subscription(CHANNEL, STREAM))]
        got += [Collector(sender.client.add_subscription(f"aeron-spy:{CHANNEL}", STREAM))]
        got += [Collector(sender.client.add_subscription("aeron:ipc", STREAM))]
        published = [
            sender.client.add_exclusive_publication(SOURCE, STREAM),
            sender.client.add_publication(
                "aeron:ipc?term-length=64k|init-term-id=5|term-id=5|term-offset=0|session-id=7", STREAM
            ),
        ]
        world.until(lambda: all(p.is_connected for p in published) and all(c.subscription.images for c in got))
        for publication in published:
            publication.offer(b"x" * 100)
        world.run(2 * MS)
        self._write(world, data, got)
        found = signature(world)
        for publication in published:
            publication.close()
        world.run(300 * MS, 5 * MS)
        for node in world.nodes:
            check_errors(node)
            check_others(world, node)
        world.close()
        return found

    def _write(self, world: World, data: bytes, got: list[Collector]) -> None:
        sender, receiver = (node.driver.conductor for node in world.nodes)
        logs = [publication.log for publication in sender.publications.all()]
        logs += [image.log for image in receiver.subscriptions.images.all.values()]
        positions = [
            counter
            for conductor in (sender, receiver)
            for link in conductor.subscriptions.links
            for counter, _ in link.positions.values()
        ]
        for kind, step in unpack(data):
            offset = int.from_bytes(step[:4], "little")
            target = kind % (len(logs) + 1)
            if target < len(logs):
                with logs[target].view() as view:
                    offset %= len(view)
                    written = step[4:][: len(view) - offset]
                    view[offset : offset + len(written)] = written
            elif positions:
                counter = positions[offset % len(positions)]
                counter.set(int.from_bytes(step[4:12].ljust(8, b"\0"), "little", signed=True))
            world.run(500_000)
            for collector in got:
                collector.poll()


class CommandDoor:
    """Steps are records of the command ring (kind: the type id's low byte), or scribbles into the ring (kind 255)."""

    name = "commands"

    def seeds(self) -> list[bytes]:
        c = commands
        said: list[commands.Command] = [
            c.AddPublication(5, 6, STREAM, CHANNEL),
            c.AddExclusivePublication(5, 7, STREAM, SOURCE),
            c.AddSubscription(5, 8, -1, STREAM, "aeron:udp?endpoint=10.0.0.2:4001|control-mode=manual"),
            c.AddCounter(5, 9, 1001, b"key", "label"),
            c.AddReceiveDestination(5, 10, 8, "aeron:udp?endpoint=10.0.0.2:4002"),
            c.RemovePublication(5, 11, 7, 1),
            c.RejectImage(5, 12, 3, 0, "no"),
            c.GetNextAvailableSessionId(5, 13, STREAM),
            c.ClientClose(5, 14),
        ]
        steps = [(type_id_of(command), encode(command)) for command in said]
        return [pack(steps), *(pack([step]) for step in steps), pack([(255, struct.pack("<Iii", 0, 0x7FFFFFFF, 4))])]

    def run(self, data: bytes) -> Hashable:
        world = World()
        node = world.node(HERE)
        world.run(1 * MS)
        ring = node.driver.conductor.context.cnc.to_driver
        is_scribbled = False
        for kind, payload in unpack(data, most=24):
            if kind == 255:
                is_scribbled = True
                self._scribble(node, payload)
            elif len(payload) <= ring.max_message_length:
                ring.write(kind or 1, payload)
            world.run(100_000)
        for _ in range(20):
            node.driver.do_work(world.clock.now())
            world.clock.advance(100 * MS)
        found = signature(world)
        check_errors(node)
        if not is_scribbled:
            check_others(world, node)
        node.driver.on_close()
        return found

    def _scribble(self, node: Node, payload: bytes) -> None:
        """Into the buffer of the ring: every client maps it."""
        memory = node.memory.open(f"{node.driver.directory}/{FILE_NAME}", True)
        with memoryview(memory) as view:
            offset = int.from_bytes(payload[:4], "little") % (1 << 16)
            written = payload[4:]
            view[RING_START + offset : RING_START + offset + len(written)] = written
