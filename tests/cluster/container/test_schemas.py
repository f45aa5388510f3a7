"""A container hands the schemas of its code to its module, and executes the log whatever schemas that has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.cluster.container.execution import ContainerState
from ordo.cluster.container.service_container import ServiceContainer
from ordo.cluster.container.versions import ServiceVersions
from ordo.cluster.wire import ordo_codecs
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


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServiceNode]:
    node = ServiceNode(tmp_path)
    yield node
    node.close()


def begin(node: ServiceNode, *code: type[ClusteredService]) -> ServiceContainer:
    """A container with this code, of versions from 1 on, over a log with one message."""
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


def append_schema(node: ServiceNode, schema: Schema, service_id: int = 0) -> int:
    return append_packed(node, pack_schema(schema), service_id)


def append_packed(node: ServiceNode, packed: PackedSchema, service_id: int = 0) -> int:
    stamp = {"leadership_term_id": 0, "timestamp": node.time, "member_id": 0, "log_position": -1}
    return node.append(ordo_codecs.SCHEMA_EVENT.encode(service_id=service_id, **stamp, **packed._asdict()))


def test_the_module_is_given_the_schemas_of_all_versions(node: ServiceNode) -> None:
    container = begin(node, First, Later)
    node.run(container, lambda: count_of(container) == 1)
    sent = told(node)
    assert [(one.app_version, one.part, one.parts) for one in sent] == [(1, 0, 2), (2, 1, 2)]
    assert [one.digest for one in sent] == [pack_schema(one).digest for one in (FIRST, LATER)]
    container.on_close()


def test_schemas_of_the_log_are_none_of_the_service_s_state(node: ServiceNode) -> None:
    """Newer ones, those of other ids and services, one that contradicts the code, and one that is damaged."""
    container = begin(node, First)
    for schema in (LATER, SECOND, OTHER):
        append_schema(node, schema)
    append_schema(node, OTHER, service_id=1)
    append_packed(node, PackedSchema(b"\1" * 32, b"damaged"))
    node.message(1, b"2")
    node.commit()
    node.run(container, lambda: count_of(container) == 2)
    assert container.state is ContainerState.RUNNING and errors_of(node, container) == []
    assert container.sequence.last == 2, "schemas have no number"
    container.on_close()


def test_a_schema_that_the_log_cannot_keep_is_told_of(node: ServiceNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ordo.service_api.messages.logged.PACKED_BYTES_MAX", 10)
    container = begin(node, First)
    node.run(container, lambda: count_of(container) == 1)
    assert told(node) == []
    assert any("the log takes" in error.text for error in errors_of(node, container))
    container.on_close()
