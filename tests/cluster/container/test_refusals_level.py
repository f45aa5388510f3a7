"""From their protocol level on, and after a restart from a snapshot, shared consumers may count only refusals."""

from __future__ import annotations

import pytest

from ordo.cluster.container.service_container import ServiceContainer
from ordo.cluster.wire.levels import REFUSALS_LEVEL
from ordo.cluster.wire.sessions.consumer_codec import (
    CommandFlag,
    CommandKind,
    ConsumerCommand,
    ConsumerMode,
    encode_command,
)
from tests.cluster.container.service_node import ServiceNode
from tests.cluster.container.test_message_sequences import Numbered, node, raise_level, restore, run

__all__ = ["node"]


def join(node: ServiceNode, name: str) -> None:
    """A member that asks for it joins a consumer of this name."""
    command = ConsumerCommand(
        CommandKind.JOIN,
        name,
        member_key=1,
        number=1,
        position=0,
        mode=ConsumerMode.SHARED,
        ack_timeout=100,
        in_flight_max=2,
        tries_max=2,
        flags=CommandFlag.COUNTS_REFUSALS,
    )
    node.append(encode_command(command, node.leadership_term_id, 1))


def counts(container: ServiceContainer, name: str) -> bool:
    consumer = container.consumers.table.get(name)
    assert consumer is not None and consumer.work is not None
    return consumer.work.counts_refusals


@pytest.mark.parametrize("level", [REFUSALS_LEVEL - 1, REFUSALS_LEVEL])
def test_only_refusals_count_from_their_level_on(node: ServiceNode, level: int) -> None:
    container = node.container(Numbered())
    join(node, "before")
    raise_level(node, level)
    join(node, "after")
    run(node, container)
    is_there = level == REFUSALS_LEVEL
    assert [counts(container, name) for name in ("before", "after")] == [False, is_there]
    container = restore(node, container, Numbered())
    join(node, "later")
    run(node, container)
    assert [counts(container, name) for name in ("before", "after", "later")] == [False, is_there, is_there]
    container.on_close()
