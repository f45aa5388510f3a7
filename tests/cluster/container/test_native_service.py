"""Services written in Cython run in the same container and the same harness."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ordo.runtime.errors import ServiceError
from ordo.service_api.service import OfferResult
from ordo.service_api.testing.harness import Message, OpenSession, check_service
from tests.cluster.container.native_service import NativeEcho
from tests.cluster.container.service_node import ServiceNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServiceNode]:
    node = ServiceNode(tmp_path)
    node.set_recovery()
    yield node
    node.close()


def test_messages_reach_it_and_its_answers_the_client(node: ServiceNode) -> None:
    container = node.container(service := NativeEcho())
    node.begin_term(0, leads=True)
    node.open_session(1)
    node.message(1, b"hello")
    node.message(1, b"")
    position = node.message(-(2**63) + 1, b"from a service")
    node.commit()
    node.run(container)
    assert [payload for _, payload in node.egress()] == [b"hello", b""]
    assert service.calls == [("open", 1), ("service message", 14, position)]
    container.on_close()


def test_a_follower_s_offers_are_mocked(node: ServiceNode) -> None:
    container = node.container(service := NativeEcho())
    node.begin_term(0, leads=False)
    node.open_session(1)
    node.message(1, b"hello")
    node.commit()
    node.run(container)
    assert service.last_result == OfferResult.MOCKED
    container.on_close()


def test_what_it_raises_ends_the_container(node: ServiceNode) -> None:
    container = node.container(NativeEcho())
    node.begin_term(0, leads=True)
    node.open_session(1)
    position = node.message(1, b"raise")
    node.commit()
    with pytest.raises(ServiceError, match=f"NativeEcho raised in on_session_message at position {position}"):
        node.run(container)
    container.on_close()


def test_the_harness_runs_it() -> None:
    harness = check_service(NativeEcho, [OpenSession(1, 1), Message(1, 2, b"a"), Message(None, 3, b"b")])
    assert harness.egress(1) == [b"a"]
