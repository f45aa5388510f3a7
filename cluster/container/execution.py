"""The calls of the service, and what follows where it raises: nothing more is executed."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING

from ordo.cluster.container.record_orders import RECORD_CALLBACKS
from ordo.runtime.errors import Category, MessageError, OrdoError, PayloadError, ServiceError
from ordo.runtime.reporting.failures import exit_error, traceback_of
from ordo.runtime.reporting.logging import tell

if TYPE_CHECKING:
    from ordo.cluster.container.cluster import ContainerCluster
    from ordo.cluster.container.record_orders import RecordOrders
    from ordo.cluster.container.streams.feeds import ContainerFeeds
    from ordo.cluster.container.streams.loop import ContainerLoop
    from ordo.cluster.wire.counters.component_errors import ComponentErrors
    from ordo.service_api.service import Service


OF_SERVICES = (ServiceError, PayloadError, MessageError)
"""Errors of Ordo that a service raises by its own mistake: its record can be left out, as after any other exception."""


class ContainerState(Enum):
    AWAITING = auto()
    RUNNING = auto()
    FAILED = auto()
    TERMINATED = auto()


class ServiceExecution:
    """Whether the service of a container is executed, and how it is called.

    `tells_failures`: what the service raises is told in the log of the process.
    """

    tells_failures = True

    def __init__(
        self,
        loop: ContainerLoop,
        cluster: ContainerCluster,
        feeds: ContainerFeeds,
        orders: RecordOrders,
        errors: ComponentErrors,
    ) -> None:
        """Take the `cluster` that the service sees, and the `orders` that decide what follows a failure."""
        self.cluster = cluster
        self.orders = orders
        self.errors = errors
        """The component's errors, as its mark file keeps them."""
        self.state = ContainerState.AWAITING
        self._loop = loop
        self._feeds = feeds

    def begin(self) -> None:
        """Have records executed from now on."""
        self.state = ContainerState.RUNNING
        self._loop.executes = True

    def begin_callback(self, callback: str) -> None:
        """Note that the service is about to be called, in a callback that may not call the cluster."""
        self._loop.callback, self._loop.may_call = callback, False

    def invoke(self, callback: str, may_call: bool, *arguments: object) -> None:
        """Call the service, unless the record is left out.

        What it raises becomes a ServiceError, which ends the container or, where the callback is that of a record, has
        it stand still.
        """
        loop = self._loop
        if may_call and self.leaves_out(loop.log_position):
            return
        loop.may_call = may_call
        self.attempt(callback, lambda: getattr(loop.service, callback)(*arguments))

    def leaves_out(self, position: int) -> bool:
        """Return whether the record that ends here is not for the service."""
        marks = self._loop.marks
        return marks is not None and position in marks

    def attempt(self, callback: str, action: Callable[[], object]) -> bool:
        """Run something of the service's, under the name of a callback. Return False when it raised."""
        self._loop.callback = callback
        try:
            action()
        except (Exception, SystemExit) as error:
            failure = exit_error(error) if isinstance(error, SystemExit) else error
            self.on_failure(failure, self._loop.log_position)
            return False
        finally:
            self._loop.may_call = False
        return True

    def on_failure(self, error: Exception, position: int) -> bool:
        """Stop at a record that could not be executed.

        Return True where the module decides what follows. Raises what ends the container.
        """
        loop = self._loop
        loop.executes = False
        self._feeds.drop(position)
        if self.state is ContainerState.FAILED:
            raise error
        self.state = ContainerState.FAILED
        if isinstance(error, OrdoError) and not isinstance(error, OF_SERVICES):
            self.record_error(error)
            raise error
        where = f"service {type(loop.service).__name__} raised in {loop.callback} at position {position}"
        self.note_failure(error, where, loop.failed_payload)
        failure = ServiceError(f"{where}: {type(error).__name__}: {error}", category=Category.FATAL)
        if loop.callback not in RECORD_CALLBACKS or not self.orders.is_supported:
            raise failure from error
        failure.__cause__ = error
        self.orders.on_failure(failure, position, type(error).__qualname__)
        return True

    def stand_still(self) -> None:
        """Stop executing, since the state differs from the other members'.

        The node runs on without its service until a restart.
        """
        self._loop.executes = False
        self.state = ContainerState.FAILED

    def terminate(self) -> None:
        """End the service, if it runs."""
        if self.state is not ContainerState.RUNNING:
            return
        self.state = ContainerState.TERMINATED
        self._loop.executes = False
        self.end(self._loop.service)

    def end(self, service: Service) -> None:
        """Tell an instance that it is not called any more; what it raises is only recorded."""
        try:
            service.on_terminate(self.cluster)
        except Exception as error:
            self.record_error(error)

    # Errors

    def record_error(self, error: Exception) -> None:
        self.errors.record(error, type(error).__name__)

    def note_failure(self, error: Exception, where: str, payload: bytes | None = None) -> None:
        """Keep what the service raised, and put it into the log, where its author looks.

        `payload`: the beginning of that of the message.
        """
        self.errors.record(error, where if payload is None else f"{where}, payload {payload!r}")
        if not self.tells_failures:
            return
        shown = {} if payload is None else {"payload": repr(payload)}
        member_id, told = self.cluster.member_id, traceback_of(error)
        tell("error", "service.failed", member_id=member_id, text=where, **shown, traceback=told)
