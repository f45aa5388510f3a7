"""Recordings copied from one archive to another, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.client import control_requests
from ordo.archive.protocol.codes import ErrorCode
from ordo.runtime.errors import ArchiveError
from tests.archive.control_world import Caller, ControlWorld, Server
from tests.archive.test_control import CHANNEL, STREAM, record
from tests.archive.test_control_storage import content
from tests.archive.test_with_driver import payloads
from tests.transport.driver_world import S

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
    for name in ("start_position", "stop_position", "initial_term_id", "term_length", "mtu", "stream_id"):
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
    pair.caller.signals.clear()
    pair.replicate(address="10.0.0.77:8010")
    pair.until_signal("REPLICATE_END")
    nobody = pair.caller.session.late_errors.popleft()[1]
    assert isinstance(nobody, ArchiveError)
    assert nobody.code == ErrorCode.REPLICATION_CONNECTION_FAILURE
