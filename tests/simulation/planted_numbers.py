"""Planted bugs of the numbers of messages (see `planted.py`)."""

from __future__ import annotations

from typing import Any

from ordo.cluster.client.requests.requests import ClientRequests
from ordo.cluster.container.service_container import ServiceContainer
from ordo.cluster.wire.snapshots import container_snapshot
from tests.simulation.planted import Patch


def snapshots_forget_the_numbers_of_messages(patch: Patch) -> None:
    """A member that starts from a snapshot begins to count anew."""
    original = container_snapshot.decode

    def decode(messages: Any) -> Any:
        return original(messages)._replace(sequence=0)

    patch(container_snapshot, "decode", decode)


def numbers_go_on_after_snapshots_that_hold_none(patch: Patch) -> None:
    """Members that have executed the log of old releases number messages, and those that started from its snapshot."""

    def on_action(self: Any, event: Any, position: int) -> None:
        if not self.sequence.is_kept and event.action == 2:
            last, _ = self.sequence.snapshot()
            original(self, event, position)
            self.sequence.restore(last, False)
        else:
            original(self, event, position)

    original = ServiceContainer._on_action
    patch(ServiceContainer, "_on_action", on_action)


def answers_tell_the_number_that_their_client_counts(patch: Patch) -> None:
    """An answer has the request's number of its identity in the place of that of the log."""

    def on_answer(self: Any, open_position: int, number: int, *answer: Any) -> None:
        original(self, open_position, number, *answer[:3], number)

    original: Any = ClientRequests.on_answer
    patch(ClientRequests, "on_answer", on_answer)
