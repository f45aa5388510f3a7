"""The control protocol on real drivers, in virtual time: sessions, recordings, listings, replays, segments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.client import control_requests
from ordo.archive.control.session import SessionState
from ordo.archive.protocol import codecs
from ordo.archive.protocol.codes import ErrorCode, RecordingSignal
from ordo.runtime.errors import ArchiveError, ArchiveTimeoutError, UnknownRecordingError
from tests.archive.control_world import Caller, ControlWorld, Server
from tests.archive.test_with_driver import payloads
from tests.transport.driver_world import MS, S

CHANNEL = "aeron:ipc?term-length=64k"
STREAM = 77


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ControlWorld]:
    world = ControlWorld(tmp_path)
    yield world
    world.close()
    for server in world.servers:
        assert server.node.errors == []
        assert server.node.client_errors == []


def record(world: ControlWorld, server: Server, caller: Caller, sent: list[bytes], channel: str = CHANNEL) -> int:
    """Records a publication of the archive's host, whole; its recording id."""
    publication = server.node.client.add_exclusive_publication(channel, STREAM)
    subscription_id = caller.call(control_requests.start_recording(channel, STREAM, local=True, auto_stop=False))
    world.until(lambda: publication.is_connected)
    world.send(publication, sent)
    world.until(lambda: caller.signals and caller.signals[-1].subscription_id == subscription_id)
    recording_id, position = caller.signals[-1].recording_id, publication.position
    world.until(lambda: caller.call(control_requests.recording_position(recording_id)) == position)
    publication.close()
    world.until(lambda: caller.signals[-1].signal is RecordingSignal.STOP)
    caller.call(control_requests.stop_recording(channel, STREAM))
    return recording_id


# --- sessions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["remote", "local"])
def test_a_session_over_udp_and_ipc_learns_the_archive_id(world: ControlWorld, kind: str) -> None:
    server = world.server()
    caller = world.remote_caller(server) if kind == "remote" else world.local_caller(server)
    assert caller.session.archive_id == server.archive.archive_id
    assert len(server.conductor.sessions) == 1
    caller.session.close()
    world.until(lambda: not server.conductor.sessions)
    assert server.errors == []


def test_several_sessions_are_told_apart(world: ControlWorld) -> None:
    server = world.server()
    callers = [world.remote_caller(server), world.remote_caller(server), world.local_caller(server)]
    assert len({caller.session.control_session_id for caller in callers}) == 3
    for caller in callers:
        assert caller.call(control_requests.list_recordings()) == []


def test_a_client_that_disappears_is_forgotten(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    world.nodes[-1].crash()
    world.callers.remove(caller)
    world.until(lambda: not server.conductor.sessions, timeout_ns=30 * S, step_ns=5 * MS)


def test_a_client_that_never_listens_is_given_up_and_told_of(world: ControlWorld) -> None:
    server = world.server()
    node = world.node("10.0.0.9")
    publication = node.client.add_exclusive_publication("aeron:udp?endpoint=10.0.0.1:8010", 10)
    world.until(lambda: publication.is_connected)
    request = codecs.AUTH_CONNECT_REQUEST.encode(
        correlation_id=1, response_stream_id=20, version=0x010C00, response_channel="aeron:udp?endpoint=10.0.0.9:9999"
    )
    assert publication.offer(request) > 0
    world.until(lambda: server.conductor.sessions)
    world.until(lambda: not server.conductor.sessions, step_ns=5 * MS)
    assert "did not take part in time" in str(server.errors[0])


def test_another_major_version_is_refused(world: ControlWorld) -> None:
    server = world.server()
    node = world.node("10.0.0.9")
    subscription = node.client.add_subscription("aeron:udp?endpoint=10.0.0.9:9999", 20)
    publication = node.client.add_exclusive_publication("aeron:udp?endpoint=10.0.0.1:8010", 10)
    world.until(lambda: publication.is_connected)
    publication.offer(
        codecs.AUTH_CONNECT_REQUEST.encode(
            correlation_id=1,
            response_stream_id=20,
            version=0x020000,
            response_channel="aeron:udp?endpoint=10.0.0.9:9999",
        )
    )
    answer = codecs.CONTROL_RESPONSE.decode(world.collect(subscription, len)[0])
    assert (answer.correlation_id, answer.code) == (1, 1)
    assert next(iter(server.conductor.sessions.values())).state is SessionState.CONNECTED


def test_more_sessions_than_allowed_are_turned_away(world: ControlWorld) -> None:
    server = world.server(sessions_max=1)
    world.remote_caller(server)
    node = world.nodes[-1]
    late = world.caller(
        node.client, "aeron:udp?endpoint=10.0.0.1:8010", "aeron:udp?endpoint=10.0.0.9:0", message_timeout_s=1.0
    )
    with pytest.raises(ArchiveTimeoutError, match="no session with the archive"):
        late.connected()
    assert "turned away" in str(server.errors[0])


def test_requests_of_somebody_elses_session_are_dropped(world: ControlWorld) -> None:
    server = world.server()
    caller, thief = world.remote_caller(server), world.remote_caller(server)
    thief.session.control_session_id = caller.session.control_session_id
    reply = thief.session.request(codecs.START_POSITION_REQUEST, recording_id=0)
    thief.session.keep_alive()
    world.run(100 * MS)
    assert not reply.is_done
    assert "which its sender has not" in str(server.errors[0])
    assert caller.call(control_requests.list_recordings()) == []


def test_requests_that_come_after_the_end_of_their_session_are_dropped_without_a_word(world: ControlWorld) -> None:
    """A client that closes may be known to be gone before its last request is read."""
    server = world.server()
    caller = world.remote_caller(server)
    for session in server.conductor.sessions.values():
        session.abort("its client is gone")
    world.run(10 * MS)
    reply = caller.session.request(codecs.START_POSITION_REQUEST, recording_id=0)
    caller.session.keep_alive()
    world.run(100 * MS)
    assert not reply.is_done and not server.conductor.sessions
    assert server.errors == []


@pytest.mark.parametrize(
    "junk", [b"", b"\0", bytes(8), b"\xff" * 64, codecs.REPLAY_REQUEST.encode()[:40], bytes(100_000)]
)
def test_whatever_a_stranger_sends_the_archive_goes_on(world: ControlWorld, junk: bytes) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    stranger = world.nodes[-1].client.add_exclusive_publication("aeron:udp?endpoint=10.0.0.1:8010|term-length=1m", 10)
    world.until(lambda: stranger.is_connected)
    world.send(stranger, [junk])
    world.run(20 * MS)
    assert caller.call(control_requests.list_recordings()) == []


def test_a_response_channel_that_is_none_is_an_error_of_the_archives_log(world: ControlWorld) -> None:
    server = world.server()
    node = world.node("10.0.0.9")
    publication = node.client.add_exclusive_publication("aeron:udp?endpoint=10.0.0.1:8010", 10)
    world.until(lambda: publication.is_connected)
    for channel in ("", "http://x", "aeron:udp", "aeron:udp?endpoint=10.0.0.9:0"):
        publication.offer(
            codecs.AUTH_CONNECT_REQUEST.encode(
                correlation_id=1, response_stream_id=20, version=0x010C00, response_channel=channel
            )
        )
    world.until(lambda: len(server.errors) == 4)
    assert not server.conductor.sessions


# --- recording --------------------------------------------------------------------------------------------------------


def test_a_recording_starts_and_stops_with_its_signals(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    sent = payloads(50)
    recording_id = record(world, server, caller, sent)
    assert caller.signal_names() == ["START", "STOP"]
    descriptor = caller.call(control_requests.describe_recording(recording_id))
    assert descriptor is not None
    assert descriptor == server.archive.descriptor(recording_id)
    assert caller.signals[1].position == descriptor.stop_position
    assert [message.payload for message in server.archive.reader(recording_id).messages()] == sent


def test_a_publication_of_another_host_is_recorded(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    channel = "aeron:udp?endpoint=10.0.0.1:7777"
    caller.call(control_requests.start_recording(channel, STREAM, local=False, auto_stop=True))
    publication = caller.client.add_exclusive_publication(f"{channel}|term-length=64k|linger=0", STREAM)
    world.until(lambda: publication.is_connected)
    sent = payloads(30)
    world.send(publication, sent)
    position = publication.position
    world.until(lambda: caller.call(control_requests.recording_position(0)) == position)
    assert caller.call(control_requests.stop_position(0)) is None
    assert caller.call(control_requests.max_recorded_position(0)) == position
    publication.close()
    world.until(lambda: caller.signal_names() == ["START", "STOP"], step_ns=1 * MS, timeout_ns=30 * S)
    assert caller.call(control_requests.stop_position(0)) == position
    assert caller.call(control_requests.list_recorded_streams()) == []
    assert [message.payload for message in server.archive.reader(0).messages()] == sent


def test_a_local_udp_publication_is_recorded_through_a_spy(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    channel = "aeron:udp?endpoint=10.0.0.9:7777|ssc=true"
    record(world, server, caller, payloads(5), channel)
    descriptor = caller.call(control_requests.describe_recording(0))
    assert descriptor is not None
    assert descriptor.original_channel == channel
    assert descriptor.stripped_channel == "aeron:udp?endpoint=10.0.0.9:7777"


def test_recordings_that_cannot_start(world: ControlWorld) -> None:
    server = world.server(recorded_streams_max=2)
    caller = world.remote_caller(server)
    caller.call(control_requests.start_recording(CHANNEL, 1, local=True, auto_stop=False))
    with pytest.raises(ArchiveError, match="is being recorded already") as refused:
        caller.call(control_requests.start_recording("aeron:ipc?term-length=128k", 1, local=True, auto_stop=False))
    assert refused.value.code == ErrorCode.ACTIVE_SUBSCRIPTION
    with pytest.raises(ArchiveError, match="must start with aeron:udp"):
        caller.call(control_requests.start_recording("nonsense", 2, local=True, auto_stop=False))
    with pytest.raises(ArchiveError, match="needs endpoint"):
        caller.call(control_requests.start_recording("aeron:udp", 2, local=False, auto_stop=False))
    caller.call(control_requests.start_recording(CHANNEL, 2, local=True, auto_stop=False))
    with pytest.raises(ArchiveError, match="the most this archive allows") as refused:
        caller.call(control_requests.start_recording(CHANNEL, 3, local=True, auto_stop=False))
    assert refused.value.code == ErrorCode.MAX_RECORDINGS
    caller.call(control_requests.stop_recording(CHANNEL, 1))
    caller.call(control_requests.start_recording(CHANNEL, 3, local=True, auto_stop=False))


def test_no_more_images_are_recorded_than_allowed(world: ControlWorld) -> None:
    server = world.server(recordings_max=1)
    caller = world.remote_caller(server)
    caller.call(control_requests.start_recording(CHANNEL, STREAM, local=True, auto_stop=False))
    for _ in range(2):
        server.node.client.add_exclusive_publication(CHANNEL, STREAM)
    world.until(lambda: caller.session.late_errors)
    assert caller.signal_names() == ["START"]
    error = caller.session.late_errors[0][1]
    assert isinstance(error, ArchiveError)
    assert error.code == ErrorCode.MAX_RECORDINGS


def test_streams_that_are_not_published_any_more_take_no_place_among_recordings(world: ControlWorld) -> None:
    """Aeron's addRecordedPublication starts a recording for each session, which nobody stops when it is closed."""
    server = world.server(recordings_max=1)
    caller = world.remote_caller(server)
    heard: list[str] = []
    for stream_id in range(3):
        publication = server.node.client.add_exclusive_publication(CHANNEL, stream_id)
        caller.call(control_requests.start_recording(CHANNEL, stream_id, local=True, auto_stop=False))
        heard.append("START")
        world.until(lambda: caller.signal_names() == heard)
        publication.close()
        heard.append("STOP")
        world.until(lambda: caller.signal_names() == heard)
    assert server.archive.catalog.next_recording_id == 3


def test_a_recording_is_stopped_in_three_ways(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    publication = server.node.client.add_exclusive_publication(CHANNEL, STREAM)
    for way in range(3):
        subscription_id = caller.call(control_requests.start_recording(CHANNEL, STREAM, local=True, auto_stop=False))
        world.until(lambda: caller.signals and caller.signals[-1].signal is RecordingSignal.START)
        streams = caller.call(control_requests.list_recorded_streams(channel="ipc", stream_id=STREAM))
        assert [stream.subscription_id for stream in streams] == [subscription_id]
        if way == 0:
            caller.call(control_requests.stop_recording(CHANNEL, STREAM))
        elif way == 1:
            caller.call(control_requests.stop_recording_subscription(subscription_id))
        else:
            assert caller.call(control_requests.stop_recording_by_id(way)) is True
        world.until(lambda: caller.signals[-1].signal is RecordingSignal.STOP)
        assert caller.signals[-1].recording_id == way
    assert caller.call(control_requests.stop_recording_by_id(2)) is False
    refusals: list[tuple[control_requests.Call[Any], ErrorCode]] = [
        (control_requests.stop_recording(CHANNEL, STREAM), ErrorCode.UNKNOWN_SUBSCRIPTION),
        (control_requests.stop_recording_subscription(99), ErrorCode.UNKNOWN_SUBSCRIPTION),
        (control_requests.stop_recording_by_id(99), ErrorCode.UNKNOWN_RECORDING),
    ]
    for call, code in refusals:
        with pytest.raises(ArchiveError) as refused:
            caller.call(call)
        assert refused.value.code == code
    assert publication.is_closed is False


def test_a_recording_is_extended_by_a_publication_that_begins_where_it_ended(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    first, more = payloads(40), payloads(40, seed=2)
    recording_id = record(world, server, caller, first, f"{CHANNEL}|init-term-id=3|term-id=3|term-offset=0")
    stop = caller.call(control_requests.stop_position(recording_id))
    assert stop is not None
    where = f"init-term-id=3|term-id={3 + stop // 65536}|term-offset={stop % 65536}"
    publication = server.node.client.add_exclusive_publication(f"{CHANNEL}|{where}", STREAM)
    caller.call(control_requests.extend_recording(recording_id, CHANNEL, STREAM, local=True, auto_stop=True))
    with pytest.raises(ArchiveError) as refused:
        caller.call(control_requests.extend_recording(recording_id, CHANNEL, STREAM, local=True, auto_stop=True))
    assert refused.value.code in (ErrorCode.ACTIVE_RECORDING, ErrorCode.ACTIVE_SUBSCRIPTION)
    world.send(publication, more)
    position = publication.position
    world.until(lambda: caller.call(control_requests.recording_position(recording_id)) == position)
    publication.close()
    world.until(lambda: caller.signal_names() == ["START", "STOP", "EXTEND", "STOP"])
    assert caller.signals[2].position == stop
    assert [message.payload for message in server.archive.reader(recording_id).messages()] == first + more


def test_extensions_that_do_not_fit(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    record(world, server, caller, payloads(5))
    with pytest.raises(UnknownRecordingError):
        caller.call(control_requests.extend_recording(9, CHANNEL, STREAM, local=True, auto_stop=True))
    with pytest.raises(UnknownRecordingError, match="is of streamId=77"):
        caller.call(control_requests.extend_recording(0, CHANNEL, 78, local=True, auto_stop=True))
    caller.call(control_requests.extend_recording(0, CHANNEL, STREAM, local=True, auto_stop=True))
    server.node.client.add_exclusive_publication(CHANNEL, STREAM)
    world.until(lambda: caller.session.late_errors)
    error = caller.session.late_errors[0][1]
    assert isinstance(error, ArchiveError)
    assert error.code == ErrorCode.INVALID_EXTENSION
    assert caller.call(control_requests.list_recorded_streams()) == []


# --- listings ---------------------------------------------------------------------------------------------------------


def test_recordings_are_listed_by_every_filter(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    for alias in ("alpha", "beta", "alpha"):
        record(world, server, caller, [b"x"], f"{CHANNEL}|alias={alias}")

    def ids(**filters: Any) -> list[int]:
        return [found.recording_id for found in caller.call(control_requests.list_recordings(**filters))]

    assert ids() == [0, 1, 2]
    assert ids(from_recording_id=1) == [1, 2]
    assert ids(count=2) == [0, 1]
    assert ids(channel="alias=alpha", stream_id=STREAM) == [0, 2]
    assert ids(channel="alpha", stream_id=5) == []
    assert ids(from_recording_id=7) == []
    last = server.archive.descriptor(1)
    assert caller.call(control_requests.find_last_recording("beta", STREAM, last.session_id)) == 1
    assert caller.call(control_requests.find_last_recording("gamma", STREAM, last.session_id)) is None
    assert caller.call(control_requests.describe_recording(3)) is None
    caller.call(control_requests.update_channel(1, "aeron:ipc?alias=gamma|term-length=64k"))
    assert caller.call(control_requests.find_last_recording("gamma", STREAM, last.session_id)) == 1
    found = caller.call(control_requests.describe_recording(1))
    assert found is not None
    assert found.stripped_channel == "aeron:ipc?alias=gamma"
    for count in (0, -5):
        with pytest.raises(ArchiveError, match="must be 1 or more"):
            caller.call(control_requests.list_recordings(count=count))
    with pytest.raises(UnknownRecordingError):
        caller.call(control_requests.find_last_recording("", STREAM, 1, min_recording_id=-1))


def test_one_listing_of_a_session_at_a_time_and_none_is_lost_to_a_slow_client(world: ControlWorld) -> None:
    """A catalog that fills the response stream many times over."""
    server = world.server()
    caller = world.remote_caller(server)
    record(world, server, caller, [b"x"])
    template = server.archive.descriptor(0)._replace(original_channel=CHANNEL + "|alias=" + "x" * 600)
    for _ in range(700):
        server.archive.catalog.add(template)
    first = caller.session.request(
        codecs.LIST_RECORDINGS_REQUEST, item_count_max=10_000, from_recording_id=0, record_count=10_000
    )
    second = caller.session.request(
        codecs.LIST_RECORDINGS_REQUEST, item_count_max=10, from_recording_id=0, record_count=10
    )
    world.callers.remove(caller)
    world.run(200 * MS)
    world.callers.append(caller)
    world.until(lambda: first.is_done and second.is_done)
    assert [found.recording_id for found in first.items] == list(range(701))
    assert isinstance(second.error, ArchiveError)
    assert second.error.code == ErrorCode.ACTIVE_LISTING


def test_positions_of_recordings_that_are_not_there(world: ControlWorld) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    requests: list[control_requests.Call[Any]] = [
        control_requests.start_position(5),
        control_requests.stop_position(5),
        control_requests.recording_position(-1),
        control_requests.max_recorded_position(1 << 62),
        control_requests.truncate_recording(5, 0),
        control_requests.purge_recording(5),
        control_requests.attach_segments(5),
        control_requests.start_replay(5, "aeron:ipc", 1, position=None, length=None, limit_counter_id=None),
    ]
    for call in requests:
        with pytest.raises(UnknownRecordingError) as refused:
            caller.call(call)
        assert refused.value.code == ErrorCode.UNKNOWN_RECORDING


@pytest.mark.parametrize("channel", ["aeron:ipc?alias=ended", CHANNEL], ids=["ipc", "spied"])
def test_a_recording_ends_with_its_stream_and_not_when_the_driver_lets_go_of_it(
    world: ControlWorld, channel: str
) -> None:
    server = world.server()
    caller = world.remote_caller(server)
    caller.call(control_requests.start_recording(channel, STREAM, local=True, auto_stop=True))
    publication = server.node.client.add_exclusive_publication(channel, STREAM)
    world.until(lambda: publication.is_connected)
    world.send(publication, payloads(10))
    position = publication.position
    world.until(lambda: caller.call(control_requests.recording_position(0)) == position)
    publication.close()
    world.until(lambda: caller.signals[-1].signal is RecordingSignal.STOP, timeout_ns=50 * MS)
    assert caller.call(control_requests.stop_position(0)) == position
