"""What the consensus module asks of its service: acks, an end at a position, orders about records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.container.versions import HOLD_VERSION
from ordo.cluster.wire.ordo_codecs import RecordOrder

if TYPE_CHECKING:
    from ordo.cluster.container.execution import ServiceExecution
    from ordo.cluster.container.snapshots import ContainerSnapshots
    from ordo.cluster.container.streams.control import ContainerControl
    from ordo.cluster.container.streams.loop import ContainerLoop


class ModuleRequests:
    """The requests of one consensus module; a ControlHandler. `answer` between duty cycles."""

    def __init__(
        self,
        loop: ContainerLoop,
        control: ContainerControl,
        execution: ServiceExecution,
        snapshots: ContainerSnapshots,
    ) -> None:
        self._loop = loop
        self._control = control
        self._execution = execution
        self._snapshots = snapshots
        self._ack_positions: list[int] = []
        self._termination: tuple[int, bool] | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a position is awaited at which something is to be answered."""
        return self._termination is not None or bool(self._ack_positions)

    def on_termination_position(self, log_position: int, ack_required: bool) -> None:
        if self._loop.hold & HOLD_VERSION and ack_required:
            # It will never come there, and must not be waited for.
            self._control.send_ack(log_position, self._loop.time)
        else:
            self._termination = log_position, ack_required

    def on_request_ack(self, log_position: int) -> None:
        self._ack_positions.append(log_position)

    def on_record_order(self, log_position: int, order: int, text: bytes) -> None:
        """Carry out an order. Raises the service's failure when the service is to end with it."""
        if order == RecordOrder.STAND_STILL:
            self._execution.stand_still()
        elif order == RecordOrder.KEEP_STATE:
            self._snapshots.keep_state()
        else:
            self._execution.orders.on_order(log_position, order, text)

    def answer(self) -> None:
        """Acknowledge what has been reached; end the service where it was to end."""
        loop = self._loop
        reached = max(loop.log_position, loop.executed_position)  # the last records need not be for the service
        for requested in [position for position in self._ack_positions if position <= reached]:
            self._ack_positions.remove(requested)
            self._control.send_ack(requested, loop.time)
        if self._termination is None or reached < self._termination[0]:
            return
        self._execution.terminate()
        if self._termination[1]:
            self._control.send_ack(reached, loop.time)
        self._termination = None
