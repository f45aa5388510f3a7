"""Archives on real drivers and clients, in one thread and virtual time."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.archive import RECORDING_POSITION_TYPE_ID, Archive
from ordo.archive.recorder import Recording
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.counters import local_counter
from tests.simulation.network import Faults
from tests.transport.driver_world import MS, Node, World

LOG = "aeron:udp?endpoint=10.0.0.2:9000|term-length=64k|session-id=5|linger=0"
FROM_START = LOG + "|ssc=true|init-term-id=3|term-id=3|term-offset=0"
SEGMENT_LENGTH = 64 * 1024


class Site:
    """A node with an archive, worked once a cycle of its world."""

    def __init__(self, world: "ArchiveWorld", address: str, folder: Path) -> None:
        self.node: Node = world.node(address)
        self.client = self.node.client
        self.archive = Archive(
            str(folder),
            storage=FileStorage(open_lmdb),
            clock=world.clock,
            client=self.client,
            sync="none",
            segment_length_bytes=SEGMENT_LENGTH,
            low_space_bytes=0,
        )

    def content(self, recording_id: int = 0) -> list[bytes]:
        return [message.payload for message in self.archive.reader(recording_id).messages()]


class ArchiveWorld(World):
    """A world whose archives work in every cycle."""

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(**options)
        self.folder = folder
        self.sites: list[Site] = []

    def site(self, address: str) -> Site:
        self.sites.append(Site(self, address, self.folder / address))
        return self.sites[-1]

    def cycle(self) -> None:
        super().cycle()
        for site in self.sites:
            site.archive.do_work(self.clock.now())

    def send(self, publication: Any, payloads: list[bytes]) -> None:
        for payload in payloads:
            while publication.offer(payload) <= 0:
                self.cycle()

    def await_recorded(self, recording: Recording, position: int) -> None:
        self.until(lambda: recording.durable_position >= position)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ArchiveWorld]:
    world = ArchiveWorld(tmp_path)
    yield world
    for site in world.sites:
        site.archive.close()
        assert site.node.errors == []
        assert site.node.client_errors == []


def payloads(count: int, seed: int = 1) -> list[bytes]:
    rng = random.Random(seed)
    return [rng.randbytes(rng.choice([0, 10, 100, 1000, 1376, 1377, 5000])) for _ in range(count)]


def test_every_image_of_a_subscription_is_recorded_and_stops_with_it(world: ArchiveWorld) -> None:
    """What a service does for a snapshot: publish, wait for the recording position counter, close."""
    site = world.site("10.0.0.1")
    ended: list[tuple[int, Exception | None]] = []
    site.archive.record_subscription(
        "aeron:ipc?alias=snapshot", 106, on_stop=lambda recording, error: ended.append((recording.recording_id, error))
    )
    sent = []
    for number in range(3):
        publication = site.client.add_exclusive_publication("aeron:ipc?alias=snapshot", 106)
        sent.append(payloads(80, seed=number))
        world.send(publication, sent[-1])
        counters = site.client.counters
        key = number.to_bytes(8, "little") + publication.session_id.to_bytes(4, "little", signed=True)
        counter_id = counters.find(RECORDING_POSITION_TYPE_ID, key)
        assert counter_id >= 0
        world.until(lambda: counters.get_value(counter_id) == publication.position)  # noqa: B023
        publication.close()
        world.until(lambda: len(ended) == number + 1)  # noqa: B023
        world.run(20 * MS)
        assert counters.find(RECORDING_POSITION_TYPE_ID, key) < 0
    assert ended == [(0, None), (1, None), (2, None)]
    assert [site.content(recording_id) for recording_id in range(3)] == sent


def spy_on_log(world: ArchiveWorld, site: Site, publication: Any, recording_id: int | None = None) -> Recording:
    """Records a publication of this node through a spy."""
    channel = f"aeron-spy:{LOG}|session-id={publication.session_id}"
    subscription = site.client.add_subscription(channel, publication.stream_id)
    world.until(lambda: subscription.images)
    return site.archive.record(subscription.images[0], recording_id=recording_id)


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_a_replay_over_a_lossy_network_makes_the_same_recording(tmp_path: Path, loss: float) -> None:
    """Catch-up: the leader records through a spy and replays; the follower records the replay's image."""
    world = ArchiveWorld(tmp_path, seed=7, faults=Faults(loss=loss) if loss else None)
    leader, follower = world.site("10.0.0.1"), world.site("10.0.0.2")
    publication = leader.client.add_exclusive_publication(FROM_START, 100)
    recording = spy_on_log(world, leader, publication)
    sent = payloads(150)
    world.send(publication, sent[:100])
    world.await_recorded(recording, publication.position)

    limit = local_counter(0)
    catchup = follower.client.add_subscription("aeron:udp?endpoint=10.0.0.2:7000", 100)
    replay = leader.archive.replay(
        0, channel="aeron:udp?endpoint=10.0.0.2:7000|linger=0", stream_id=100, session_id=5, limit=limit
    )
    world.until(lambda: catchup.images)
    copy = follower.archive.record(catchup.images[0])
    world.run(50 * MS)
    assert copy.written_position == 0, "nothing passes the limit"
    limit.set(recording.written_position // 2 // 32 * 32)
    world.run(500 * MS)
    assert 0 < copy.written_position <= limit.value
    limit.set(1 << 40)
    world.send(publication, sent[100:])
    world.await_recorded(recording, publication.position)
    world.await_recorded(copy, publication.position)
    assert replay.is_active

    leader.archive.stop(recording)
    world.until(lambda: not replay.is_active)
    follower.archive.stop(copy)
    assert follower.content() == leader.content() == sent
    names = sorted(path.name for path in (tmp_path / "10.0.0.1").glob("*.rec"))
    assert len(names) > 1
    for name in names:
        assert (tmp_path / "10.0.0.1" / name).read_bytes() == (tmp_path / "10.0.0.2" / name).read_bytes()
    for site in world.sites:
        site.archive.close()


def test_a_truncated_recording_goes_on_with_a_new_publication(world: ArchiveWorld) -> None:
    """A new leader's log: cut to the common prefix, then a publication that begins there."""
    site = world.site("10.0.0.1")
    world.node("10.0.0.2")
    publication = site.client.add_exclusive_publication(FROM_START, 100)
    recording = spy_on_log(world, site, publication)
    sent = payloads(60)
    world.send(publication, sent)
    world.await_recorded(recording, publication.position)
    site.archive.stop(recording)
    publication.close()
    kept = list(site.archive.reader(0).messages())[40]
    site.archive.truncate(0, kept.position)

    term_id, offset = 3 + kept.position // 65536, kept.position % 65536
    resumed = site.client.add_exclusive_publication(
        f"{LOG}|session-id=6|ssc=true|init-term-id=3|term-id={term_id}|term-offset={offset}", 100
    )
    recording = spy_on_log(world, site, resumed, recording_id=0)
    assert recording.start_position == kept.position
    world.send(resumed, [b"new leader", *sent[:5]])
    world.await_recorded(recording, resumed.position)
    site.archive.stop(recording)
    assert site.content() == [*sent[:41], b"new leader", *sent[:5]]
    assert site.archive.descriptor(0).session_id == 6


def test_a_replay_to_ipc_and_a_subscriber_that_leaves(world: ArchiveWorld) -> None:
    site = world.site("10.0.0.1")
    site.archive.record_subscription("aeron:ipc", 10)
    publication = site.client.add_exclusive_publication("aeron:ipc?term-length=64k", 10)
    sent = payloads(100)
    world.send(publication, sent)
    world.await_recorded(site.archive.recording(0), publication.position)  # type: ignore[arg-type]

    subscription = site.client.add_subscription("aeron:ipc", 20)
    replay = site.archive.replay(0, channel="aeron:ipc", stream_id=20)
    got: list[bytes] = []

    def poll() -> bool:
        subscription.poll_messages(lambda payload, header: got.append(bytes(payload)), 50)
        return len(got) == len(sent)

    world.until(poll)
    assert got == sent
    assert replay.is_active
    subscription.close()
    world.send(publication, [b"nobody listens"])
    world.until(lambda: not replay.is_active)
    assert replay.error is None
