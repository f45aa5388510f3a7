"""Recordings copied from one archive to another, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.client import control_requests
from ordo.archive.client.control_requests import Call
from ordo.archive.protocol import codecs
from ordo.archive.protocol.codes import ErrorCode
from ordo.runtime.errors import ArchiveError
from tests.archive.control_world import Caller, ControlWorld, Server
from tests.archive.test_control import CHANNEL, STREAM, record
from tests.archive.test_control_storage import content
from tests.archive.test_with_driver import payloads
from tests.transport.driver_world import MS, S

SOURCE, TARGET = "10.0.0.1", "10.0.0.2"


class Pair:
    """A source with one recording, and a target; callers of both."""

    def __init__(self, world: ControlWorld) -> None:
        self.world = world
        self.source: Server = world.server(SOURCE)
        self.target: Server = world.server(TARGET, replication_channel=f"aeron:udp?endpoint={TARGET}:0")
        self.at_source: Caller = world.remote_caller(self.source)
        self.caller: Caller = world.remote_caller(self.target)

    def replicate(self, source_recording_id: int = 0, address: str = f"{SOURCE}:8010", **options: Any) -> int:
        return self.caller.call(control_requests.replicate(source_recording_id, address, **options))

    def until_signal(self, *names: str) -> None:
        self.world.until(lambda: self.caller.signal_names() == [*names], timeout_ns=60 * S, step_ns=200_000)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ControlWorld]:
    world = ControlWorld(tmp_path)
    yield world
    world.close()


@pytest.fixture
def pair(world: ControlWorld) -> Pair:
    return Pair(world)


def test_a_stopped_recording_is_copied(pair: Pair) -> None:
    sent = payloads(200)
    record(pair.world, pair.source, pair.at_source, sent)
    replication_id = pair.replicate()
    pair.until_signal("REPLICATE", "EXTEND", "SYNC", "REPLICATE_END", "STOP")
    assert {signal.correlation_id for signal in pair.caller.signals} == {replication_id}
    assert content(pair.target) == sent
    ours, theirs = pair.target.archive.descriptor(0), pair.source.archive.descriptor(0)
    for name in (
        "start_position",
        "stop_position",
        "initial_term_id",
        "term_length",
        "mtu",
        "stream_id",
        "source_identity",
    ):
        assert getattr(ours, name) == getattr(theirs, name)
    pair.caller.signals.clear()
    pair.replicate(target_recording_id=0)
    pair.until_signal("SYNC", "REPLICATE_END")


def test_a_part_and_then_the_rest_into_the_same_recording(pair: Pair) -> None:
    sent = payloads(200)
    record(pair.world, pair.source, pair.at_source, sent)
    positions = [message.position for message in pair.source.archive.reader(0).messages()]
    pair.replicate(stop_position=positions[59])
    pair.until_signal("REPLICATE", "EXTEND", "REPLICATE_END", "STOP")
    assert content(pair.target) == sent[:60]
    pair.caller.signals.clear()
    pair.replicate(target_recording_id=0)
    pair.until_signal("EXTEND", "SYNC", "REPLICATE_END", "STOP")
    assert content(pair.target) == sent


def test_the_source_reads_no_more_at_a_time_than_was_asked_for(pair: Pair) -> None:
    sent = payloads(200)
    record(pair.world, pair.source, pair.at_source, sent)
    request = control_requests.replicate(0, f"{SOURCE}:8010")
    reads = []
    for length in (4096, 65536):
        pair.caller.signals.clear()
        pair.caller.call(replace(request, fields=request.fields | {"file_io_length_max": length}))
        pair.world.until(lambda: pair.source.archive.replays())
        (one,) = pair.source.archive.replays()
        pair.until_signal("REPLICATE", "EXTEND", "SYNC", "REPLICATE_END", "STOP")
        reads.append(one.read_count)
    assert reads[0] > 4 * reads[1]
    pair.caller.signals.clear()
    pair.caller.call(replace(request, fields=request.fields | {"file_io_length_max": 64}))
    pair.until_signal("REPLICATE_END")
    assert "fileIoMaxLength=64" in str(pair.caller.session.late_errors.popleft()[1])


def test_a_live_recording_is_followed_to_its_end(pair: Pair) -> None:
    pair.at_source.call(control_requests.start_recording(CHANNEL, STREAM, local=True, auto_stop=True))
    publication = pair.source.node.client.add_exclusive_publication(CHANNEL, STREAM)
    pair.world.until(lambda: pair.at_source.signals)
    sent = payloads(120)
    pair.world.send(publication, sent[:60])
    pair.replicate()
    pair.until_signal("REPLICATE", "EXTEND")
    pair.world.send(publication, sent[60:])
    position = publication.position
    pair.world.until(lambda: pair.target.archive.recording(0).written_position == position)  # type: ignore[union-attr]
    publication.close()
    pair.world.until(
        lambda: set(pair.caller.signal_names()[2:]) == {"REPLICATE_END", "STOP"}, timeout_ns=60 * S, step_ns=200_000
    )
    assert content(pair.target) == sent


def test_a_replication_is_stopped(pair: Pair) -> None:
    pair.at_source.call(control_requests.start_recording(CHANNEL, STREAM, local=True, auto_stop=True))
    pair.source.node.client.add_exclusive_publication(CHANNEL, STREAM)
    pair.world.until(lambda: pair.at_source.signals)
    replication_id = pair.replicate()
    pair.until_signal("REPLICATE", "EXTEND")
    pair.caller.call(control_requests.stop_replication(replication_id))
    pair.until_signal("REPLICATE", "EXTEND", "REPLICATE_END", "STOP")
    with pytest.raises(ArchiveError) as refused:
        pair.caller.call(control_requests.stop_replication(replication_id + 1000))
    assert refused.value.code == ErrorCode.UNKNOWN_REPLICATION
    pair.world.until(lambda: not pair.source.archive.replays(), timeout_ns=60 * S, step_ns=200_000)


def test_replications_that_fail_say_why(pair: Pair) -> None:
    with pytest.raises(ArchiveError) as refused:
        pair.replicate(target_recording_id=9)
    assert refused.value.code == ErrorCode.UNKNOWN_RECORDING
    pair.replicate(source_recording_id=7)
    pair.until_signal("REPLICATE_END")
    unknown = pair.caller.session.late_errors.popleft()[1]
    assert isinstance(unknown, ArchiveError)
    assert unknown.code == ErrorCode.UNKNOWN_RECORDING
    assert unknown.message == "unknown src recording id 7"
    pair.caller.signals.clear()
    pair.replicate(address="10.0.0.77:8010")
    pair.until_signal("REPLICATE_END")
    nobody = pair.caller.session.late_errors.popleft()[1]
    assert isinstance(nobody, ArchiveError)
    assert nobody.code == ErrorCode.REPLICATION_CONNECTION_FAILURE


GROUP = f"aeron:udp?control-mode=dynamic|control={SOURCE}:4000|term-length=64k|ssc=true"
MEMBER = f"aeron:udp?endpoint={TARGET}:0|control={SOURCE}:4000"


class Live:
    """A live stream that the source records; receivers join it at the source's control address."""

    def __init__(self, pair: Pair) -> None:
        pair.at_source.call(control_requests.start_recording(GROUP, STREAM, local=True, auto_stop=True))
        self.publication = pair.source.node.client.add_exclusive_publication(GROUP, STREAM)
        pair.world.until(lambda: pair.at_source.signals)
        self.sent: list[bytes] = []
        self._world = pair.world

    def send(self, count: int) -> None:
        more = payloads(count)
        self._world.send(self.publication, more)
        self.sent += more


def ask(pair: Pair, **fields: Any) -> int:
    """Replicates with fields of the request that `replicate` leaves out."""
    request = control_requests.replicate(0, f"{SOURCE}:8010")
    return pair.caller.call(replace(request, fields=request.fields | fields))


def until_copied(pair: Pair, live: Live) -> None:
    def position() -> int:
        recording = pair.target.archive.recording(0)
        return -1 if recording is None else recording.written_position

    pair.world.until(lambda: position() == live.publication.position, timeout_ns=60 * S, step_ns=200_000)


@pytest.mark.parametrize(("end", "port"), [("publisher", 0), ("client", 7400)])
def test_a_replication_joins_the_live_stream(pair: Pair, end: str, port: int) -> None:
    """After MERGE the recording goes on without the source's archive, until its publisher or a client ends it.

    The replay may have a port of its own choice, where the source's answers cannot come in too.
    """
    live = Live(pair)
    live.send(100)
    replication_channel = f"aeron:udp?endpoint={TARGET}:{port}"
    replication_id = ask(pair, live_destination=MEMBER, replication_channel=replication_channel)
    pair.until_signal("REPLICATE", "EXTEND", "MERGE", "REPLICATE_END")
    pair.world.until(lambda: not pair.source.archive.replays(), timeout_ns=60 * S, step_ns=200_000)
    assert pair.caller.signals[2].position == live.publication.position
    live.send(100)
    until_copied(pair, live)
    if end == "publisher":
        live.publication.close()
    else:
        assert pair.caller.call(control_requests.stop_recording_by_id(0))
    pair.until_signal("REPLICATE", "EXTEND", "MERGE", "REPLICATE_END", "STOP")
    assert {signal.correlation_id for signal in pair.caller.signals} == {replication_id}
    assert content(pair.target) == live.sent
    assert pair.target.conductor.recordings.subscriptions() == []


def test_a_live_stream_is_joined_while_messages_come(pair: Pair) -> None:
    live = Live(pair)
    live.send(100)
    ask(pair, live_destination=MEMBER)
    while "MERGE" not in pair.caller.signal_names():
        live.send(1)
        pair.world.run(MS, step_ns=100_000)
        assert not pair.caller.session.late_errors
    live.send(20)
    until_copied(pair, live)
    pair.caller.call(control_requests.stop_recording_by_id(0))
    assert content(pair.target) == live.sent


def test_a_source_that_dies_before_the_live_stream_was_joined_leaves_a_part(pair: Pair) -> None:
    """Which the next replication goes on with: here from the same archive, stopped in good order."""
    live = Live(pair)
    live.send(100)
    ask(pair, live_destination=f"aeron:udp?endpoint={TARGET}:0|control={SOURCE}:4999")
    until_copied(pair, live)
    assert "MERGE" not in pair.caller.signal_names()
    pair.at_source.call(control_requests.stop_recording_by_id(0))
    pair.world.until(lambda: "REPLICATE_END" in pair.caller.signal_names(), timeout_ns=60 * S, step_ns=200_000)
    assert content(pair.target) == live.sent
    pair.caller.signals.clear()
    pair.replicate(target_recording_id=0)
    pair.until_signal("SYNC", "REPLICATE_END")


def test_a_stopped_source_has_no_live_stream(pair: Pair) -> None:
    record(pair.world, pair.source, pair.at_source, payloads(3))
    ask(pair, live_destination=MEMBER)
    pair.until_signal("REPLICATE_END")
    assert "cannot live merge" in str(pair.caller.session.late_errors.popleft()[1])


def test_a_replication_with_tags(pair: Pair) -> None:
    sent = payloads(100)
    record(pair.world, pair.source, pair.at_source, sent)
    request = control_requests.replicate(0, f"{SOURCE}:8010")
    names = ("source_recording_id", "target_recording_id", "source_control_stream_id", "source_control_channel")
    fields = {name: request.fields[name] for name in names} | {"channel_tag_id": 100, "subscription_tag_id": 200}
    pair.caller.call(Call(codecs.TAGGED_REPLICATE_REQUEST, fields, lambda reply: reply.relevant_id))
    pair.until_signal("REPLICATE", "EXTEND", "SYNC", "REPLICATE_END", "STOP")
    assert content(pair.target) == sent


@pytest.mark.parametrize("part", ["answers", "replay", "both"])
def test_a_replication_over_response_channels(pair: Pair, part: str) -> None:
    """The source names its own addresses: it may be behind a NAT that only lets answers through."""
    sent = payloads(100)
    record(pair.world, pair.source, pair.at_source, sent)
    fields = {}
    if part != "replay":
        fields["source_response_channel"] = f"aeron:udp?control-mode=response|control={SOURCE}:5000"
    if part != "answers":
        fields["replication_channel"] = f"aeron:udp?control-mode=response|control={SOURCE}:5001"
        fields.setdefault("source_response_channel", f"aeron:udp?endpoint={TARGET}:0")
    ask(pair, **fields)
    pair.until_signal("REPLICATE", "EXTEND", "SYNC", "REPLICATE_END", "STOP")
    assert content(pair.target) == sent
    pair.world.until(lambda: not pair.source.archive.replays(), timeout_ns=60 * S, step_ns=200_000)


def test_what_cannot_be_replicated_with_tags_is_refused(pair: Pair) -> None:
    response = f"aeron:udp?control-mode=response|control={SOURCE}:5001"
    for channel, kind in (("aeron:ipc", "IPC"), (response, "response")):
        with pytest.raises(ArchiveError, match=f"{kind} channels can't be used with live destinations"):
            ask(pair, live_destination=MEMBER, replication_channel=channel)
        with pytest.raises(ArchiveError, match=f"{kind} channels can't be used with tagged replication"):
            ask(pair, channel_tag_id=1, subscription_tag_id=2, replication_channel=channel)


def test_a_part_of_another_recording_is_not_gone_on_with(pair: Pair) -> None:
    """With all that a catalog says alike, as logs of two clusters have it; nothing of the source is added."""
    sent, others = payloads(200), [payload[::-1] + b"!" for payload in payloads(200)]
    channel = f"{CHANNEL}|init-term-id=7|term-id=7|term-offset=0"
    record(pair.world, pair.source, pair.at_source, sent, channel)
    part = [message.position for message in pair.source.archive.reader(0).messages()][59]
    pair.replicate(stop_position=part)
    pair.until_signal("REPLICATE", "EXTEND", "REPLICATE_END", "STOP")
    record(pair.world, pair.source, pair.at_source, others, channel)
    pair.caller.signals.clear()
    pair.replicate(1, target_recording_id=0)
    pair.until_signal("REPLICATE_END")
    error = pair.caller.session.late_errors.popleft()[1]
    assert isinstance(error, ArchiveError)
    assert error.code == ErrorCode.INVALID_EXTENSION
    assert "recording 1 of the source archive is not the one that recording 0 has a part of: the first" in error.message
    assert content(pair.target) == sent[:60]
    pair.world.until(lambda: not pair.source.archive.replays(), timeout_ns=60 * S, step_ns=200_000)
    pair.caller.signals.clear()
    pair.replicate(target_recording_id=0)
    pair.until_signal("EXTEND", "SYNC", "REPLICATE_END", "STOP")
    assert content(pair.target) == sent


def test_a_whole_copy_is_compared_as_well(pair: Pair) -> None:
    """A target that ends where the source ends is no copy of it for that."""
    record(pair.world, pair.source, pair.at_source, payloads(20))
    record(pair.world, pair.source, pair.at_source, [bytes(len(payload)) for payload in payloads(20)])
    pair.replicate()
    pair.until_signal("REPLICATE", "EXTEND", "SYNC", "REPLICATE_END", "STOP")
    pair.caller.signals.clear()
    pair.replicate(1, target_recording_id=0)
    pair.until_signal("REPLICATE_END")
    error = pair.caller.session.late_errors.popleft()[1]
    assert isinstance(error, ArchiveError)
    theirs = pair.source.archive.descriptor(1).initial_term_id
    assert f"it has initial_term_id={theirs}, and this one initial_term_id=" in error.message
