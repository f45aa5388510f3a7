"""Records that a container must not execute, or not yet, and the record at which its service failed.

What the consensus module says of records (RecordOrder) is kept in the loop's `marks`, which it looks at before each
record; cluster/module/versions/skips.py decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.wire.counters.counter_types import CounterType, find_counter
from ordo.cluster.wire.ordo_codecs import RecordOrder

if TYPE_CHECKING:
    from ordo.cluster.container.streams.control import ContainerControl
    from ordo.cluster.container.streams.loop import ContainerLoop
    from ordo.runtime.errors import ServiceError
    from ordo.runtime.native.counters import CountersReader

HOLD_ORDERS = 8
"""The orders of the time before this start are not all there."""
HOLD_MARK = 16
"""The next record is to be waited before."""
HOLD_FAILURE = 32
"""The service failed at a record."""
EXECUTING_CALLBACKS = (
    "on_session_message",
    "on_session_messages",
    "on_session_open",
    "on_session_close",
    "on_timer_event",
    "on_time_unit",
    "on_new_leadership_term",
)
"""Callbacks that execute a record."""
RECORD_CALLBACKS = frozenset((*EXECUTING_CALLBACKS, "state_hash", "upgrade"))
"""Callbacks that belong to a record, which the cluster can leave out; "upgrade" is the hand-over at a VersionEvent."""
LATE = "Late"


class RecordOrders:
    """The orders of one container.

    `failure` is what the service raised at a record; the module decides what follows.
    """

    def __init__(self, loop: ContainerLoop, control: ContainerControl) -> None:
        self._loop = loop
        self._control = control
        self._awaited = 0
        self._held_position = -1
        self._failed_position = -1
        self.failure: ServiceError | None = None
        self.is_supported = False

    def start(self, counters: CountersReader, cluster_id: int) -> None:
        """Learn from a counter of the module how many orders from before this start are to come."""
        counter_id = find_counter(counters, CounterType.RECORD_ORDERS, cluster_id)
        self.is_supported = counter_id >= 0
        if self.is_supported:
            self._awaited += int(counters.counter(counter_id).value)
        if self._awaited > 0:
            self._loop.hold |= HOLD_ORDERS

    def waits_before(self, position: int) -> bool:
        """Look up the next record; `hold` keeps the container from executing it."""
        marks = self._loop.marks
        if marks is None or marks.get(position, "") is not None:
            return False
        self._held_position = position
        self._loop.publish_position()
        self._loop.hold |= HOLD_MARK
        self._control.send_failure(position, "", "an operator wants it to be left out", is_held=True)
        self._loop.ask_for_tick()
        return True

    def on_failure(self, error: ServiceError, position: int, kind: str) -> None:
        """Note that the service raised at a record. It executes nothing more until the module has decided."""
        self.failure = error
        self._failed_position = position
        self._loop.hold |= HOLD_FAILURE
        self._control.send_failure(position, kind, error.message, is_held=False)
        self._loop.ask_for_tick()

    def on_order(self, position: int, order: int, text: bytes) -> None:
        """Carry out an order about one record.

        Raises the service's failure when the service is to end with it.
        """
        if order == RecordOrder.STOP:
            if self.failure is not None and position == self._failed_position:
                raise self.failure
            return
        self._mark(position, order, text)
        self._awaited -= 1
        if self._awaited <= 0:
            self._loop.hold &= ~HOLD_ORDERS
        if position == self._held_position and order != RecordOrder.HOLD:
            self._held_position = -1
            self._loop.hold &= ~HOLD_MARK

    def _mark(self, position: int, order: int, text: bytes) -> None:
        loop = self._loop
        if order == RecordOrder.EXECUTE:
            marks = dict(loop.marks or {})
            marks.pop(position, None)
            loop.marks = marks or None
            return
        is_late = position <= loop.log_position and position not in (loop.marks or {})
        loop.marks = {
            **(loop.marks or {}),
            position: None if order == RecordOrder.HOLD else f"left out: {text.decode('utf-8', 'replace')}",
        }
        if order == RecordOrder.SKIP and is_late:
            self._control.send_failure(position, LATE, "it was executed already", is_held=False)
