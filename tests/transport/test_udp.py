"""Real UDP sockets on loopback: batches, segmentation, waking, refusals; drivers over them."""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ordo.runtime.errors import TransportError
from ordo.runtime.native.clock import SystemClock, VirtualClock
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.client.client import TransportClient
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.udp import UdpChannel, UdpNetwork, pack_address, unpack_address
from tests.patience import patient
from tests.transport.driver_world import MS, Collector, Feeder, S
from tests.transport.native_stream import send_items

LOCAL = ("127.0.0.1", 0)
ALONE_COUNT = 70
"""More datagrams that come one at a time than a channel wants before it asks for one alone (transport/udp.pyx)."""


@pytest.fixture
def network() -> Iterator[UdpNetwork]:
    made = UdpNetwork()
    yield made
    made.close()


def received(network: UdpNetwork, channel: UdpChannel, count: int, timeout_s: float = 5.0) -> list[tuple[bytes, bytes]]:
    """Datagrams of a channel, waited for with select."""
    found: list[tuple[bytes, bytes]] = []
    deadline = time.monotonic() + patient(timeout_s)
    while len(found) < count and time.monotonic() < deadline:
        network.select_channels(10_000_000)
        while channel.ready:
            found += channel.receive_bytes()
    return found


@pytest.mark.parametrize("address", [("127.0.0.1", 40123), ("::1", 40123), ("10.1.2.3", 0)])
def test_addresses_in_the_kernels_form(address: tuple[str, int]) -> None:
    packed = pack_address(*address)
    assert len(packed) == (28 if ":" in address[0] else 16)
    assert unpack_address(packed) == address


def test_a_name_is_not_an_address() -> None:
    with pytest.raises(TransportError, match="not a numeric address"):
        pack_address("localhost", 1)


@pytest.mark.parametrize("segmentation", [True, False])
def test_segments_arrive_as_datagrams_of_their_own(network: UdpNetwork, segmentation: bool) -> None:
    receiver = network.open(LOCAL, rcvbuf=1 << 20)
    sender = network.open(LOCAL, connect=receiver.local_address)
    if not segmentation:
        sender.disable_segmentation()
    payload = b"".join(bytes([i]) * 1408 for i in range(20)) + b"end"
    assert sender.send_bytes(payload, segment_length_bytes=1408) == 1
    found = received(network, receiver, 21)
    assert [len(d) for d, _ in found] == [1408] * 20 + [3]
    assert b"".join(d for d, _ in found) == payload
    assert {unpack_address(s) for _, s in found} == {sender.local_address}


def test_more_segments_than_one_batch_holds(network: UdpNetwork) -> None:
    receiver = network.open(LOCAL, rcvbuf=1 << 20)
    sender = network.open(LOCAL, connect=receiver.local_address)
    sender.disable_segmentation()
    payload = bytes(range(256)) * 40
    assert sender.send_bytes(payload, segment_length_bytes=64) == 1
    found = received(network, receiver, 160)
    assert b"".join(d for d, _ in found) == payload


@pytest.mark.parametrize("segmentation", [True, False])
@pytest.mark.parametrize(
    "lengths",
    [
        [(100, 100)] * 64,
        [(100, 100)] * 5 + [(60, 60)] + [(100, 100)] * 3,
        [(250, 100), (100, 100), (100, 100), (300, 100), (90, 50), (100, 100)],
        [(100, 100), (300, 100), (150, 100), (300, 60), (60, 60)],
        [(60, 60), (100, 100), (100, 40)],
        [(6400, 100), (100, 100), (100, 100)],
        [(60000, 1400), (1400, 1400), (6000, 1400)],
        [(100, 0), (100, 0), (0, 0), (100, 0)],
    ],
)
def test_items_that_leave_together_keep_their_datagrams(
    network: UdpNetwork, lengths: list[tuple[int, int]], segmentation: bool
) -> None:
    """Of the same length they are one message for the kernel, whatever they end with."""
    receiver = network.open(LOCAL, rcvbuf=4 << 20)
    sender = network.open(LOCAL, connect=receiver.local_address)
    if not segmentation:
        sender.disable_segmentation()
    items = [(bytes([number]) * length, datagram) for number, (length, datagram) in enumerate(lengths)]
    expected = [
        payload[at : at + (datagram or len(payload))]
        for payload, datagram in items
        for at in range(0, max(1, len(payload)), datagram or max(1, len(payload)))
    ]
    assert send_items(sender, items) == len(items)
    assert [data for data, _ in received(network, receiver, len(expected))] == expected


def send_one_at_a_time(network: UdpNetwork, sender: UdpChannel, receiver: UdpChannel, count: int) -> list[bytes]:
    """Each is received, and then there is nothing more, before the next one leaves. What came beside them."""
    others: list[bytes] = []
    for number in range(count):
        sender.send_bytes(bytes([number]))
        found: list[bytes] = []
        while bytes([number]) not in found:  # others may overtake it
            came = received(network, receiver, 1)
            assert came, f"datagram {number} is lost"
            found += [data for data, _ in came]
        found += [data for data, _ in receiver.receive_bytes()]
        found.remove(bytes([number]))
        others += found
    return others


def test_datagrams_that_come_alone_and_those_behind_them(network: UdpNetwork) -> None:
    """Where one came at a time, one is asked for: another right behind it, an empty one, and segments that came
    together are not lost, and a burst is taken together again."""
    receiver = network.open(LOCAL, rcvbuf=1 << 20)
    sender = network.open(LOCAL, connect=receiver.local_address)
    assert send_one_at_a_time(network, sender, receiver, ALONE_COUNT) == []
    sender.send_bytes(b"one")
    sender.send_bytes(b"two")
    assert [data for data, _ in receiver.receive_bytes()] == [b"one"]
    assert [data for data, _ in received(network, receiver, 1)] == [b"two"]
    assert send_one_at_a_time(network, sender, receiver, ALONE_COUNT) == []
    sender.send_bytes(b"ab" * 100, segment_length_bytes=2)
    assert [data for data, _ in received(network, receiver, 100)] == [b"ab"] * 100
    assert send_one_at_a_time(network, sender, receiver, ALONE_COUNT) == []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.sendto(b"", receiver.local_address)
        assert [data for data, _ in received(network, receiver, 1)] == [b""]
    for _ in range(3):
        sender.send_bytes(b"burst")
    assert len(receiver.receive_bytes()) + len(receiver.receive_bytes()) == 3


def test_datagrams_keep_their_bounds_whenever_segments_come_together(network: UdpNetwork) -> None:
    """Bursts come at any moment, also while the channel turns to asking for one datagram, or back."""
    receiver = network.open(LOCAL, rcvbuf=4 << 20)
    sender = network.open(LOCAL, connect=receiver.local_address)
    bursts, rounds = 0, 500
    ended = threading.Event()

    def send_bursts() -> None:
        nonlocal bursts
        other = UdpNetwork()
        try:
            channel = other.open(LOCAL, connect=receiver.local_address)
            for number in range(1 << 20):
                if ended.wait(0.0002 * (number % 7)):
                    break
                bursts += channel.send_bytes(b"burst" * 8, segment_length_bytes=5)
        finally:
            other.close()

    found: list[bytes] = []
    thread = threading.Thread(target=send_bursts)
    thread.start()
    try:
        for _ in range(rounds):
            found += send_one_at_a_time(network, sender, receiver, ALONE_COUNT)
    finally:
        ended.set()
        thread.join()
    found += [data for data, _ in received(network, receiver, 8 * bursts - len(found))]
    assert bursts > 0
    assert found == [b"burst"] * 8 * bursts


def test_an_unconnected_channel_sends_where_it_is_told(network: UdpNetwork) -> None:
    one, two = network.open(LOCAL), network.open(LOCAL)
    sender = network.open(LOCAL)
    for channel, text in ((one, b"to one"), (two, b"to two")):
        assert sender.send_bytes(text, pack_address(*channel.local_address)) == 1
    assert received(network, one, 1)[0][0] == b"to one"
    assert received(network, two, 1)[0][0] == b"to two"


def test_a_refused_peer_is_a_loss_and_not_an_error(network: UdpNetwork) -> None:
    gone = network.open(LOCAL)
    address = gone.local_address
    gone.close()
    sender = network.open(LOCAL, connect=address)
    for _ in range(10):
        assert sender.send_bytes(b"x") == 1
        network.select_channels(0)
        if sender.ready:
            assert sender.receive_bytes() == []


def test_an_unreachable_destination_is_a_loss(network: UdpNetwork) -> None:
    sender = network.open(LOCAL)
    assert sender.send_bytes(b"x", pack_address("255.255.255.255", 9)) == 1


def test_a_port_in_use_is_one_clear_line(network: UdpNetwork) -> None:
    first = network.open(LOCAL)
    with pytest.raises(TransportError) as caught:
        network.open(first.local_address)
    assert f"127.0.0.1:{first.local_address[1]}" in str(caught.value)
    assert "choose another port" in str(caught.value) and "\n" not in str(caught.value)


def test_an_address_of_another_machine_is_refused(network: UdpNetwork) -> None:
    with pytest.raises(TransportError, match="not an address of this machine"):
        network.open(("203.0.113.7", 0))


def test_an_unknown_name_is_refused(network: UdpNetwork) -> None:
    with pytest.raises(TransportError, match="Unable to resolve host"):
        network.resolve("no-such-host.invalid", 1)


def test_buffers_are_as_asked(network: UdpNetwork) -> None:
    channel = network.open(LOCAL, rcvbuf=300_000, sndbuf=200_000)
    assert channel.receive_buffer_bytes >= 300_000
    assert channel.send_buffer_bytes >= 200_000


def test_multicast_on_loopback(network: UdpNetwork, free_port: Callable[[], int]) -> None:
    group = ("239.255.77.1", free_port())
    members = [network.open(("0.0.0.0", group[1]), group=group, interface="127.0.0.1", reuse=True) for _ in range(2)]
    sender = network.open(("0.0.0.0", 0), connect=group, interface="127.0.0.1", ttl=1)
    assert sender.send_bytes(b"to all") == 1
    assert [received(network, member, 1)[0][0] for member in members] == [b"to all"] * 2


def test_interfaces_by_prefix_and_by_name(network: UdpNetwork) -> None:
    assert network.interface_address("127.0.0.0/8") == "127.0.0.1"
    assert network.interface_address("{lo}") == "127.0.0.1"
    assert network.interface_address("127.0.0.1:4000") == "127.0.0.1"
    with pytest.raises(TransportError, match="no interface"):
        network.interface_address("203.0.113.0/24")


def test_select_waits_until_its_timeout_and_until_woken(network: UdpNetwork, shm_path: Path) -> None:
    start = time.monotonic()
    assert network.select_channels(20_000_000) == 0
    assert 0.019 <= time.monotonic() - start < patient(2)
    network.open_wake_socket(str(shm_path / "wake.sock"))
    waker = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    for wake in (network.wake, lambda: waker.sendto(b"\1", str(shm_path / "wake.sock"))):
        thread = threading.Thread(target=wake)
        start = time.monotonic()
        thread.start()
        network.select_channels(20_000_000_000)
        assert time.monotonic() - start < 10
        thread.join()
    waker.close()
    assert network.select_channels(0) == 0, "the wakers are drained"


def test_a_closed_channel_does_nothing(network: UdpNetwork) -> None:
    channel = network.open(LOCAL)
    channel.close()
    channel.close()
    with pytest.raises(OSError, match="EBADF"):
        channel.send_bytes(b"x", pack_address("127.0.0.1", 9))
    again = network.open(LOCAL)
    assert again.fileno() >= 0


def test_many_channels_are_watched(network: UdpNetwork) -> None:
    channels = [network.open(LOCAL) for _ in range(100)]
    sender = network.open(LOCAL)
    for channel in channels[:50]:
        channel.close()
    channels[:50] = [network.open(LOCAL) for _ in range(50)]
    for channel in channels:
        sender.send_bytes(struct.pack("<H", channel.local_address[1]), pack_address(*channel.local_address))
    for channel in channels:
        assert received(network, channel, 1)[0][0] == struct.pack("<H", channel.local_address[1])


def test_one_look_sees_hundreds_of_channels_that_have_something(network: UdpNetwork) -> None:
    """One that waits for its turn behind others that are never empty would wait for many duty cycles."""
    channels = [network.open(LOCAL) for _ in range(200)]
    sender = network.open(LOCAL)
    for channel in channels:
        sender.send_bytes(b"here", pack_address(*channel.local_address))
    for channel in channels:  # the system may deliver on loopback later than the sender returns
        assert select.select([channel.fileno()], [], [], patient(20))[0]
    network.select_channels(0)
    assert all(channel.ready for channel in channels)


# --- drivers over real sockets ----------------------------------------------------------------------------------------


class Pair:
    """A driver and a client on this thread, in files."""

    def __init__(self, path: Path) -> None:
        self.clock, self.memory = SystemClock(), FileMemoryProvider()
        self.driver = MediaDriver(
            MediaDriverSettings(directory=str(path), term_length=1 << 20, ipc_term_length=1 << 20),
            clock=self.clock,
            memory=self.memory,
        )
        self.driver.on_start()
        self.client = TransportClient(str(path), clock=self.clock, memory=self.memory, invoker=self.work)

    def work(self) -> int:
        return self.driver.do_work(self.clock.now())

    def until(self, condition: Callable[[], object], timeout_s: float = 20.0) -> None:
        deadline = time.monotonic() + patient(timeout_s)
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout_s} s"
            if self.work() == 0:
                self.driver.park(self.clock.now(), 1_000_000)
            self.client.do_work(self.clock.now())

    def close(self) -> None:
        self.client.close()
        self.driver.on_close()


@pytest.fixture
def pair(shm_path: Path) -> Iterator[Pair]:
    made = Pair(shm_path / "driver")
    yield made
    made.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_stream_over_loopback(pair: Pair, free_port: Callable[[], int], host: str) -> None:
    channel = f"aeron:udp?endpoint={host}:{free_port()}"
    collector = Collector(pair.client.add_subscription(channel, 10))
    feeder = Feeder(pair.client.add_exclusive_publication(channel, 10), 20_000, length=200)

    def step() -> bool:
        feeder.feed()
        collector.poll(1000)
        return len(collector.messages) == 20_000

    pair.until(step)
    assert collector.messages == feeder.messages


def test_multicast_streams_over_loopback(pair: Pair, free_port: Callable[[], int]) -> None:
    channel = f"aeron:udp?endpoint=239.255.77.1:{free_port()}|interface=127.0.0.1|ttl=1"
    collector = Collector(pair.client.add_subscription(channel, 10))
    feeder = Feeder(pair.client.add_exclusive_publication(channel, 10), 2_000)

    def step() -> bool:
        feeder.feed()
        collector.poll(1000)
        return len(collector.messages) == 2_000

    pair.until(step)
    assert collector.messages == feeder.messages


def test_a_parked_driver_is_woken_by_a_datagram(pair: Pair, free_port: Callable[[], int]) -> None:
    port = free_port()
    pair.client.add_subscription(f"aeron:udp?endpoint=127.0.0.1:{port}", 10)
    pair.until(lambda: pair.driver.park(pair.clock.now(), 0) == 0)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    thread = threading.Thread(target=lambda: sender.sendto(b"x" * 32, ("127.0.0.1", port)))
    start = time.monotonic()
    thread.start()
    ready = 0
    while ready == 0 and time.monotonic() - start < 5:
        ready = pair.driver.park(pair.clock.now(), 10_000_000_000)
    thread.join()
    sender.close()
    assert ready == 1


def test_a_driver_looks_again_before_it_parks_while_datagrams_come_fast(
    shm_path: Path, free_port: Callable[[], int]
) -> None:
    clock, port = VirtualClock(S), free_port()
    driver = MediaDriver(MediaDriverSettings(directory=str(shm_path / "driver")), clock=clock)

    def turns_after_a_datagram(pause_ns: int) -> int:
        clock.advance(pause_ns)
        sender.sendto(b"x" * 32, ("127.0.0.1", port))
        assert driver.park(clock.now(), MS) == 1
        driver.do_work(clock.now())
        return driver.spinning.turns_left

    with (
        driver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        TransportClient(
            driver.directory, clock=clock, memory=FileMemoryProvider(), invoker=lambda: driver.do_work(clock.now())
        ) as client,
    ):
        client.add_subscription(f"aeron:udp?endpoint=127.0.0.1:{port}", 10)
        assert [turns_after_a_datagram(10 * MS) for _ in range(3)] == [0, 0, 0]
        assert turns_after_a_datagram(MS // 10) == driver.spinning.turns_max > 0
        assert driver.park(clock.now(), MS) == 0
        assert driver.spinning.turns_left == 0, "they are taken before it waits"
        assert turns_after_a_datagram(MS // 10) == driver.spinning.turns_max
        assert [turns_after_a_datagram(10 * MS) for _ in range(4)][-1] == 0


def test_a_driver_with_work_does_not_park(pair: Pair) -> None:
    subscription = pair.client.add_subscription("aeron:ipc", 10)
    publication = pair.client.add_publication("aeron:ipc", 10)
    pair.until(lambda: publication.is_connected)
    while pair.work():
        pass
    publication.offer(b"x")
    start = time.monotonic()
    pair.driver.park(pair.clock.now(), 5_000_000_000)
    assert time.monotonic() - start < 2.5, "a publication moved since the last turn"
    assert subscription.poll(lambda *_: None) == 1


def test_a_client_in_another_process_wakes_a_parked_driver(pair: Pair) -> None:
    """The park flag and wake.sock: the byte of a writer ends the park."""
    flag = pair.driver.counters.find(1004)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            client = TransportClient(pair.driver.directory, clock=SystemClock(), memory=FileMemoryProvider())
            publication = client.add_publication("aeron:ipc", 77)
            status = 0 if publication.stream_id == 77 else 1
        finally:
            os._exit(status)
    deadline = time.monotonic() + patient(20)
    parked = done = 0
    while not done and time.monotonic() < deadline:
        if pair.work() == 0:
            pair.driver.park(pair.clock.now(), 50_000_000)
            parked += 1
        done, status = os.waitpid(pid, os.WNOHANG)
    assert done == pid and os.waitstatus_to_exitcode(status) == 0
    assert parked > 0 and pair.driver.counters.get_value(flag) == 0


def test_an_idle_driver_with_a_connection_sleeps(pair: Pair, free_port: Callable[[], int]) -> None:
    """Under 2 % of a core: what is due is a handful of heartbeats and status messages a second."""
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
    subscription = pair.client.add_subscription(channel, 10)
    publication = pair.client.add_exclusive_publication(channel, 10)
    pair.until(lambda: publication.is_connected and subscription.images)
    start, used, turns = time.monotonic(), time.process_time(), 0
    while time.monotonic() - start < 1.0:
        turns += 1
        if pair.work() == 0:
            pair.driver.park(pair.clock.now(), 100_000_000)
        pair.client.do_work(pair.clock.now())
    assert turns < 400
    assert time.process_time() - used < 0.1


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("tos", [-1, 0, 0xB8])
def test_packets_are_marked_as_asked_for(network: UdpNetwork, address: str, tos: int) -> None:
    is_v6 = ":" in address
    family, level = (socket.AF_INET6, socket.IPPROTO_IPV6) if is_v6 else (socket.AF_INET, socket.IPPROTO_IP)
    with socket.socket(family, socket.SOCK_DGRAM) as receiver:
        receiver.settimeout(patient(5))
        receiver.bind((address, 0))
        receiver.setsockopt(level, socket.IPV6_RECVTCLASS if is_v6 else socket.IP_RECVTOS, 1)
        sender = network.open((address, 0), connect=receiver.getsockname()[:2], tos=tos)
        sender.send_bytes(b"marked")
        payload, ((_, _, mark),), _, _ = receiver.recvmsg(100, 100)
    assert payload == b"marked"
    assert mark[0] == max(tos, 0)
