"""The base of the durable consumers that programs hold: a transport, a member, and iteration over messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic

from ordo.cluster.client.settings import to_ns
from ordo.consumers.consumer_member import ConsumerMember, Item
from ordo.runtime.closing import Closing
from ordo.runtime.errors import ClusterTimeoutError, OrdoError, SessionClosedError
from ordo.transport.client.client_transport import ClientTransport

PARK_NS = 1_000_000
WORK_INTERVAL_NS = 5_000_000
"""Entries that were read are handed out without a duty cycle for so long."""
CLOSE_TIMEOUT_NS = 1_000_000_000
ITEMS_PER_POLL = 256


class MemberFace(Closing, Generic[Item]):
    """A member of a consumer together with its transport.

    Belongs to one thread; `close` may be called by another one, and by the handler of a signal: the loop ends.
    """

    def __init__(self, member: ConsumerMember[Item], transport: ClientTransport, timeout_s: float) -> None:
        self._member = member
        self._transport = transport
        self.timeout_s = timeout_s
        """How long `commit` and `flush` wait."""
        self._worked_ns = 0
        self._is_closed = False

    # State

    @property
    def is_paused(self) -> bool:
        """Whether an operator has paused the consumer (`ordo consumers pause`)."""
        return self._member.is_paused

    @property
    def position(self) -> int:
        """The position before which the whole log is done, as far as this member knows; -1 while it knows none."""
        return self._member.committed

    @property
    def lag(self) -> int:
        """The consumer's lag in bytes behind the end of the log, as of the cluster's last answer."""
        answer = self._member.answer
        return 0 if answer is None else max(0, answer.log_position - answer.position)

    @property
    def trouble(self) -> str:
        """The reason why the last session was lost, or why the reader left a node."""
        return self._member.trouble or self._member.source_problem

    @property
    def descriptor(self) -> int | None:
        """Readable when `poll` would find something; None with the driver of another process."""
        return self._transport.descriptor

    # Duty cycle

    def poll(self, handler: Callable[[Item], object], limit: int = ITEMS_PER_POLL) -> int:
        """Run one duty cycle and call `handler` for at most `limit` messages; return how many. Does not wait.

        Raises OrdoError when the consumer cannot go on: it was removed, or refused, or its log was deleted everywhere.
        """
        with self._transport.use:
            self.keep_alive()
            return self._member.take(handler, limit)

    def keep_alive(self) -> int:
        """Run one duty cycle and hand out nothing.

        For handlers that take longer than the cluster's `session_timeout`, after which another member would take over.
        Returns the number of things done. Raises as `poll`.
        """
        with self._transport.use:
            self._demand_open()
            self._worked_ns = self._transport.clock.now()
            return self._member.work()

    def _demand_open(self) -> None:
        self._transport.use.check()
        if self._is_closed:
            raise SessionClosedError(f"consumer {self._member.settings.name}: it is closed; open another one")

    def take(self, handler: Callable[[Item], object], limit: int = ITEMS_PER_POLL) -> int:
        """Deliver messages that were read before, without a duty cycle."""
        with self._transport.use:
            self._demand_open()
            return self._member.take(handler, limit)

    def park(self) -> None:
        """Wait until something came in, a millisecond at most: for loops of `poll`."""
        self._transport.park(PARK_NS)

    def __iter__(self) -> Iterator[Item]:
        return self._items(None)

    def _items(self, timeout_s: float | None) -> Iterator[Item]:
        found: list[Item] = []
        silent_since_ns = self._transport.clock.now()
        while not self._has_ended():
            self._transport.use.check()
            now_ns = self._transport.clock.now()
            try:
                if now_ns - self._worked_ns >= WORK_INTERVAL_NS:
                    self.keep_alive()
                if not self.take(found.append, 1) and not self.poll(found.append, 1):
                    if timeout_s is not None and now_ns - silent_since_ns > timeout_s * 1e9:
                        return
                    self._transport.rest(silent_since_ns)
                    continue
            except OrdoError:
                if self._has_ended():  # meanwhile, by another thread
                    return
                raise
            yield found.pop()
            silent_since_ns = self._transport.clock.now()

    def _has_ended(self) -> bool:
        return self._is_closed

    def _drive_until(self, is_true: Callable[[], bool], what: str) -> None:
        """Run duty cycles until `is_true`.

        Raises ClusterTimeoutError, which names `what` was awaited, and what `is_true` raises.
        """
        deadline_ns = self._transport.clock.now() + to_ns(self.timeout_s)
        while not is_true():
            if self._transport.clock.now() > deadline_ns:
                raise ClusterTimeoutError(f"{what} in time: {self.trouble or 'no answer'}")
            if self.keep_alive() == 0:
                self.park()

    # The end

    def begin_close(self) -> None:
        """Say goodbye with the next duty cycles, for at most a second; `has_left` then. `close` does both."""
        self._member.begin_close()

    @property
    def has_left(self) -> bool:
        """Whether the cluster has confirmed that the member left, or cannot be reached."""
        return self._member.is_closed

    def close(self) -> None:
        """Leave the consumer, so that other members take over at once.

        Idempotent. A call that is under way ends first; then loops over this consumer end, and its calls raise
        SessionClosedError. In a process that was forked from the consumer's it does nothing.
        """
        if not self._is_closed:
            self._is_closed = True
            self._transport.use.end(self._leave)

    def _leave(self) -> None:
        clock = self._transport.clock
        self.begin_close()
        deadline_ns = clock.now() + CLOSE_TIMEOUT_NS
        try:
            while not self.has_left and clock.now() < deadline_ns:
                if self._member.work() == 0:
                    self.park()
        except OrdoError:
            pass  # the cluster has no part in it any more, so there is nobody to say goodbye to
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Give up session, reader and transport without a word. Idempotent."""
        self._is_closed = True
        self._transport.close(before=self._member.close)
