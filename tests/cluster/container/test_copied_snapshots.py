"""What a container does where members copy a standby's snapshot: it says by what its state is known, or takes one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.cluster.container.execution import ContainerState
from ordo.cluster.wire import codecs
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.cluster.wire.snapshots.snapshot_digest import MessagesDigest, digest_of
from ordo.runtime.errors import SnapshotError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.service_api.service import ClusteredService
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter
from tests.cluster.container.service_node import ServiceNode
from tests.cluster.container.test_service_container import take_snapshot


class Kept(ClusteredService):
    """Keeps all messages, and gives a hash of them."""

    def __init__(self) -> None:
        self.state = b""
        self.taken = 0

    def on_start(self, cluster: Any, snapshot: SnapshotReader | None) -> None:
        self.state = b"" if snapshot is None else snapshot.read()

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> None:
        self.state += payload

    def state_hash(self) -> bytes:
        if self.state == b"raise":
            raise ValueError("no hash of this")
        return self.state

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        self.taken += 1
        writer.write(self.state)


class Forgetful(Kept):
    """Restores less than it had."""

    def on_start(self, cluster: Any, snapshot: SnapshotReader | None) -> None:
        super().on_start(cluster, snapshot)
        self.state = self.state[1:]


class Unhashed(Kept):
    """Gives no hash."""

    state_hash = ClusteredService.state_hash


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServiceNode]:
    node = ServiceNode(tmp_path)
    yield from running(node)


@pytest.fixture
def standby(tmp_path: Path) -> Iterator[ServiceNode]:
    node = ServiceNode(tmp_path / "standby")
    node.be_standby()
    yield from running(node)


def running(node: ServiceNode) -> Iterator[ServiceNode]:
    node.set_recovery()
    node.begin_term(0, leads=False)
    node.open_session(1)
    yield node
    node.close()


def execute(node: ServiceNode, service: ClusteredService, payload: bytes) -> Any:
    node.message(1, payload)
    node.commit()
    container = node.container(service)
    node.run(container)
    return container


def told(node: ServiceNode, service: ClusteredService, payload: bytes) -> tuple[int, list[tuple[str, Any]]]:
    """Execute a message and an order to note the state; return its position, and what the module is told there."""
    container = execute(node, service, payload)
    node.asked()
    position = node.snapshot_action(codecs.FOR_MEMBERS)
    node.commit()
    node.run(container, until=lambda: node.service_position.value == position or container.state is not None)
    for _ in range(20):
        node.cycle(container)
    found = [one for one in node.asked() if one[0].startswith("Snapshot") or one[0] == "ServiceAck"]
    container.on_close()
    return position, found


def head_of(node: ServiceNode, recording_id: int) -> bytes:
    """Return the digest of the head of a part, as a member reads it."""
    digest = MessagesDigest()
    for message in node.archive.reader(recording_id).messages():
        digest.add(message.payload)
        if container_snapshot.ends_head(message.payload):
            return digest.digest()
    raise AssertionError("no head")


def test_a_member_takes_no_snapshot_and_its_state_is_known_by_the_head_of_the_standbys(
    node: ServiceNode, standby: ServiceNode
) -> None:
    position, found = told(node, service := Kept(), b"same")
    assert service.taken == 0
    (digest_name, digest), (begun_name, begun) = found
    assert (digest_name, begun_name) == ("SnapshotDigest", "SnapshotBegun")
    assert (begun.log_position, begun.session_id, digest.log_position) == (position, NULL_VALUE, position)
    container = execute(standby, copied := Kept(), b"same")
    taken_at, recording_id, _ = take_snapshot(standby, container, codecs.FOR_MEMBERS)
    assert (taken_at, copied.taken) == (position, 1)
    assert head_of(standby, recording_id) == digest.digest
    container.on_close()


def test_the_head_of_another_state_is_another_one(node: ServiceNode, standby: ServiceNode) -> None:
    _, ((_, digest), _) = told(node, Kept(), b"same")
    container = execute(standby, Kept(), b"else")
    _, recording_id, _ = take_snapshot(standby, container, codecs.FOR_MEMBERS)
    assert head_of(standby, recording_id) != digest.digest
    container.on_close()


def test_a_service_without_a_hash_tells_that_there_is_nothing_to_compare(node: ServiceNode) -> None:
    position, ((_, digest), (_, begun)) = told(node, Unhashed(), b"same")
    assert (digest.digest, begun.log_position) == (b"", position)


def test_a_hash_that_raises_stops_the_service_and_the_module_does_not_wait(node: ServiceNode) -> None:
    node.take_orders()
    position, ((_, digest), (_, begun)) = told(node, Kept(), b"raise")
    assert (digest.digest, begun.log_position) == (b"", position)


@pytest.mark.parametrize("flags", [0, codecs.OF_STANDBYS])
def test_other_snapshots_tell_no_hash(standby: ServiceNode, flags: int) -> None:
    container = execute(standby, Kept(), b"state")
    _, recording_id, _ = take_snapshot(standby, container, flags)
    messages = (message.payload for message in standby.archive.reader(recording_id).messages())
    assert container_snapshot.decode(messages).state_hash == b""
    container.on_close()


def test_what_is_loaded_must_have_the_hash_that_the_snapshot_tells(standby: ServiceNode) -> None:
    container = execute(standby, Kept(), b"state")
    position, recording_id, _ = take_snapshot(standby, container, codecs.FOR_MEMBERS)
    container.on_close()
    messages = (message.payload for message in standby.archive.reader(recording_id).messages())
    assert container_snapshot.decode(messages).state_hash == digest_of([b"state"])
    standby.set_recovery(0, position, standby.time, recording_id)
    container = standby.container(good := Kept())
    standby.run(container, until=lambda: container.state is ContainerState.RUNNING)
    assert good.state == b"state"
    container.on_close()
    container = standby.container(Forgetful())
    with pytest.raises(SnapshotError, match="the service does not write or restore all of its state"):
        standby.run(container, until=lambda: False)
    container.on_close()
