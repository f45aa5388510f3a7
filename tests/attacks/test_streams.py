"""A stranger who sends datagrams to a driver's, or a member's, ports: forged streams, floods, noise.

Where datagrams are encrypted the stranger holds a key that the driver trusts, and all that it sends is sealed.

A driver is a process of its own here, and a friend's stream through it goes on: that nothing came of an attack is that
this stream is complete, that the process lives, and that a counter names what was refused.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.driver.frames.system_counters import REFUSED_TYPE_ID
from ordo.transport.secure.handshakes import Calling
from ordo.transport.secure.keys import Keyring, public_text, write_new_secret
from ordo.transport.secure.network import SecureNetwork
from ordo.transport.streams.logbuffer import open_log
from ordo.transport.udp import UdpNetwork, pack_address
from tests.cluster.integration.agreement import demand_agreement
from tests.cluster.integration.conftest import StartCluster, start_cluster
from tests.cluster.integration.writer import Writer
from tests.patience import patient
from tests.transport.driver_world import Collector, Feeder
from tests.transport.test_driver_threads import patient_client
from tests.transport.test_hostile_stream import BAD_LENGTHS, frame, header

__all__ = ["start_cluster"]
HOST = "127.0.0.1"
STREAM, TERM_ID = 10, 5
CONSENSUS_STREAM, INGRESS_STREAM = 108, 101
TIMEOUT_S = 60.0
FOREIGN_SOURCES = 8
SETTINGS = """
images_max = 100
images_per_source_max = 50
setups_per_source_rate = 10000
setups_per_source_burst = 10000
timer_interval = "50ms"
"""


def setup(session: int, stream: int = STREAM, term_length: int = 65536) -> bytes:
    return struct.pack("<iBBHiiiiiiii", 40, 0, 0, 5, 0, session, stream, TERM_ID, TERM_ID, term_length, 1408, 0)


def covered_header(session: int, length: int, stream: int = STREAM) -> list[bytes]:
    """SETUP, then a payload that looks like a header, then a frame that ends right before it."""
    evil = frame(64, header(length, 96, session=session, stream=stream), session=session, stream=stream)
    return [setup(session, stream), evil, frame(0, bytes(64), session=session, stream=stream)]


def encryption_in(folder: Path) -> str:
    """Settings of a driver that trusts its own key, and a stranger's."""
    names = ("driver", "stranger")
    keys = [public_text(write_new_secret(str(folder / f"{name}.key")).public) for name in names]
    (folder / "trusted.keys").write_text("".join(f"{key} {name}\n" for key, name in zip(keys, names, strict=True)))
    return f'[encryption]\nkey_file = "{folder}/driver.key"\ntrusted_file = "{folder}/trusted.keys"\n'


class PlainSocket:
    """The stranger's: sends any bytes to one port."""

    def __init__(self, port: int) -> None:
        self._target = (HOST, port)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((HOST, 0))
        self._socket.setblocking(False)
        self.close = self._socket.close

    def send(self, datagram: bytes) -> bool:
        """False when there is no room now."""
        try:
            return self._socket.sendto(datagram, self._target) >= 0
        except BlockingIOError:
            return False

    def receive(self) -> list[bytes]:
        """What was sent back."""
        try:
            return [self._socket.recv(65536)]
        except BlockingIOError:
            return []


class SealedSocket:
    """The same with a trusted key: what it sends is decrypted before anybody looks at it."""

    def __init__(self, folder: Path, port: int) -> None:
        self._target = pack_address(HOST, port)
        keyring = Keyring(f"{folder}/stranger.key", f"{folder}/trusted.keys")
        self._network = SecureNetwork(UdpNetwork(), keyring, SystemClock())
        self._channel = self._network.open((HOST, 0))
        deadline_s = time.monotonic() + patient(TIMEOUT_S)
        while self._channel.key_name(self._target) != "driver":
            assert time.monotonic() < deadline_s, "no keys were agreed on"
            self.send(b"\0" * 8)
            self._network.select_channels(10_000_000)
            self.receive()

    def send(self, datagram: bytes) -> bool:
        return self._channel.send_bytes(datagram, self._target) == 1

    def receive(self) -> list[bytes]:
        self._network.select_channels(0)
        return [datagram for datagram, _ in self._channel.receive_bytes()]

    def close(self) -> None:
        self._channel.close()
        self._network.close()


class Attacked:
    """`ordo driver` with a friend's client; a stranger's socket, by default one that seals where the driver does."""

    def __init__(self, folder: Path, port: int, *, is_encrypted: bool = False, is_trusted: bool = True) -> None:
        self.folder = folder / "driver"
        self.port = port
        file = folder / "driver.toml"
        file.write_text(SETTINGS + (encryption_in(folder) if is_encrypted else ""))
        arguments = ["driver", "--dir", str(self.folder), "--config", str(file)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from ordo.cli import main; main()", *arguments], stdout=subprocess.DEVNULL
        )
        self.client = patient_client(self.folder)
        channel = f"aeron:udp?endpoint={HOST}:{port}"
        self.collector = Collector(self.client.add_subscription(channel, STREAM))
        self.publication = self.client.add_publication(f"{channel}|term-length=64k", STREAM)
        self.socket = SealedSocket(folder, port) if is_encrypted and is_trusted else PlainSocket(port)
        self.work()

    def send(self, *datagrams: bytes) -> None:
        for datagram in datagrams:
            if not self.socket.send(datagram):
                time.sleep(0.001)

    def received(self) -> Iterator[bytes]:
        """What was sent back to the stranger."""
        while datagrams := self.socket.receive():
            yield from datagrams

    def work(self, count: int = 500) -> None:
        """The friend's messages all arrive, in their order, and nobody else's among them."""
        mine = self.publication.session_id
        self.collector.by_session.clear()
        feeder = Feeder(self.publication, count)
        deadline_s = time.monotonic() + patient(TIMEOUT_S)
        while len(self.collector.by_session.get(mine, ())) < count:
            assert self.process.poll() is None, "the driver is gone"
            assert time.monotonic() < deadline_s, len(self.collector.by_session.get(mine, ()))
            feeder.feed()
            if not self.collector.poll(1000):
                self.client.do_work(time.monotonic_ns())
                self.client.idle()
        assert self.collector.by_session[mine] == feeder.messages

    def await_image(self, session: int) -> None:
        """The driver has made what the stranger's SETUP asks for."""
        deadline_s = time.monotonic() + patient(TIMEOUT_S)
        while self.collector.subscription.image_by_session_id(session) is None:
            assert time.monotonic() < deadline_s, session
            self.client.do_work(time.monotonic_ns())
            time.sleep(0.005)

    def await_refused(self, key: int, count: int = 1) -> None:
        """A counter of what was refused says so."""
        deadline_s = time.monotonic() + patient(TIMEOUT_S)
        while self.refused(key) < count:
            assert time.monotonic() < deadline_s, self.refused(key)
            self.client.do_work(time.monotonic_ns())
            time.sleep(0.005)

    def refused(self, key: int) -> int:
        counters = self.client.counters
        return int(counters.get_value(counters.find(REFUSED_TYPE_ID, struct.pack("<i", key))))

    def used_bytes(self) -> int:
        """Memory that the driver's files really take."""
        return sum(path.stat().st_blocks * 512 for path in self.folder.rglob("*") if path.is_file())

    def images(self) -> int:
        return len(list((self.folder / "images").glob("*.logbuffer")))

    def close(self) -> None:
        self.socket.close()
        self.client.close()
        self.process.terminate()
        assert self.process.wait(patient(TIMEOUT_S)) == 0


@pytest.fixture(params=[False, True], ids=["plain", "encrypted"])
def attacked(request: pytest.FixtureRequest, shm_path: Path, free_port: Callable[[], int]) -> Iterator[Attacked]:
    made = Attacked(shm_path, free_port(), is_encrypted=request.param)
    yield made
    made.close()


def test_a_payload_that_looks_like_a_header(attacked: Attacked) -> None:
    """200 bytes ended a node, or made it hand out a megabyte of its memory."""
    for session, length in enumerate(BAD_LENGTHS):
        first, *rest = covered_header(session, length)
        attacked.send(first)
        attacked.await_image(session)  # what comes before is dropped, whatever is in it
        attacked.send(*rest)
        attacked.work(50)
        attacked.send(*rest)
        attacked.work(50)
    attacked.await_refused(0, len(BAD_LENGTHS))
    assert all(len(message) <= 1376 for messages in attacked.collector.by_session.values() for message in messages)


def test_set_ups_without_end(attacked: Attacked) -> None:
    """One host has as many images as it may; all other hosts go on, and still get new ones."""
    before = attacked.used_bytes()
    for number in range(3000):
        attacked.send(setup(number))
        if number % 100 == 99:
            attacked.work(20)
    attacked.await_refused(3, 1000)
    assert attacked.images() <= 51
    assert attacked.used_bytes() - before < 51 * (256 << 10)
    attacked.work()


def test_terms_of_a_gigabyte(attacked: Attacked) -> None:
    """4 MB of datagrams took 518 MiB."""
    before = attacked.used_bytes()
    for number in range(50):
        attacked.send(setup(number, term_length=1 << 30))
        attacked.send(*(frame(place << 20, bytes(1000), session=number) for place in range(20)))
        attacked.work(5)
    attacked.await_refused(2, 5)
    attacked.send(setup(7, term_length=64 << 20))
    attacked.work(50)
    attacked.send(*(frame(place * 4096, bytes(1000), session=7) for place in range(8192)))
    attacked.work()
    assert attacked.used_bytes() - before < 4 << 20


def test_frames_in_anothers_stream(attacked: Attacked) -> None:
    """The attacker knows everything that names the stream and where it goes on, but has not its publisher's address."""
    session, term_length = attacked.publication.session_id, 65536
    for number in range(20):
        position = attacked.publication.position
        term = attacked.publication.initial_term_id + position // term_length
        forged = frame(position % term_length, b"forged", session=session, term=term)
        attacked.send(forged)
        attacked.await_refused(FOREIGN_SOURCES, number + 1)
        attacked.work(20)
    assert all(b"forged" not in messages for messages in attacked.collector.by_session.values())


def test_sessions_that_nobody_knows(attacked: Attacked) -> None:
    """What is sent back to a source that has proven nothing stays bounded, whatever it sends."""
    for number in range(5000):
        attacked.send(frame(0, bytes(32), session=number + 1000))
    attacked.await_refused(6, 100)
    attacked.work()
    answered = sum(len(datagram) for datagram in attacked.received())
    assert 0 < answered < 5000 * 64


@pytest.mark.parametrize("seed", range(2))
def test_noise_and_mutants(attacked: Attacked, seed: int) -> None:
    """Random bytes, and frames of every type with something changed."""
    random = Random(seed)
    session = attacked.publication.session_id
    types = range(12)
    for number in range(20_000):
        if number % 2:
            datagram = random.randbytes(random.randrange(100))
        else:
            numbers = [random.choice((0, 1, 32, STREAM, session, TERM_ID, 65536, 2**31 - 1, -1)) for _ in range(8)]
            datagram = struct.pack("<iBBH8i", random.choice((0, 32, 40)), 0, 0, random.choice(types), *numbers)
        attacked.send(datagram)
        if number % 1000 == 999:
            attacked.work(20)
    attacked.work()


def test_an_encrypted_driver_under_all_of_it(shm_path: Path, free_port: Callable[[], int]) -> None:
    """Nothing that is not encrypted makes a stream, and no handshake that is begun, cut or changed ends one."""
    attacked = Attacked(shm_path, free_port(), is_encrypted=True, is_trusted=False)
    random = Random(1)
    calling = [Calling(index, random.randbytes(8)).hello() for index in range(200)]
    sent = received = 0
    for round_number in range(20):
        datagrams = [datagram for length in BAD_LENGTHS for datagram in covered_header(round_number, length)]
        datagrams += [setup(round_number * 100 + number) for number in range(100)]
        datagrams += [frame(0, b"forged", session=attacked.publication.session_id), *random.sample(calling, 20)]
        for hello in random.sample(calling, 20):
            changed = bytearray(hello)
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
            datagrams += [bytes(changed), hello[: random.randrange(len(hello))]]
        for kind in range(10):
            datagrams.append(bytes([kind]) + b"OS\xf1" + random.randbytes(random.randrange(200)))
        attacked.send(*datagrams)
        sent += sum(len(datagram) for datagram in datagrams)
        attacked.work(20)
        received += sum(len(datagram) for datagram in attacked.received())
    assert attacked.images() == 1
    assert 0 < received <= sent
    assert all(b"forged" not in messages for messages in attacked.collector.by_session.values())
    attacked.work()
    attacked.close()


def test_a_client_that_fills_its_own_log_buffer_with_anything(attacked: Attacked) -> None:
    """The damage is done by another process, in the file that it shares with the driver."""
    for kind, prefix in (
        ("aeron:udp?endpoint=127.0.0.1:9|spies-simulate-connection=true", "aeron-spy:"),
        ("aeron:ipc", ""),
    ):
        subscription = attacked.client.add_subscription(prefix + kind.partition("|")[0], 77)
        more = "|term-length=64k" if "?" in kind else "?term-length=64k"
        publication = attacked.client.add_exclusive_publication(kind + more, 77)
        deadline_s = time.monotonic() + patient(TIMEOUT_S)
        while not subscription.images:
            assert time.monotonic() < deadline_s
            attacked.client.do_work(time.monotonic_ns())
        path = attacked.folder / "publications" / f"{publication.registration_id}.logbuffer"
        log = open_log(FileMemoryProvider(), str(path))
        for seed in range(20):
            noise = Random(seed).randbytes(3 * 65536 + 200)
            with log.view() as view:
                view[: len(noise)] = noise
            attacked.work(20)
            subscription.poll(lambda *_: None, 10)
        publication.close()
        subscription.close()
        log.close()
    attacked.work()


def test_nobody_else_reads_the_messages(attacked: Attacked) -> None:
    for path in (attacked.folder, *attacked.folder.rglob("*")):
        if not path.is_socket():
            assert stat.S_IMODE(os.stat(path).st_mode) & 0o077 == 0, path


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
def test_a_cluster_under_forged_streams(start_cluster: StartCluster, is_encrypted: bool) -> None:
    """Sent to consensus and ingress of every member. Three nodes once died of it; echoes held the memory of one."""
    cluster = start_cluster(encrypted=is_encrypted)
    with (
        Writer(cluster.ingress_endpoints, **cluster.client_keys) as writer,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
    ):
        writer.write(50)
        for session, length in enumerate(BAD_LENGTHS):
            for endpoint in cluster.ingress_endpoints.values():
                host, _, port = endpoint.rpartition(":")
                for offset, stream in ((0, INGRESS_STREAM), (1, CONSENSUS_STREAM)):
                    first, *rest = covered_header(session, length, stream)
                    stranger.sendto(first, (host, int(port) + offset))
                    time.sleep(0.05)
                    for datagram in rest:
                        stranger.sendto(datagram, (host, int(port) + offset))
            writer.write(10)
        writer.write(50)
        demand_agreement(cluster, [writer])
        assert writer.sessions == 1
    cluster.check_running()
