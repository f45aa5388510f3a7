"""Bugs of durable consumers that the simulator must find; see tests.simulation.planted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ordo.cluster.container.tables.consumer_table import ConsumerTable
from ordo.cluster.container.tables.consumer_work import SharedWork
from ordo.cluster.wire.sessions.consumer_codec import AnswerFlag

Patch = Callable[[Any, str, Any], None]


def snapshots_forget_where_consumers_are(patch: Patch) -> None:
    """A member that was restored takes every exclusive consumer to stand where it began."""
    original = ConsumerTable.restore

    def restore(self: ConsumerTable, states: Iterable[bytes]) -> None:
        original(self, states)
        for consumer in self._consumers.values():
            consumer.position = 0

    patch(ConsumerTable, "restore", restore)


def every_member_of_a_consumer_is_active(patch: Patch) -> None:
    """Standbys are told that they are the active one."""
    original = ConsumerTable._answer

    def answer(self: ConsumerTable, *arguments: Any) -> Any:
        found = original(self, *arguments)
        return found._replace(flags=found.flags | AnswerFlag.ACTIVE)

    patch(ConsumerTable, "_answer", answer)


def acknowledgements_do_not_survive_a_snapshot(patch: Patch) -> None:
    """A member that was restored hands out again what was acknowledged behind a message that is not done."""
    original = SharedWork.restored.__func__  # type: ignore[attr-defined]

    def restored(cls: type[SharedWork], state: dict[str, Any]) -> SharedWork:
        rows = [[*row[:2], -1, row[3], 0, 0] if row[5] else row for row in state["items"]]
        found: SharedWork = original(cls, {**state, "items": rows})
        return found

    patch(SharedWork, "restored", classmethod(restored))


def members_that_are_gone_count_as_refusals(patch: Patch) -> None:
    """What a member had that died counts as tried, also where only refusals do."""

    original = SharedWork.leave

    def leave(self: SharedWork, owner: int) -> None:
        for item in self._items.values():
            item.refusals += item.owner == owner and self.counts_refusals
        original(self, owner)

    patch(SharedWork, "leave", leave)


def snapshots_forget_that_only_refusals_count(patch: Patch) -> None:
    """A member that was restored counts all tries again, whoever asks for it."""
    original = ConsumerTable.restore

    def restore(self: ConsumerTable, states: Iterable[bytes]) -> None:
        original(self, states)
        self.counts_refusals = False
        for consumer in self._consumers.values():
            if consumer.work is not None:
                consumer.work.counts_refusals = False

    patch(ConsumerTable, "restore", restore)


def snapshots_forget_who_is_silent(patch: Patch) -> None:
    """A member that was restored gives more to those who may be dead than the others do."""
    original = SharedWork.restored.__func__  # type: ignore[attr-defined]

    def restored(cls: type[SharedWork], state: dict[str, Any]) -> SharedWork:
        found: SharedWork = original(cls, {**state, "silent": []})
        return found

    patch(SharedWork, "restored", classmethod(restored))
