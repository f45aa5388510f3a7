"""Replays and the taking apart of recordings through the control protocol, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.client import control_requests
from ordo.archive.client.control_requests import Call
from ordo.archive.control.access import AccessPolicy, NoBounds, ReadingRights, UnicastChannels
from ordo.archive.protocol import codecs
from ordo.archive.protocol.codes import REPLAY_ALL_AND_STOP, ErrorCode, RecordingSignal
from ordo.archive.segments.segments import segment_name
from ordo.runtime.errors import ArchiveError
from ordo.runtime.native.counters import Counter
from tests.archive.control_world import SEGMENT_LENGTH, Caller, ControlWorld, Server
from tests.archive.test_control import CHANNEL, STREAM, record
from tests.archive.test_with_driver import payloads
from tests.transport.driver_world import MS, S

REPLAY_CHANNEL = "aeron:udp?endpoint=10.0.0.9:9100"
REPLAY_STREAM = 88


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ControlWorld]:
    world = ControlWorld(tmp_path)
    yield world
    world.close()
    for server in world.servers:
        assert server.node.errors == []
        assert server.node.client_errors == []


def replay(
    position: int | None = None, length: int | None = None, limit: int | None = None, channel: str = REPLAY_CHANNEL
) -> control_requests.Call[int]:
    return control_requests.start_replay(
        0, channel, REPLAY_STREAM, position=position, length=length, limit_counter_id=limit
    )


def content(server: Server, recording_id: int = 0) -> list[bytes]:
    return [message.payload for message in server.archive.reader(recording_id).messages()]


def segments(server: Server, recording_id: int = 0) -> list[str]:
    names = server.archive.storage.list_files(server.archive.directory)
    return sorted(name for name in names if name.startswith(f"{recording_id}-"))


def refused_with(caller: Caller, call: control_requests.Call[Any]) -> int:
    with pytest.raises(ArchiveError) as refused:
        caller.call(call)
    return refused.value.code


# --- replays ----------------------------------------------------------------------------------------------------------


def test_a_recording_is_replayed_whole_from_the_middle_and_in_part(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    sent = payloads(60)
    record(world, server, caller, sent)
    positions = [message.position for message in server.archive.reader(0).messages()]
    subscription = caller.client.add_subscription(REPLAY_CHANNEL, REPLAY_STREAM)
    session_id = caller.call(replay())
    assert world.collect(subscription, lambda got: len(got) == 60) == sent
    assert (session_id & 0xFFFFFFFF) == subscription.images[0].session_id & 0xFFFFFFFF
    world.until(lambda: not server.archive.replays(), timeout_ns=30 * S)
    caller.call(replay(positions[29], REPLAY_ALL_AND_STOP))
    assert world.collect(subscription, lambda got: len(got) == 30) == sent[30:]
    caller.call(replay(positions[9], positions[19] - positions[9]))
    assert world.collect(subscription, lambda got: len(got) == 10) == sent[10:20]
    world.run(100 * MS)
    assert subscription.poll_messages(lambda *_: None, 10) == 0


def test_a_replay_follows_a_live_recording_to_its_end(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    caller.call(control_requests.start_recording(CHANNEL, STREAM, local=True, auto_stop=True))
    publication = server.node.client.add_exclusive_publication(CHANNEL, STREAM)
    world.until(lambda: publication.is_connected)
    sent = payloads(80)
    subscription = caller.client.add_subscription(REPLAY_CHANNEL, REPLAY_STREAM)
    world.until(lambda: caller.signals)
    caller.call(replay())
    got: list[bytes] = []

    def poll() -> int:
        subscription.poll_messages(lambda payload, _: got.append(payload), 100)
        return len(got)

    for number, payload in enumerate(sent):
        world.send(publication, [payload])
        if number % 10 == 0:
            world.until(lambda: poll() == number + 1)  # noqa: B023
    publication.close()
    world.until(lambda: poll() == len(sent) and subscription.images[0].is_end_of_stream, timeout_ns=30 * S)
    assert got == sent


def test_replays_that_cannot_start(world: ControlWorld) -> None:
    server = world.server(replays_max=1)
    caller = world.remote_caller(server)
    record(world, server, caller, payloads(10))
    stop = caller.call(control_requests.stop_position(0)) or 0
    assert refused_with(caller, replay(31)) == ErrorCode.GENERIC
    assert refused_with(caller, replay(stop)) == ErrorCode.INVALID_POSITION
    assert refused_with(caller, replay(stop + 32)) == ErrorCode.INVALID_POSITION
    assert refused_with(caller, replay(-32)) == ErrorCode.INVALID_POSITION
    assert refused_with(caller, replay(0, -7)) == ErrorCode.GENERIC
    assert refused_with(caller, replay(limit=1 << 20)) == ErrorCode.GENERIC
    assert refused_with(caller, replay(limit=-1)) == ErrorCode.GENERIC
    assert refused_with(caller, replay(channel="aeron:udp")) == ErrorCode.GENERIC
    assert refused_with(caller, replay(channel=REPLAY_CHANNEL + "|linger=1000s")) == ErrorCode.GENERIC
    caller.call(replay())
    assert refused_with(caller, replay()) == ErrorCode.MAX_REPLAYS


def test_an_empty_recording_has_nothing_to_replay_up_to_its_end(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    caller.call(control_requests.start_recording(CHANNEL, STREAM, local=True, auto_stop=True))
    server.node.client.add_exclusive_publication(CHANNEL, STREAM)
    world.until(lambda: caller.signals)
    assert refused_with(caller, replay(length=REPLAY_ALL_AND_STOP)) == ErrorCode.EMPTY_RECORDING


def test_an_empty_recording_that_is_stopped_is_replayed_as_a_stream_that_ends(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    record(world, server, caller, [])
    node = world.nodes[-1]
    ended: list[object] = []
    subscription = node.client.add_subscription(
        REPLAY_CHANNEL, REPLAY_STREAM, on_unavailable_image=lambda image: ended.append(image)
    )
    caller.call(replay())
    world.until(lambda: subscription.image_count == 1)
    world.until(lambda: ended, timeout_ns=30 * S, step_ns=MS)
    assert refused_with(caller, replay(0)) == ErrorCode.INVALID_POSITION
    assert refused_with(caller, replay(length=REPLAY_ALL_AND_STOP)) == ErrorCode.EMPTY_RECORDING


def test_a_replay_nobody_listens_to_ends_with_an_error(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    record(world, server, caller, payloads(10))
    caller.call(replay())
    world.until(lambda: caller.session.late_errors, timeout_ns=30 * S, step_ns=1 * MS)
    assert "found no subscriber" in str(caller.session.late_errors[0][1])


def test_a_replay_to_somebody_else_sends_few_set_ups_until_it_is_answered(world: ControlWorld) -> None:
    """An address that the client has not answered from gets no more than the request weighed."""
    server = world.server()
    caller = world.remote_caller(server).connected()
    record(world, server, caller, [b"a"])
    world.packets.clear()
    caller.call(replay(channel="aeron:udp?endpoint=10.0.0.77:9100"))
    world.run(10 * S, 10 * MS)
    asked = sum(len(data) for _, _, to, data in world.packets if to[0] == "10.0.0.1")
    got = [len(data) for _, _, to, data in world.packets if to[0] == "10.0.0.77"]
    assert got == [40] * len(got)
    assert 0 < sum(got) <= 120 < asked


def test_a_bounded_replay_never_passes_its_counter(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    sent = payloads(60)
    record(world, server, caller, sent)
    positions = [message.position for message in server.archive.reader(0).messages()]
    counter = server.node.client.add_counter(1999, "limit")
    counter.set(positions[24])
    subscription = caller.client.add_subscription(REPLAY_CHANNEL, REPLAY_STREAM)
    caller.call(replay(limit=counter.counter_id))
    assert world.collect(subscription, lambda got: len(got) == 25) == sent[:25]
    world.run(200 * MS)
    assert subscription.poll_messages(lambda *_: None, 10) == 0
    counter.set(positions[59])
    assert world.collect(subscription, lambda got: len(got) == 35) == sent[25:]
    assert refused_with(caller, replay(positions[59] + 32, limit=counter.counter_id)) == ErrorCode.INVALID_POSITION


@pytest.mark.parametrize("everything", [False, True])
def test_a_stopped_replay_is_seen_to_be_cut_short(world: ControlWorld, everything: bool) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    record(world, server, caller, payloads(200))
    subscription = caller.client.add_subscription(REPLAY_CHANNEL, REPLAY_STREAM)
    replay_session_id = caller.call(replay())
    world.until(lambda: subscription.images)
    image = subscription.images[0]
    caller.call(control_requests.stop_all_replays(0) if everything else control_requests.stop_replay(replay_session_id))
    assert server.archive.replays() == []
    world.until(lambda: image.is_revoked or image.is_closed)
    assert image.position < (caller.call(control_requests.stop_position(0)) or 0)
    caller.call(control_requests.stop_replay(replay_session_id))


def test_replays_of_the_archives_owner_are_not_the_clients(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    record(world, server, caller, payloads(200))
    caller.client.add_subscription(REPLAY_CHANNEL, REPLAY_STREAM)
    own = server.archive.replay(0, channel=REPLAY_CHANNEL, stream_id=REPLAY_STREAM)
    caller.call(control_requests.stop_all_replays())
    assert own.is_active
    server.archive.stop_replay(own)


# --- access -----------------------------------------------------------------------------------------------------------


class CounterBounds(NoBounds):
    """What a node gives strangers: its recordings up to a counter."""

    counter: Counter | None = None

    def limit(self, recording_id: int) -> Counter | None:
        return self.counter


def test_strangers_of_an_owned_archive_only_read_and_only_up_to_its_bound(world: ControlWorld) -> None:
    bounds = CounterBounds()
    server = world.server(access=AccessPolicy(ReadingRights(), UnicastChannels(), bounds))
    sent = payloads(60)
    owned = server.archive.record_subscription(CHANNEL, STREAM)
    publication = server.node.client.add_exclusive_publication(CHANNEL, STREAM)
    world.until(lambda: publication.is_connected)
    world.send(publication, sent)
    world.until(lambda: owned.recordings and owned.recordings[0].durable_position == publication.position)
    positions = [message.position for message in server.archive.reader(0).messages()]
    bounds.counter = server.node.client.add_counter(1998, "commit")
    bounds.counter.set(positions[19])
    caller = world.remote_caller(server)
    for call in (
        control_requests.start_recording(CHANNEL, 1, local=True, auto_stop=False),
        control_requests.extend_recording(0, CHANNEL, STREAM, local=True, auto_stop=False),
        control_requests.stop_recording(CHANNEL, STREAM),
        control_requests.stop_recording_by_id(0),
        control_requests.truncate_recording(0, 0),
        control_requests.purge_recording(0),
        control_requests.detach_segments(0, SEGMENT_LENGTH),
        control_requests.delete_detached_segments(0),
        control_requests.purge_segments(0, SEGMENT_LENGTH),
        control_requests.attach_segments(0),
        control_requests.migrate_segments(0, 1),
        control_requests.update_channel(0, "aeron:ipc"),
        control_requests.stop_all_replays(),
    ):
        assert refused_with(caller, call) == ErrorCode.UNAUTHORISED_ACTION
    assert refused_with(caller, replay(channel="aeron:ipc")) == ErrorCode.UNAUTHORISED_ACTION
    other = server.node.client.add_counter(1997, "not the bound")
    other.set(1 << 40)
    assert refused_with(caller, replay(limit=other.counter_id)) == ErrorCode.UNAUTHORISED_ACTION
    subscription = caller.client.add_subscription(REPLAY_CHANNEL, REPLAY_STREAM)
    caller.call(replay(limit=bounds.counter.counter_id))
    assert world.collect(subscription, lambda got: len(got) == 20) == sent[:20]
    thief = world.remote_caller(server)
    thief.call(control_requests.stop_replay(1 << 32 | subscription.images[0].session_id & 0xFFFFFFFF))
    assert len(server.archive.replays()) == 1
    assert caller.call(control_requests.recording_position(0)) == positions[19] < publication.position
    assert caller.call(control_requests.max_recorded_position(0)) == positions[19]


def test_a_local_stranger_of_an_owned_archive_gets_no_session_over_ipc(world: ControlWorld) -> None:
    server = world.server(access=AccessPolicy(ReadingRights(), UnicastChannels(), NoBounds()))
    world.caller(server.node.new_client(), "aeron:ipc", "aeron:ipc")
    world.until(lambda: server.errors)
    assert "aeron:udp channels only" in str(server.errors[0])
    assert server.conductor.sessions == {}


# --- taking apart -----------------------------------------------------------------------------------------------------


def long_recording(world: ControlWorld, server: Server, caller: Caller) -> tuple[list[bytes], list[int]]:
    """A recording of several segments: what was sent, and the position after each."""
    sent = payloads(400)
    record(world, server, caller, sent)
    positions = [message.position for message in server.archive.reader(0).messages()]
    assert positions[-1] > 5 * SEGMENT_LENGTH
    return sent, positions


def test_a_truncated_recording_ends_where_it_was_cut(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    sent, positions = long_recording(world, server, caller)
    kept = next(number for number, position in enumerate(positions) if position > 2 * SEGMENT_LENGTH + 5000)
    assert (
        refused_with(caller, control_requests.truncate_recording(0, positions[-1] + 32)) == ErrorCode.INVALID_POSITION
    )
    assert refused_with(caller, control_requests.truncate_recording(0, positions[3] + 1)) == ErrorCode.INVALID_POSITION
    before = len(segments(server))
    caller.client.add_subscription(REPLAY_CHANNEL, REPLAY_STREAM)
    caller.call(replay())
    count = caller.call(control_requests.truncate_recording(0, positions[kept]))
    assert count == before - len(segments(server)) > 0
    assert server.archive.replays() == []
    world.until(lambda: caller.signals[-1].signal is RecordingSignal.DELETE)
    assert content(server) == sent[: kept + 1]
    assert caller.call(control_requests.truncate_recording(0, 0)) == len(segments(server)) + 3
    assert segments(server) == []
    assert caller.call(control_requests.stop_position(0)) == 0


def test_a_purged_recording_is_gone(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    record(world, server, caller, payloads(100))
    caller.client.add_subscription(REPLAY_CHANNEL, REPLAY_STREAM)
    caller.call(replay())
    with pytest.raises(ArchiveError, match=r"cannot purge recording with active replay 0$") as refused:
        caller.call(control_requests.purge_recording(0))
    assert refused.value.code == ErrorCode.ACTIVE_RECORDING
    caller.call(control_requests.stop_all_replays())
    assert caller.call(control_requests.purge_recording(0)) > 0
    assert segments(server) == []
    assert caller.call(control_requests.list_recordings()) == []
    world.until(lambda: caller.signals[-1].signal is RecordingSignal.DELETE)


def test_what_is_being_recorded_cannot_be_taken_apart(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    caller.call(control_requests.start_recording(CHANNEL, STREAM, local=True, auto_stop=True))
    server.node.client.add_exclusive_publication(CHANNEL, STREAM)
    world.until(lambda: caller.signals)
    assert refused_with(caller, control_requests.truncate_recording(0, 0)) == ErrorCode.ACTIVE_RECORDING
    assert refused_with(caller, control_requests.purge_recording(0)) == ErrorCode.ACTIVE_RECORDING
    assert refused_with(caller, control_requests.migrate_segments(0, 0)) == ErrorCode.GENERIC


def test_segments_are_detached_attached_and_deleted(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    sent, _ = long_recording(world, server, caller)
    count = len(segments(server))
    for bad in (SEGMENT_LENGTH + 32, 0, 100 * SEGMENT_LENGTH):
        assert refused_with(caller, control_requests.detach_segments(0, bad)) == ErrorCode.GENERIC
    caller.call(control_requests.detach_segments(0, 3 * SEGMENT_LENGTH))
    assert caller.call(control_requests.start_position(0)) == 3 * SEGMENT_LENGTH
    assert len(segments(server)) == count
    assert caller.call(control_requests.attach_segments(0)) == 3
    assert caller.call(control_requests.start_position(0)) == 0
    assert content(server) == sent
    caller.call(control_requests.detach_segments(0, 2 * SEGMENT_LENGTH))
    assert caller.call(control_requests.delete_detached_segments(0)) == 2
    assert caller.call(control_requests.delete_detached_segments(0)) == 0
    assert caller.call(control_requests.attach_segments(0)) == 0
    assert caller.call(control_requests.purge_segments(0, 3 * SEGMENT_LENGTH)) == 1
    assert len(segments(server)) == count - 3
    assert caller.call(control_requests.start_position(0)) == 3 * SEGMENT_LENGTH


def test_a_file_that_is_not_of_the_recording_is_not_attached(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    long_recording(world, server, caller)
    caller.call(control_requests.detach_segments(0, 2 * SEGMENT_LENGTH))
    folder = Path(server.archive.directory)
    wrong = folder / segment_name(0, 2 * SEGMENT_LENGTH)
    (folder / segment_name(0, SEGMENT_LENGTH)).write_bytes(wrong.read_bytes())
    assert refused_with(caller, control_requests.attach_segments(0)) == ErrorCode.GENERIC
    (folder / segment_name(0, SEGMENT_LENGTH)).write_bytes(b"short")
    assert refused_with(caller, control_requests.attach_segments(0)) == ErrorCode.GENERIC
    (folder / segment_name(0, SEGMENT_LENGTH)).write_bytes(bytes(SEGMENT_LENGTH))
    assert refused_with(caller, control_requests.attach_segments(0)) == ErrorCode.GENERIC
    assert caller.call(control_requests.start_position(0)) == 2 * SEGMENT_LENGTH


@pytest.mark.parametrize("before", [True, False], ids=["prepended", "appended"])
def test_segments_migrate_to_the_recording_that_they_meet(world: ControlWorld, before: bool) -> None:
    """One stream in two recordings that meet at the base of a segment."""
    server = world.server()
    caller = world.remote_caller(server)
    channel = f"{CHANNEL}|init-term-id=3|term-id=3|term-offset=0"
    sent = payloads(400)
    record(world, server, caller, sent, channel)
    stop = caller.call(control_requests.stop_position(0)) or 0
    join = 3 * SEGMENT_LENGTH
    descriptor = server.archive.descriptor(0)
    other = server.archive.catalog.add(descriptor._replace(start_position=join, stop_position=stop)).recording_id
    folder = Path(server.archive.directory)
    for name in segments(server):
        base = int(name.partition("-")[2].removesuffix(".rec"))
        if base >= join:
            (folder / name).rename(folder / segment_name(other, base))
    server.archive.catalog.update(0, stop_position=join)
    source, target = (0, other) if before else (other, 0)
    moved = caller.call(control_requests.migrate_segments(source, target))
    assert moved == (3 if before else (stop - join + SEGMENT_LENGTH - 1) // SEGMENT_LENGTH)
    assert content(server, target) == sent
    assert segments(server, source) == []
    emptied = server.archive.descriptor(source)
    assert emptied.start_position == emptied.stop_position
    world.until(lambda: caller.signals[-1].signal is RecordingSignal.DELETE)
    assert refused_with(caller, control_requests.migrate_segments(target, target)) == ErrorCode.GENERIC


def test_recordings_that_do_not_meet_are_not_migrated(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    for _ in range(2):
        record(world, server, caller, payloads(100), f"{CHANNEL}|init-term-id=3|term-id=3|term-offset=0")
    before = segments(server), segments(server, 1)
    with pytest.raises(ArchiveError, match="invalid migrate: src and dst are not contiguous srcStartPosition=0 src"):
        caller.call(control_requests.migrate_segments(0, 1))
    server.archive.catalog.update(1, start_position=server.archive.descriptor(0).stop_position)
    with pytest.raises(ArchiveError, match="join position is not on segment boundary of src recording seamPosition="):
        caller.call(control_requests.migrate_segments(0, 1))
    server.archive.catalog.update(1, stream_id=STREAM + 1)
    with pytest.raises(ArchiveError, match=f"invalid migrate: srcStreamId={STREAM} dstStreamId={STREAM + 1}"):
        caller.call(control_requests.migrate_segments(0, 1))
    assert (segments(server), segments(server, 1)) == before


@pytest.mark.parametrize(
    "delete",
    [control_requests.truncate_recording(0, 0), control_requests.purge_recording(0)],
    ids=["truncated", "purged"],
)
def test_files_put_aside_for_deletion_go_with_their_recording(world: ControlWorld, delete: Call[int]) -> None:
    """As an operator, or Aeron's archive, renames them; those of other recordings stay."""
    server = world.server()
    caller = world.remote_caller(server)
    record(world, server, caller, payloads(400))
    folder = Path(server.archive.directory)
    names = segments(server)
    (folder / names[0]).rename(folder / f"{names[0]}.del")
    (folder / "7-0.rec.del").touch()
    assert caller.call(delete) == len(names)
    assert sorted(path.name for path in folder.iterdir() if ".rec" in path.name) == ["7-0.rec.del"]


def test_an_old_replay_request_without_its_later_fields_is_served(world: ControlWorld) -> None:
    """A client of schema version 6 sends neither file_io_length_max nor replay_token."""
    server = world.server()
    caller = world.remote_caller(server)
    sent = payloads(10)
    record(world, server, caller, sent)
    subscription = caller.client.add_subscription(REPLAY_CHANNEL, REPLAY_STREAM)
    call = replay()
    whole = codecs.REPLAY_REQUEST.encode(
        control_session_id=caller.session.control_session_id, correlation_id=caller.client.next_correlation_id(),
        **call.fields,
    )  # fmt: skip
    old = (44).to_bytes(2, "little") + whole[2:6] + (6).to_bytes(2, "little") + whole[8:52] + whole[64:]
    caller.session._offer(old, "an old request")
    assert world.collect(subscription, lambda got: len(got) == 10) == sent


# --- response channels ------------------------------------------------------------------------------------------------

CONTROL = "aeron:udp?endpoint=10.0.0.1:8010"
ANSWERS = "aeron:udp?control-mode=response|control=10.0.0.1:5000"
ANSWERED_REPLAY = "aeron:udp?control-mode=response|control=10.0.0.1:5001"
TOKEN_OF_0 = Call(codecs.REPLAY_TOKEN_REQUEST, {"recording_id": 0}, lambda reply: reply.relevant_id)


class Requester:
    """A client that names no address of its own: answers and replays come back to where its requests come from."""

    def __init__(self, world: ControlWorld) -> None:
        self.world = world
        self.server = world.server()
        self.node = world.node("10.0.0.9")
        self.caller = world.caller(self.node.client, CONTROL, ANSWERS).connected()
        self.subscription = self.node.client.add_subscription(ANSWERED_REPLAY, REPLAY_STREAM)
        self.publication = self.node.client.add_exclusive_publication(
            f"{CONTROL}|term-length=64k|response-correlation-id={self.subscription.registration_id}", 10
        )
        world.until(lambda: self.publication.is_connected)

    def replay(self, token: int, recording_id: int = 0) -> Any:
        """Asks in the stream that the replay goes back to; the reply comes in the session."""
        fields = control_requests.start_replay(recording_id, ANSWERED_REPLAY, REPLAY_STREAM).fields
        return self.caller.session.request(
            codecs.REPLAY_REQUEST, via=self.publication, **(fields | {"replay_token": token})
        )


@pytest.fixture
def requester(world: ControlWorld) -> Requester:
    return Requester(world)


def test_a_client_without_an_address_is_answered_and_replayed_to(requester: Requester) -> None:
    sent = payloads(50)
    record(requester.world, requester.server, requester.caller, sent)
    reply = requester.replay(requester.caller.call(TOKEN_OF_0))
    got = requester.world.collect(requester.subscription, lambda got: len(got) == 50)
    assert got == sent
    assert reply.is_done
    assert reply.error is None


def test_a_token_is_good_for_its_recording_and_for_a_while(requester: Requester) -> None:
    """Who has none hears nothing: it is a stranger's stream."""
    record(requester.world, requester.server, requester.caller, payloads(3))
    token = requester.caller.call(TOKEN_OF_0)
    replies = [requester.replay(token, 7), requester.replay(token ^ 1)]
    requester.world.run(6 * S, step_ns=5 * MS)
    replies.append(requester.replay(token))
    requester.world.run(100 * MS)
    assert not any(reply.is_done for reply in replies)
    refused = "Unknown session or token timeout: a replay of recording {} is not made"
    assert [str(error) for error in requester.server.errors] == [refused.format(one) for one in (7, 0, 0)]


def test_tokens_are_bounded_and_expire(world: ControlWorld) -> None:
    server = world.server(replay_tokens_max=2)
    caller = world.remote_caller(server)
    assert len({caller.call(TOKEN_OF_0) for _ in range(2)}) == 2
    assert refused_with(caller, TOKEN_OF_0) == ErrorCode.MAX_REPLAYS
    world.run(6 * S, step_ns=5 * MS)
    caller.call(TOKEN_OF_0)
