"""Encrypted streams between simulated drivers: what passes, what does not, and what others see of it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from ordo.runtime.errors import ChannelError, RegistrationError
from ordo.transport.secure.handshakes import COOKIE_REPLY_BYTES, HELLO_BYTES, INIT_BYTES, RESPONSE_BYTES, Calling
from ordo.transport.secure.keys import add_trusted, public_text, write_new_secret
from ordo.transport.secure.noise import KeyPair
from ordo.transport.secure.session import SecureSession
from ordo.transport.udp import pack_address
from tests.simulation.network import Faults
from tests.transport.driver_world import MS, Collector, Feeder, Node, S, World, transfer
from tests.transport.test_responses import Requester, Responder

A, B, STRANGER = "10.0.0.1", "10.0.0.2", "10.0.0.66"
CHANNEL = f"aeron:udp?endpoint={B}:4000"
STREAM = 10
NOT_ENCRYPTED, FORGED, REPLAYED, UNKNOWN, REFUSED, UNREADABLE, AGREED = range(55, 62)
NAKS_SENT, RETRANSMITS = 5, 10
HELLO, COOKIE, INIT, RESPONSE, DATA = range(1, 6)


class Keys:
    """Key files of named nodes, and one file of trusted keys that all share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trusted = str(folder / "trusted.keys")

    def make(self, name: str, *places: str, is_trusted: bool = True) -> dict[str, Any]:
        """The settings of a driver with a new key."""
        path = str(self.folder / f"{name}.key")
        public = public_text(write_new_secret(path).public)
        if is_trusted:
            add_trusted(self.trusted, public, name, list(places))
        return {"encryption_key_file": path, "encryption_trusted_file": self.trusted}

    def forget(self, name: str) -> None:
        """Nobody trusts this key any more."""
        lines = Path(self.trusted).read_text().splitlines(keepends=True)
        Path(self.trusted).write_text("".join(line for line in lines if name not in line.split()))


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


def pair(world: World, keys: Keys, **settings: Any) -> tuple[Node, Node]:
    of_a, of_b = keys.make("a"), keys.make("b")
    return world.node(A, **of_a, **settings), world.node(B, **of_b, **settings)


def connect(world: World, a: Node, b: Node, channel: str = CHANNEL) -> tuple[Any, Collector]:
    subscription = b.client.add_subscription(channel, STREAM)
    publication = a.client.add_exclusive_publication(channel, STREAM)
    world.until(lambda: publication.is_connected and subscription.is_connected)
    return publication, Collector(subscription)


def counted(node: Node, counter: int) -> int:
    return node.driver.system_counter(counter)


def peers_of(node: Node) -> dict[int, object]:
    """Whoever the driver's first socket remembers."""
    network: Any = node.driver.network
    return dict(network.channels[0].peers)


def lines(node: Node) -> str:
    return "\n".join(str(error) for error in node.errors)


@pytest.mark.parametrize("length", [8, 100, 1300])
def test_messages_arrive_and_nobody_on_the_way_sees_one(keys: Keys, length: int) -> None:
    world = World()
    a, b = pair(world, keys)
    publication, collector = connect(world, a, b)
    transfer(world, Feeder(publication, 500, length), [collector])
    assert collector.messages == Feeder(None, 500, length).messages
    for _, _, _, data in world.packets:
        assert data[1:4] == b"OS\xf1" and data[0] in (HELLO, COOKIE, INIT, RESPONSE, DATA)
        assert b"00000" not in data, "no payload is seen"
        assert int.from_bytes(data[:4], "little", signed=True) < 0, "no Aeron frame is seen"
    assert not a.errors and not b.errors and counted(b, AGREED) == 1
    world.close()


def test_a_connection_waits_for_no_repetition(keys: Keys) -> None:
    """The SETUP that begins a handshake is kept until there are keys: two round trips more, not a repetition more."""
    world = World()
    a, b = pair(world, keys)
    began_ns = world.clock.now()
    connect(world, a, b)
    assert world.clock.now() - began_ns < 5 * MS
    world.close()


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_bad_network_changes_nothing(keys: Keys, seed: int) -> None:
    """Lost, doubled, reordered, cut and changed datagrams: all messages arrive once, in order, and unchanged."""
    faults = Faults(loss=0.02, duplication=0.05, corruption=0.05, truncation=0.03, reordering=0.05)
    world = World(seed, faults)
    a, b = pair(world, keys)
    publication, collector = connect(world, a, b)
    transfer(world, Feeder(publication, 2000, 300), [collector])
    assert collector.messages == Feeder(None, 2000, 300).messages
    assert counted(b, FORGED) + counted(b, NOT_ENCRYPTED) + counted(b, UNKNOWN) > 0, "changed and cut ones are counted"
    assert counted(b, REPLAYED) > 0
    world.close()


def test_recorded_datagrams_are_good_for_nothing(keys: Keys) -> None:
    """Everything that was sent comes again, forwards and backwards, each bit of one datagram flipped."""
    world = World()
    a, b = pair(world, keys)
    publication, collector = connect(world, a, b)
    transfer(world, Feeder(publication, 200, 400), [collector])
    recorded = [packet for packet in world.packets if packet[2] == (B, 4000) and packet[3][0] == DATA]
    invalid = counted(b, 14)
    for _, source, target, data in [*recorded, *reversed(recorded)]:
        world.network.send(source[0], source, target, data)
        world.cycle()
    world.run(50 * MS)
    assert counted(b, REPLAYED) >= 2 * len(recorded)
    _, source, target, data = recorded[-1]
    before = counted(b, FORGED) + counted(b, NOT_ENCRYPTED) + counted(b, UNKNOWN) + counted(b, REPLAYED)
    flipped = [(index, bit) for index in range(4, len(data)) for bit in range(8)]
    for index, bit in flipped:
        changed = bytearray(data)
        changed[index] ^= 1 << bit
        world.network.send(source[0], source, target, bytes(changed))
        if index % 8 == 0:
            world.cycle()
    world.run(50 * MS)
    after = counted(b, FORGED) + counted(b, NOT_ENCRYPTED) + counted(b, UNKNOWN) + counted(b, REPLAYED)
    assert after - before == len(flipped)
    assert counted(b, 14) == invalid, "no frame came of it"
    assert collector.messages == Feeder(None, 200, 400).messages
    collector.messages.clear()
    transfer(world, Feeder(publication, 200, 400), [collector])
    assert collector.messages == Feeder(None, 200, 400).messages
    world.close()


def test_keys_are_renewed_under_load_without_a_loss(keys: Keys) -> None:
    world = World()
    a, b = pair(world, keys, encryption_rekey_ns=S)
    publication, collector = connect(world, a, b)
    feeder = Feeder(publication, 20_000, 100)
    until_ns = world.clock.now() + 10 * S

    def step() -> bool:
        feeder.feed(2)
        collector.poll()
        return world.clock.now() > until_ns

    world.until(step, 60 * S, step_ns=MS)
    world.until(lambda: collector.poll() == 0 and len(collector.messages) == feeder.sent)
    assert collector.messages == feeder.messages[: feeder.sent]
    assert counted(b, AGREED) >= 8, "about one a second"
    assert counted(b, NAKS_SENT) == 0 and counted(a, RETRANSMITS) == 0, "nothing was lost meanwhile"
    world.close()


def test_a_quiet_stream_outlives_its_keys(keys: Keys) -> None:
    """Neither side sends for longer than keys are worth anything; then the stream just goes on."""
    world = World()
    a, b = pair(world, keys, encryption_rekey_ns=S)
    publication, collector = connect(world, a, b)
    world.run(30 * S, 10 * MS)
    transfer(world, Feeder(publication, 100), [collector])
    assert collector.messages == Feeder(None, 100).messages and not a.errors and not b.errors
    world.close()


def test_a_driver_that_starts_again_is_found_again(keys: Keys) -> None:
    """The publisher has keys that the new process does not know; a hint of 16 bytes makes it ask for others."""
    world = World()
    a, b = pair(world, keys)
    settings = {name: getattr(b.driver.config, name) for name in ("encryption_key_file", "encryption_trusted_file")}
    publication, _ = connect(world, a, b)
    b.crash()
    world.run(100 * MS)
    b = world.node(B, **settings)
    subscription = b.client.add_subscription(CHANNEL, STREAM)
    world.until(lambda: subscription.is_connected, 3 * S)
    collector = Collector(subscription)
    transfer(world, Feeder(publication, 100), [collector])
    world.close()


def test_several_destinations_have_keys_of_their_own(keys: Keys) -> None:
    world = World()
    of_c = keys.make("c")
    a, b = pair(world, keys)
    c = world.node("10.0.0.3", **of_c)
    publication = a.client.add_exclusive_publication("aeron:udp?control-mode=manual", STREAM)
    collectors = []
    for node, address in ((b, B), (c, "10.0.0.3")):
        collectors.append(Collector(node.client.add_subscription(f"aeron:udp?endpoint={address}:4000", STREAM)))
        a.client.add_destination(publication, f"aeron:udp?endpoint={address}:4000")
    world.until(lambda: all(one.subscription.is_connected for one in collectors))
    transfer(world, Feeder(publication, 500), collectors)
    assert all(one.messages == Feeder(None, 500).messages for one in collectors)
    assert counted(a, AGREED) == 2
    world.close()


def test_a_subscriber_that_asks_at_a_control_address(keys: Keys) -> None:
    """Here the receiver speaks first."""
    world = World()
    a, b = pair(world, keys)
    publication = a.client.add_exclusive_publication(f"aeron:udp?control={A}:5000|control-mode=dynamic", STREAM)
    subscription = b.client.add_subscription(f"aeron:udp?endpoint={B}:4000|control={A}:5000", STREAM)
    world.until(lambda: publication.is_connected and subscription.is_connected)
    collector = Collector(subscription)
    transfer(world, Feeder(publication, 500), [collector])
    assert collector.messages == Feeder(None, 500).messages
    world.close()


def test_a_response_finds_its_requester(keys: Keys) -> None:
    world = World()
    a, b = pair(world, keys)
    responder, requester = Responder(a), Requester(b)
    world.until(responder.attend)
    feeder = Feeder(responder.publications[requester.requests.session_id], 300)
    transfer(world, feeder, [requester.responses])
    assert requester.responses.messages == feeder.messages
    world.close()


def test_multicast_is_refused_in_one_line(keys: Keys) -> None:
    world = World()
    a, _ = pair(world, keys)
    for add in (a.client.add_subscription, a.client.add_publication):
        with pytest.raises((ChannelError, RegistrationError), match="multicast cannot be encrypted"):
            add(f"aeron:udp?endpoint=239.1.1.1:4000|interface={A}", STREAM)
    world.close()


def unconnected(world: World, a: Node, b: Node, duration_ns: int = 10 * S) -> None:
    """A stream that must not come to be."""
    subscription = b.client.add_subscription(CHANNEL, STREAM)
    publication = a.client.add_exclusive_publication(CHANNEL, STREAM)
    world.run(duration_ns, MS)
    assert not publication.is_connected and not subscription.is_connected


def test_a_publisher_that_does_not_encrypt(keys: Keys) -> None:
    world = World()
    a, b = world.node(A), world.node(B, **keys.make("b"))
    unconnected(world, a, b)
    assert counted(b, NOT_ENCRYPTED) > 0 and counted(a, UNREADABLE) > 0
    assert lines(b).count(f"{A} sends datagrams that are not encrypted") == 1
    assert lines(a).count(f"{B} sends encrypted datagrams, which this driver cannot read") == 1
    world.close()


def test_a_subscriber_that_does_not_encrypt(keys: Keys) -> None:
    world = World()
    a, b = world.node(A, **keys.make("a")), world.node(B)
    unconnected(world, a, b)
    assert lines(a).count(f"{B}:4000 answers no handshake") == 1
    assert lines(b).count(f"{A} sends encrypted datagrams, which this driver cannot read") == 1
    world.close()


def test_a_caller_that_is_not_trusted(keys: Keys, tmp_path: Path) -> None:
    """Each side says it in one line; nothing is kept of the stranger."""
    world = World()
    b = world.node(B, **keys.make("b"))
    a = world.node(A, **keys.make("a", is_trusted=False))
    unconnected(world, a, b)
    assert lines(b).count("which is not trusted there: add it with `ordo keys trust`") == 1
    assert lines(a).count(f"{B}:4000 does not trust the key of this side") == 1
    assert counted(b, REFUSED) > 0 and counted(b, AGREED) == 0
    assert not peers_of(b)
    world.close()


def test_somebody_else_where_a_member_should_be(keys: Keys) -> None:
    """Ports that a key has to itself are answered by nobody else, even if trusted."""
    world = World()
    of_a, of_b = keys.make("a"), keys.make("client")
    keys.make("member", f"{B}:4000")
    a, b = world.node(A, **of_a), world.node(B, **of_b)
    unconnected(world, a, b)
    assert lines(a).count(f"{B}:4000 has the key") == 1
    assert lines(b).count("does not trust the key of this side") == 1
    world.close()


def test_a_key_that_is_trusted_no_longer(keys: Keys) -> None:
    """It is taken out of the file while the stream flows: the stream ends, everybody else's goes on."""
    world = World()
    of_c = keys.make("c")
    a, b = pair(world, keys)
    c = world.node("10.0.0.3", **of_c)
    publication, collector = connect(world, a, b)
    other = c.client.add_exclusive_publication(CHANNEL, STREAM)
    world.until(lambda: other.is_connected)
    transfer(world, Feeder(publication, 100), [collector])
    keys.forget("a")
    world.run(15 * S, MS)
    assert not publication.is_connected and other.is_connected
    before = len(collector.messages)
    feeder = Feeder(other, 100)
    world.until(lambda: feeder.feed() or collector.poll() < 0 or len(collector.messages) == before + 100)
    assert "does not trust the key" in lines(a)
    world.close()


def test_a_key_that_is_new(keys: Keys) -> None:
    """A node gets another key while its streams flow; those who know it already lose nothing."""
    world = World()
    a, b = pair(world, keys)
    publication, collector = connect(world, a, b)
    transfer(world, Feeder(publication, 100), [collector])
    path = keys.folder / "a.key"
    path.unlink()
    add_trusted(keys.trusted, public_text(write_new_secret(str(path)).public), "new", [])
    world.run(3 * S, MS)
    keys.forget("a")
    world.run(12 * S, MS)
    assert publication.is_connected
    collector.messages.clear()
    transfer(world, Feeder(publication, 100), [collector])
    assert collector.messages == Feeder(None, 100).messages
    assert counted(b, NAKS_SENT) == 0
    said = (lines(a) + lines(b)).splitlines()
    assert said and all("a key of another name was heard there lately" in line for line in said)
    world.close()


def test_an_address_that_is_heard_is_not_given_to_a_caller_of_another_name(keys: Keys) -> None:
    """Another trusted key that calls from there is refused while the first one is trusted and heard."""
    world = World()
    other = keys.make("other")["encryption_key_file"]
    a, b = pair(world, keys)
    publication, collector = connect(world, a, b)
    agreed = counted(b, AGREED)
    Path(other).replace(keys.folder / "a.key")
    world.run(20 * S, MS)
    assert counted(b, REFUSED) > 0 and counted(b, AGREED) == agreed
    assert publication.is_connected
    assert collector.subscription.images[0].source_identity.endswith("#a")
    keys.forget("a")
    world.until(lambda: counted(b, AGREED) > agreed, 20 * S)
    world.close()


def test_another_key_that_is_called_waits_until_the_address_has_been_quiet(keys: Keys) -> None:
    """A member dies, and a client whose key is trusted, too, takes its address: it is not taken for the member."""
    world = World()
    of_thief = keys.make("thief")
    a, b = pair(world, keys)
    publication, _ = connect(world, a, b)
    agreed = counted(a, AGREED)
    b.crash()
    thief = world.node(B, **of_thief)
    stolen = Collector(thief.client.add_subscription(CHANNEL, STREAM))
    publication.offer(b"for the member only")
    world.run(10 * S, MS)
    assert counted(a, REFUSED) > 0 and counted(a, AGREED) == agreed
    assert stolen.poll() == 0 and not stolen.subscription.images
    assert lines(a).count("a key of another name was heard there lately") == 1
    assert "answers no handshake" not in lines(a)
    world.until(lambda: counted(a, AGREED) > agreed, 20 * S)
    world.close()


def test_a_file_that_cannot_be_used_changes_nothing(keys: Keys) -> None:
    world = World()
    a, b = pair(world, keys)
    publication, collector = connect(world, a, b)
    Path(keys.trusted).write_text("nonsense\n")
    world.run(5 * S, MS)
    transfer(world, Feeder(publication, 100), [collector])
    assert lines(a).count("the keys stay as they were") == 1
    world.close()


class Stranger:
    """A socket of its own, which says what it likes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.host = world.network.host(STRANGER)
        self.channel = self.host.open((STRANGER, 7000))
        self.target = pack_address(B, 4000)

    def send(self, datagram: bytes) -> list[bytes]:
        """What is answered."""
        self.channel.send_bytes(datagram, self.target)
        self.world.run(2 * MS)
        self.host.select_channels(0)
        return [answer for answer, _ in self.channel.receive_bytes()]


@pytest.fixture
def besieged(keys: Keys) -> tuple[World, Node, Stranger]:
    world = World()
    b = world.node(B, **keys.make("b"))
    b.client.add_subscription(CHANNEL, STREAM)
    world.run(10 * MS)
    return world, b, Stranger(world)


def test_no_answer_is_longer_than_what_it_answers(besieged: tuple[World, Node, Stranger]) -> None:
    world, b, stranger = besieged
    assert HELLO_BYTES > COOKIE_REPLY_BYTES and INIT_BYTES > RESPONSE_BYTES
    for first in range(256):
        for length in (1, 15, 16, 17, 31, 32, 40, 71, 72, 96, 136, 1400):
            datagram = (bytes([first]) + b"OS\xf1").ljust(length, b"\x07")[:length]
            answers = stranger.send(datagram)
            assert sum(map(len, answers)) <= length, (first, length)
    assert not peers_of(b) and counted(b, AGREED) == 0
    world.close()


def test_without_a_cookie_nothing_is_computed_and_nothing_kept(besieged: tuple[World, Node, Stranger]) -> None:
    world, b, stranger = besieged
    own, ephemeral = KeyPair.of(b"\x01" * 32), KeyPair.of(b"\x02" * 32)
    calling = Calling(77, b"12345678")
    (cookie,) = stranger.send(calling.hello())
    calling.read_cookie(cookie)
    good = calling.cookie
    calling.cookie = bytes(16)
    assert stranger.send(calling.init(own, ephemeral)) == []
    assert counted(b, REFUSED) == 1
    other = Calling(78, b"12345678")
    other.read_cookie(cookie)
    assert stranger.send(other.init(own, ephemeral)) == [], "a cookie is of one handshake"
    calling.cookie = good
    (answer,) = stranger.send(calling.init(own, ephemeral))
    assert answer[0] == 7 and len(answer) == 16, "with the cookie it is told that its key is not trusted"
    assert not peers_of(b)
    world.close()


def test_a_caller_at_ports_that_are_anothers(keys: Keys, besieged: tuple[World, Node, Stranger]) -> None:
    """Ports that a key has to itself are no other trusted key's, not even when that one calls from there."""
    world, b, stranger = besieged
    thief = KeyPair.of(_secret_of(keys.make("thief")))

    def call(index: int) -> bytes:
        calling = Calling(index, b"12345678")
        (cookie,) = stranger.send(calling.hello())
        calling.read_cookie(cookie)
        (answer,) = stranger.send(calling.init(thief, KeyPair.of(bytes([index]) * 32)))
        return answer

    world.run(2 * S, MS)
    assert call(1)[0] == RESPONSE
    keys.make("member", f"{STRANGER}:7000-7004")
    world.run(2 * S, MS)
    refused = counted(b, REFUSED)
    assert call(2)[0] == 7, "it is told that its key is not trusted there"
    assert counted(b, REFUSED) == refused + 1
    world.close()


def test_a_trusted_key_that_one_does_not_have(keys: Keys, besieged: tuple[World, Node, Stranger]) -> None:
    """Public keys are no secret: naming one leaves nothing behind, not even memory."""
    world, b, stranger = besieged
    victim = keys.make("victim")
    world.run(2 * S, MS)
    public = KeyPair.of(bytes(_secret_of(victim))).public
    calling = Calling(77, b"12345678")
    calling.read_cookie(stranger.send(calling.hello())[0])
    liar = KeyPair(b"\x01" * 32, public)
    assert stranger.send(calling.init(liar, KeyPair.of(b"\x02" * 32))) == []
    assert not peers_of(b) and counted(b, AGREED) == 0
    world.close()


def _secret_of(settings: dict[str, Any]) -> bytes:
    from ordo.transport.secure.keys import read_secret

    return read_secret(settings["encryption_key_file"]).secret


def test_handshakes_of_one_host_are_bounded(besieged: tuple[World, Node, Stranger]) -> None:
    """After a burst of 400 a stranger gets 100 a second; everybody else as many as before."""
    world, _, stranger = besieged
    calling = Calling(77, b"12345678")
    calling.read_cookie(stranger.send(calling.hello())[0])
    init = calling.init(KeyPair.of(b"\x01" * 32), KeyPair.of(b"\x02" * 32))
    answers = 0
    for _ in range(60):
        for _ in range(19):
            stranger.channel.send_bytes(init, stranger.target)
        answers += len(stranger.send(init))
        while found := stranger.channel.receive_bytes():
            answers += len(found)
    assert 400 <= answers <= 420, "of 1,200 in 120 ms"
    world.close()


def confirmed_session() -> SecureSession:
    """With keys that nothing is sealed by."""
    return SecureSession(
        1,
        (bytes(32), bytes(32)),
        local_index=1,
        remote_index=2,
        identity=b"",
        is_confirmed=True,
        renew_ns=0,
        expire_ns=0,
    )


def test_numbers_may_come_late_but_not_twice() -> None:
    session = confirmed_session()
    assert [session.take(number) for number in (0, 0, 1, 5, 3, 5, 3, 4)] == [1, 0, 1, 1, 1, 0, 0, 1]
    assert session.take(4031) and session.take(2) and not session.take(2)
    assert session.take(10_000)
    late = 10_000 - 63 * 64
    assert not session.take(late) and session.take(late + 1), "the window's end"
    assert not session.take(1 << 48), "no number is so high"
    seen = {number for number in range(9_000, 12_000) if session.take(number)}
    assert 10_000 not in seen and len(seen) == 2_999
    assert not any(session.take(number) for number in range(9_000, 12_000))


def test_each_number_once_whatever_their_order() -> None:
    random = Random(5)
    session = confirmed_session()
    taken: set[int] = set()
    highest = 0
    for _ in range(20_000):
        number = max(0, highest + random.randint(-5000, 100))
        expected = number not in taken and (number > highest or highest - number < 63 * 64)
        assert session.take(number) == expected, number
        if expected:
            taken.add(number)
            highest = max(highest, number)
