"""Versions of a service in one container: each stretch of the log is executed by the code that was in force."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.cluster.container.execution import ContainerState
from ordo.cluster.container.service_container import ServiceContainer
from ordo.cluster.container.versions import ServiceVersions
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.app_version import ALL_SERVICES
from ordo.cluster.wire.version_rows import HANDS_OVER, Code, decode_codes
from ordo.runtime.errors import ServiceError
from ordo.service_api.service import Cluster, ClusteredService, Role
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter
from tests.cluster.container.service_node import ServiceNode

MADE: list[Any] = []


class Adder(ClusteredService):
    """Notes what it is called with; `factor` is what the versions differ in."""

    factor = 1

    def __init__(self) -> None:
        MADE.append(self)
        self.calls: list[Any] = []
        self.total = 0

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.calls.append(("start", cluster.log_position))
        if snapshot is not None:
            self.total = json.loads(snapshot.read())

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> None:
        self.total += self.factor * int(payload)

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps(self.total).encode())

    def on_role_change(self, role: Role) -> None:
        self.calls.append(("role", role))

    def on_terminate(self, cluster: Cluster) -> None:
        self.calls.append(("terminate", cluster.log_position))


class Doubler(Adder):
    factor = 2


class Refuser(Adder):
    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        raise KeyError("a field that version 1 does not write")


class Forgetful(ClusteredService):
    """Has no on_take_snapshot."""

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> None:
        pass


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServiceNode]:
    MADE.clear()
    node = ServiceNode(tmp_path)
    yield node
    node.close()


def upgrade(node: ServiceNode, app_version: int, service_id: int = ALL_SERVICES) -> int:
    return node.append(
        ordo_codecs.VERSION_EVENT.encode(
            leadership_term_id=node.leadership_term_id,
            timestamp=node.time,
            app_version=app_version,
            member_id=0,
            service_id=service_id,
        )
    )


def run(node: ServiceNode, code: dict[int, type[ClusteredService]]) -> ServiceContainer:
    """Everything that is in the log."""
    node.set_recovery()
    container = node.container(ServiceVersions(code))
    node.commit()
    node.run(container, lambda: container.state is ContainerState.FAILED or container.log_position == node.log.position)
    for _ in range(5):
        node.cycle(container)
    return container


def test_each_stretch_is_executed_by_its_own_code(node: ServiceNode) -> None:
    node.begin_term(0, leads=True, app_version=1)
    node.open_session(1)
    node.message(1, b"10")
    position = upgrade(node, 2)
    node.message(1, b"100")
    end = upgrade(node, 1)
    node.message(1, b"1000")
    container = run(node, {1: Adder, 2: Doubler})
    first, second, third = MADE
    assert (first.total, second.total, third.total) == (10, 210, 1210)
    assert first.calls[0] == ("start", 0) and first.calls[-1] == ("terminate", position)
    assert second.calls == [("start", position), ("role", Role.LEADER), ("terminate", end)]
    assert container.service is third
    container.on_close()


def test_an_upgrade_of_another_service_changes_nothing(node: ServiceNode) -> None:
    """Neither where the code is there nor where it is not."""
    node.begin_term(0, leads=False, app_version=1)
    node.open_session(1)
    upgrade(node, 2, 1)
    upgrade(node, 3, 2)
    node.message(1, b"10")
    container = run(node, {1: Adder, 2: Doubler})
    (only,) = MADE
    assert (only.total, only.calls, container.versions.in_force) == (10, [("start", 0)], 1)
    container.on_close()


def test_an_upgrade_of_this_service_alone_is_one(node: ServiceNode) -> None:
    node.begin_term(0, leads=False, app_version=1)
    node.open_session(1)
    upgrade(node, 2, 0)
    node.message(1, b"10")
    container = run(node, {1: Adder, 2: Doubler})
    assert isinstance(container.service, Doubler) and container.service.total == 20
    container.on_close()


def test_the_log_says_what_it_begins_with(node: ServiceNode) -> None:
    node.begin_term(0, leads=False, app_version=2)
    node.open_session(1)
    node.message(1, b"1")
    container = run(node, {1: Adder, 2: Doubler})
    assert isinstance(container.service, Doubler) and container.service.total == 2
    assert container.service.calls[0][0] == "start"
    container.on_close()


def test_a_later_term_changes_nothing(node: ServiceNode) -> None:
    """The first record of a term repeats what is in force; only a VersionEvent changes it."""
    node.begin_term(0, leads=False, app_version=1)
    node.begin_term(1, leads=False, app_version=2)
    container = run(node, {1: Adder, 2: Doubler})
    assert type(container.service) is Adder
    container.on_close()


@pytest.mark.parametrize("code", [{1: Adder}, {1: Adder, 3: Doubler}])
def test_without_the_code_nothing_more_is_executed(node: ServiceNode, code: dict[int, Any]) -> None:
    node.begin_term(0, leads=False, app_version=1)
    node.open_session(1)
    executed = node.message(1, b"1")
    position = upgrade(node, 2)
    node.message(1, b"2")
    container = run(node, code)
    assert container.state is ContainerState.FAILED and MADE[0].total == 1
    assert node.service_position.value <= executed
    [lack] = [values for name, values in node.asked() if name == "ServiceLack"]
    assert (lack.log_position, lack.app_version) == (position, 2)
    node.tell(codecs.SERVICE_TERMINATION_POSITION.encode(log_position=node.log.position, ack_required=1))
    node.run(container, lambda: any(name == "ServiceAck" for name, _ in node.asked()))
    container.on_close()


def test_without_the_code_of_the_beginning_nothing_is_executed(node: ServiceNode) -> None:
    position = node.begin_term(0, leads=False, app_version=1)
    container = run(node, {2: Doubler})
    assert [("ServiceLack", position)] == [(name, one.log_position) for name, one in node.asked() if "Lack" in name]
    container.on_close()


def test_a_hand_over_that_fails_is_a_failure_at_its_record(node: ServiceNode) -> None:
    node.begin_term(0, leads=False, app_version=1)
    position = upgrade(node, 2)
    node.set_recovery()
    container = node.container(ServiceVersions({1: Adder, 2: Refuser}))
    node.commit()
    with pytest.raises(ServiceError, match=f"raised in upgrade at position {position}: KeyError"):
        node.run(container)
    container.on_close()


def test_an_upgrade_that_is_left_out_changes_nothing(node: ServiceNode) -> None:
    node.begin_term(0, leads=False, app_version=1)
    position = upgrade(node, 2)
    node.set_recovery()
    container = node.container(ServiceVersions({1: Adder, 2: Refuser}))
    container.marks = {position: "left out"}
    node.commit()
    node.run(container)
    assert type(container.service) is Adder and container.versions.in_force == 1
    container.on_close()


def test_a_container_says_what_code_it_has(node: ServiceNode) -> None:
    container = run(node, {2: Forgetful, 1: Adder})
    node.asked()
    [announced] = node.announced
    assert decode_codes(announced.versions) == [Code(1, HANDS_OVER), Code(2, 0)]
    container.on_close()
