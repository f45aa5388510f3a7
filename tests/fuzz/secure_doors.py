"""The door of encrypted datagrams: what strangers, and somebody on the path, do to handshakes and what follows."""

from __future__ import annotations

import base64
import shutil
import tempfile
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from ordo.transport.secure.handshakes import DATA, HELLO
from ordo.transport.secure.keys import SECRET_PREFIX, public_text
from ordo.transport.secure.noise import KeyPair
from tests.fuzz.driver_doors import HERE, STREAM, THERE, Finding, check_errors, signature
from tests.fuzz.engine import pack, unpack
from tests.transport.driver_world import MS, Collector, Feeder, S, World, transfer

CHANNEL = f"aeron:udp?endpoint={HERE}:4000"
KINDS = range(HELLO, DATA + 1)
STEPS_MAX = 16
RAW_KINDS = 2


class HandshakeDoor:
    """Steps are datagrams from outside while two drivers agree on keys and talk: of kind 0 and 1 they go to the one or
    the other as they are; of higher kinds they are made of the newest HELLO, COOKIE, INIT, RESPONSE or DATA on the
    network, with bytes changed from an offset on and perhaps cut there. Its keys, and with them all that is said, are
    the same in every run."""

    name = "handshakes"

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ordo-fuzz-"))
        pairs = [KeyPair.of(bytes([number]) * 32) for number in (1, 2)]
        trusted = self._folder / "trusted.keys"
        trusted.write_text("".join(f"{public_text(pair.public)} friend\n" for pair in pairs))
        self._settings: list[dict[str, Any]] = []
        for number, pair in enumerate(pairs):
            path = self._folder / f"{number}.key"
            path.write_text(SECRET_PREFIX + base64.urlsafe_b64encode(pair.secret).decode().rstrip("=") + "\n")
            path.chmod(0o600)
            self._settings.append({"encryption_key_file": str(path), "encryption_trusted_file": str(trusted)})

    def seeds(self) -> list[bytes]:
        changed = [
            pack([(RAW_KINDS + kind, bytes([0, at, 0, 0xFF]))]) for kind in KINDS for at in (0, 4, 8, 16, 40, 64)
        ]
        cut = [pack([(RAW_KINDS + kind, bytes([0, at, 1, 0xFF]))]) for kind in KINDS for at in (3, 15, 31, 70)]
        heads = [bytes([kind]) + b"OS\xf1" for kind in range(11)]
        raw = [pack([(to, head + bytes(92)), (to, head + bytes(12))]) for head in heads for to in range(RAW_KINDS)]
        return [*changed, *cut, *raw]

    def run(self, data: bytes) -> Hashable:
        world = World(step_ns=500_000)
        sender = world.node(THERE, **self._settings[0])
        receiver = world.node(HERE, **self._settings[1])
        got = Collector(receiver.client.add_subscription(CHANNEL, STREAM))
        publication = sender.client.add_exclusive_publication(CHANNEL, STREAM)
        port = sender.host.channels[0].local_address[1]
        for kind, step in unpack(data, most=STEPS_MAX):
            world.cycle()
            self._interfere(world, kind, step, port)
        world.until(lambda: publication.is_connected, 30 * S)
        transfer(world, Feeder(publication, 10), [got])
        if got.messages != Feeder(None, 10).messages:
            raise Finding("the stream has messages that nobody sent")
        world.run(5 * MS)
        found = signature(world)
        for node in world.nodes:
            check_errors(node)
        world.close()
        return found

    def _interfere(self, world: World, kind: int, step: bytes, port: int) -> None:
        here, there = (HERE, 4000), (THERE, port)
        if kind < RAW_KINDS:
            source, to = (there, here) if kind == 0 else (here, there)
            world.network.hosts[to[0]].accept(source, to, step)
            return
        wanted = KINDS[(kind - RAW_KINDS - HELLO) % len(KINDS)]
        for _, source, to, datagram in reversed(world.packets):
            if datagram[0] == wanted:
                world.network.hosts[to[0]].accept(source, to, self._changed(datagram, step))
                return

    @staticmethod
    def _changed(datagram: bytes, step: bytes) -> bytes:
        at = int.from_bytes(step[:2], "big") % (len(datagram) + 1)
        mask = step[3:][: len(datagram) - at]
        if len(step) > 2 and step[2] & 1:
            return datagram[:at] + mask
        changed = bytes(a ^ b for a, b in zip(datagram[at:], mask, strict=False))
        return datagram[:at] + changed + datagram[at + len(changed) :]

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
