"""Records that a container must not execute, or not yet, and the one that its service failed at.

What the consensus module says of records (RecordOrder) is kept in the loop's `marks`, which it looks at before each
record; cluster/module/versions/skips.py decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ordo.cluster.wire.counters.counter_types import CounterType, find_counter
from ordo.cluster.wire.ordo_codecs import RecordOrder

if TYPE_CHECKING:
    from ordo.cluster.container.streams.control import ContainerControl
    from ordo.runtime.errors import ServiceError
    from ordo.runtime.native.counters import CountersReader

HOLD_ORDERS = 8
"""The orders of the time before this start are not all there."""
HOLD_MARK = 16
"""The next record is to be waited before."""
HOLD_FAILURE = 32
"""The service failed at a record."""
RECORD_CALLBACKS = frozenset(
    (
        "on_session_message",
        "on_session_messages",
        "on_session_open",
        "on_session_close",
        "on_timer_event",
        "on_new_leadership_term",
        "state_hash",
        "upgrade",
    )
)
"""Callbacks that belong to a record, which the cluster can leave out; "upgrade" is the hand-over at a VersionEvent."""
LATE = "Late"


class RecordHost(Protocol):
    """The container."""

    hold: int
    marks: dict[int, str | None] | None
    control: ContainerControl

    @property
    def log_position(self) -> int: ...

    def stand_still(self) -> None:
        """Stop executing records and answering queries."""

    def keep_state(self) -> None:
        """Keep the state, as `keep` does, and record it as evidence."""

    def publish_position(self) -> None: ...

    def ask_for_tick(self) -> None: ...


class RecordOrders:
    """The orders of one container.

    `failure` is what the service raised at a record; the module decides what follows.
    """

    def __init__(self, host: RecordHost) -> None:
        self._host = host
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
            self._host.hold |= HOLD_ORDERS

    def waits_before(self, position: int) -> bool:
        """Look up the next record; `hold` keeps the container from executing it."""
        marks = self._host.marks
        if marks is None or marks.get(position, "") is not None:
            return False
        self._held_position = position
        self._host.publish_position()
        self._host.hold |= HOLD_MARK
        self._host.control.send_failure(position, "", "an operator wants it to be left out", is_held=True)
        self._host.ask_for_tick()
        return True

    def on_failure(self, error: ServiceError, position: int, kind: str) -> None:
        """Note that the service raised at a record. It executes nothing more until the module has decided."""
        self.failure = error
        self._failed_position = position
        self._host.hold |= HOLD_FAILURE
        self._host.control.send_failure(position, kind, error.message, is_held=False)
        self._host.ask_for_tick()

    def on_order(self, position: int, order: int, text: bytes) -> None:
        """Carry out an order. Raises the service's failure when the service is to end with it."""
        host = self._host
        if order == RecordOrder.STAND_STILL:
            host.stand_still()
            return
        if order == RecordOrder.KEEP_STATE:
            host.keep_state()
            return
        if order == RecordOrder.STOP:
            if self.failure is not None and position == self._failed_position:
                raise self.failure
            return
        self._mark(position, order, text)
        self._awaited -= 1
        if self._awaited <= 0:
            host.hold &= ~HOLD_ORDERS
        if position == self._held_position and order != RecordOrder.HOLD:
            self._held_position = -1
            host.hold &= ~HOLD_MARK

    def _mark(self, position: int, order: int, text: bytes) -> None:
        host = self._host
        if order == RecordOrder.EXECUTE:
            marks = dict(host.marks or {})
            marks.pop(position, None)
            host.marks = marks or None
            return
        is_late = position <= host.log_position and position not in (host.marks or {})
        host.marks = {
            **(host.marks or {}),
            position: None if order == RecordOrder.HOLD else f"left out: {text.decode('utf-8', 'replace')}",
        }
        if order == RecordOrder.SKIP and is_late:
            host.control.send_failure(position, LATE, "it was executed already", is_held=False)
