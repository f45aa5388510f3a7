"""A container hands the schemas of its code to its module, and executes nothing before it is told that it may."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.cluster.container.execution import ContainerState
from ordo.cluster.container.service_container import ServiceContainer
from ordo.cluster.container.versions import ServiceVersions
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.errors import ClusterError
from ordo.service_api.messages.logged import PackedSchema, pack_schema
from ordo.service_api.messages.message import Schema
from ordo.service_api.service import ClusteredService
from tests.cluster.container.service_node import ServiceNode
from tests.cluster.container.test_service_container import errors_of
from tests.cluster.module.test_schemas import FIRST, LATER, OTHER, SECOND


class Untyped(ClusteredService):
    """Counts messages; `schema` is what the others differ in."""

    def __init__(self) -> None:
        self.count = 0

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> None:
        self.count += 1


class First(Untyped):
    schema = FIRST


class Later(Untyped):
    schema = LATER


class Other(Untyped):
    schema = OTHER


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServiceNode]:
    node = ServiceNode(tmp_path)
    yield node
    node.close()


def begin(node: ServiceNode, *code: type[ClusteredService], has_counter: bool = True) -> ServiceContainer:
    """A container with this code, of versions from 1 on, over a log with one message."""
    if has_counter:
        node._counter(CounterType.SCHEMAS, 0)
    node.begin_term(0, leads=False, app_version=1)
    node.open_session(1)
    node.message(1, b"1")
    node.set_recovery()
    container = node.container(ServiceVersions(dict(enumerate(code, 1))))
    node.commit()
    for _ in range(5):
        node.cycle(container)
    return container


def count_of(container: ServiceContainer) -> int:
    assert isinstance(container.service, Untyped)
    return container.service.count


def told(node: ServiceNode) -> list[Any]:
    found = [ordo_codecs.decode(one) for one in node.client.received(node.client.by_stream[105])]
    return [values for table, values in filter(None, found) if table is ordo_codecs.SERVICE_SCHEMA]


def answer(node: ServiceNode, container: ServiceContainer, refusal: str) -> None:
    stream = node.client.by_stream[104]
    stream.publication.offer(ordo_codecs.SCHEMA_VERDICT.encode(service_id=0, refusal=refusal.encode()))
    for _ in range(10):
        node.cycle(container)


def append_schema(node: ServiceNode, schema: Schema, service_id: int = 0) -> int:
    return append_packed(node, pack_schema(schema), service_id)


def append_packed(node: ServiceNode, packed: PackedSchema, service_id: int = 0) -> int:
    stamp = {"leadership_term_id": 0, "timestamp": node.time, "member_id": 0, "log_position": -1}
    return node.append(ordo_codecs.SCHEMA_EVENT.encode(service_id=service_id, **stamp, **packed._asdict()))


def test_nothing_is_executed_before_the_verdict(node: ServiceNode) -> None:
    container = begin(node, First, Later)
    assert container.state is ContainerState.AWAITING
    sent = told(node)
    assert [(one.app_version, one.part, one.parts) for one in sent] == [(1, 0, 2), (2, 1, 2)]
    assert [one.digest for one in sent] == [pack_schema(one).digest for one in (FIRST, LATER)]
    answer(node, container, "")
    assert container.state is ContainerState.RUNNING and count_of(container) == 1
    container.on_close()


def test_a_refused_one_ends_with_the_line_of_its_module(node: ServiceNode) -> None:
    container = begin(node, First)
    with pytest.raises(ClusterError, match=r"Order\.account is too long"):
        answer(node, container, "Order.account is too long")
    assert container.state is ContainerState.FAILED and count_of(container) == 0
    container.on_close()


@pytest.mark.parametrize(("code", "has_counter"), [(Untyped, True), (First, False)])
def test_one_without_a_schema_and_one_of_an_earlier_node_do_not_wait(
    node: ServiceNode, code: type[ClusteredService], has_counter: bool
) -> None:
    container = begin(node, code, has_counter=has_counter)
    node.run(container, lambda: count_of(container) == 1)
    container.on_close()


def test_a_schema_that_comes_into_force_is_none_of_the_service_s_state(node: ServiceNode) -> None:
    container = begin(node, First)
    answer(node, container, "")
    append_schema(node, LATER)
    append_schema(node, SECOND)
    append_schema(node, OTHER, service_id=1)
    append_packed(node, PackedSchema(b"\1" * 32, b"damaged"))
    node.message(1, b"2")
    node.commit()
    node.run(container, lambda: count_of(container) == 2)
    assert container.sequence.last == 2, "schemas have no number"
    container.on_close()


def test_one_that_comes_into_force_and_contradicts_the_code_ends_it_there(node: ServiceNode) -> None:
    container = begin(node, First)
    answer(node, container, "")
    position = append_schema(node, OTHER)
    node.message(1, b"2")
    node.commit()
    with pytest.raises(ClusterError, match=f"log: schema at position={position}: .*account is"):
        node.run(container, lambda: count_of(container) == 2)
    assert count_of(container) == 1, "nothing behind it was executed"
    container.on_close()


def test_a_schema_that_the_log_cannot_keep_is_told_of(node: ServiceNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ordo.service_api.messages.logged.PACKED_BYTES_MAX", 10)
    container = begin(node, First)
    node.run(container, lambda: count_of(container) == 1)
    assert told(node) == []
    assert any("the log takes" in error.text for error in errors_of(node, container))
    container.on_close()
