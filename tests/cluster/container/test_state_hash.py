"""A service that gives hashes of its state is asked for one at each StateHashEvent of the log; any other is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.cluster.container.execution import ContainerState
from ordo.cluster.container.state_keeper import SILENCE_NS_MAX
from ordo.cluster.container.versions import ServiceVersions
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.snapshots.snapshot_digest import digest_of
from ordo.cluster.wire.version_rows import HASHES, Code
from ordo.runtime.errors import ServiceError
from ordo.service_api.service import ClusteredService
from ordo.service_api.snapshot import SnapshotWriter
from tests.cluster.container.service_node import ServiceNode
from tests.cluster.container.test_service_container import errors_of, record_snapshot

KEEP = ordo_codecs.RECORD_ORDER.encode(log_position=0, order=ordo_codecs.RecordOrder.KEEP_STATE, text=b"")


class Plain(ClusteredService):
    """Adds numbers up."""

    total = 0

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> None:
        self.total += int(payload)


class Hashed(Plain):
    def state_hash(self) -> bytes:
        return b"%d" % self.total


class WrongType(Plain):
    def state_hash(self) -> Any:
        return self.total


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServiceNode]:
    node = ServiceNode(tmp_path)
    yield node
    node.close()


def ask(node: ServiceNode) -> int:
    return node.append(
        ordo_codecs.STATE_HASH_EVENT.encode(
            leadership_term_id=0, timestamp=node.time, agreed_position=-1, member_id=0, agreed_digest=b""
        )
    )


def run(node: ServiceNode, service: type[ClusteredService]) -> tuple[Any, list[int]]:
    """The container, and where the log has its two events: behind totals of 10 and of 110."""
    node.begin_term(0, leads=False, app_version=1)
    node.open_session(1)
    node.message(1, b"10")
    first = ask(node)
    node.message(1, b"100")
    positions = [first, ask(node)]
    node.set_recovery()
    container = node.container(ServiceVersions({1: service}))
    node.commit()
    node.run(container, lambda: container.state is ContainerState.FAILED or container.log_position == node.log.position)
    return container, positions


def test_the_hash_at_each_event_goes_to_the_module(node: ServiceNode) -> None:
    container, positions = run(node, Hashed)
    sent = [(values.log_position, bytes(values.digest)) for name, values in node.asked() if name == "StateHash"]
    assert sent == [(positions[0], digest_of([b"10"])), (positions[1], digest_of([b"110"]))]
    assert ServiceVersions({1: Hashed}).describe(Hashed()) == [Code(1, HASHES)]
    container.on_close()


def test_a_service_without_hashes_is_not_asked(node: ServiceNode) -> None:
    container, _ = run(node, Plain)
    assert "StateHash" not in [name for name, _ in node.asked()]
    assert ServiceVersions({1: Plain}).describe(Plain()) == [Code(1, 0)]
    container.on_close()


def test_a_hash_that_is_none_is_a_failure_of_the_service(node: ServiceNode) -> None:
    with pytest.raises(ServiceError, match=r"WrongType raised in state_hash at position .* at least one; returned 10"):
        run(node, WrongType)


class Saved(Hashed):
    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(b"%d" % self.total)


class Unsaved(Hashed):
    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        raise OSError("no")


def told_of(node: ServiceNode, container: Any) -> tuple[int, int]:
    """The position and the recording of the state that the container has kept."""
    told: list[tuple[int, int]] = []

    def has_told() -> bool:
        told.extend((one.log_position, one.recording_id) for name, one in node.asked() if name == "StateKept")
        return bool(told)

    node.run(container, has_told)
    return told[0]


def test_a_state_is_recorded_where_the_service_stands_still(node: ServiceNode) -> None:
    container, _ = run(node, Saved)
    node.tell(KEEP)
    recording = record_snapshot(node, container)
    assert told_of(node, container) == (container.log_position, recording.recording_id)
    messages = [one.payload for one in node.archive.reader(recording.recording_id, None).messages()]
    assert any(one.endswith(b"110") for one in messages)
    assert container.state is ContainerState.FAILED and not container.snapshots.is_under_way
    container.on_close()


@pytest.mark.parametrize("service", [Unsaved, Hashed])
def test_a_state_that_cannot_be_written_is_not_waited_for(node: ServiceNode, service: type[ClusteredService]) -> None:
    """on_take_snapshot raises, or there is none."""
    container, _ = run(node, service)
    node.tell(KEEP)
    assert told_of(node, container) == (container.log_position, -1)
    container.on_close()


def test_a_service_that_stands_still_already_may_have_executed_half_a_record(node: ServiceNode) -> None:
    container, _ = run(node, Saved)
    container.execution.stand_still()
    node.tell(KEEP)
    assert told_of(node, container) == (container.log_position, -1)
    container.on_close()


def test_an_archive_that_records_nothing_is_not_waited_for(node: ServiceNode) -> None:
    container, _ = run(node, Saved)
    node.tell(KEEP)
    node.run(container, lambda: 106 in node.client.by_stream)
    node.clock.advance(SILENCE_NS_MAX)
    assert told_of(node, container) == (container.log_position, -1)
    assert "nothing of the state at log position" in errors_of(node, container)[-1].text
    container.on_close()


def test_the_digest_of_a_state_is_the_same_in_every_version() -> None:
    """Members of two versions compare theirs, and what a log says of a state is compared when it is replayed."""
    assert digest_of([b"abc", b""]).hex() == "8553b3d37f2d28d727639de9a0e7dae6"
    assert digest_of([b"abc"]) != digest_of([b"abc", b""]) != digest_of([b"", b"abc"])
