"""The interface that a user writes against: a deterministic service, and the cluster as it sees it.

A service is a function of (snapshot, log): the same records in the same order give the same state on every member, so
time comes from `timestamp` and `cluster.time` only, and randomness and outside input stay out of the state. All
callbacks of a service run on one thread, one at a time (cluster-service-api.md).

What may be called from where:

    callback                                              sessions, timers, cluster.offer
    on_session_open, on_session_close, on_session_message,
    on_session_messages (while it has a message),
    on_timer_event, on_new_leadership_term                yes
    on_start, on_role_change, on_take_snapshot, state_hash,
    on_query, on_terminate, do_background_work            no: ServiceCallError
"""

from __future__ import annotations

from typing import TypeAlias

from ordo.runtime.errors import ServiceError
from ordo.runtime.native.cluster_time import TimeUnit
from ordo.service_api.cluster import (
    NULL_MEMBER_ID,
    NULL_TERM_ID,
    ClientSession,
    CloseReason,
    Cluster,
    NewLeadershipTermEvent,
    OfferResult,
    Payload,
    Role,
)
from ordo.service_api.message_run import MessageRun
from ordo.service_api.native import Header, NativeClusteredService
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter

__all__ = [
    "NULL_MEMBER_ID",
    "NULL_TERM_ID",
    "ClientSession",
    "CloseReason",
    "Cluster",
    "ClusteredService",
    "MessageRun",
    "NewLeadershipTermEvent",
    "OfferResult",
    "Payload",
    "Role",
    "Service",
    "TimeUnit",
]


class ClusteredService:
    """A deterministic service: subclass and implement at least `on_session_message`.

    Every other callback does nothing unless overridden.
    """

    can_fork: bool = True
    """Whether `on_take_snapshot` may run in a copy of the process (fork), while the service goes on. Set it to False
    where the state is not only in the service's memory, such as in a library that does not survive a fork."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        """Start; called once, before any other callback. Restore the state from `snapshot` when there is one."""

    def on_session_open(self, session: ClientSession, timestamp: int) -> None:
        """Handle the opening of a client's session."""

    def on_session_close(self, session: ClientSession, timestamp: int, close_reason: CloseReason) -> None:
        """Handle the closing of a session, which is no longer in `cluster.client_sessions`."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        """Execute a client's message, or a service's (then `session` is None). `payload` may be kept, `header` may not.

        Bytes that it returns answer the client, as `session.reply` does. A request that is not answered gets an empty
        answer. `raise Reject("why")` refuses the message.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement on_session_message")

    def on_session_messages(self, messages: MessageRun) -> None:
        """Execute messages that follow on one another, in one call.

        This is a faster form of `on_session_message`, which is not called where this is overridden.

        Each step of the iteration ends the message before, so answers, refusals, time and timers are as if each came
        alone. `raise Reject("why")` refuses the message taken last; the rest comes in the next call, and so it does
        when this returns early. It must take at least one message. How many come in a call differs between members:
        nothing in the state may depend on it.
        """
        for payload in messages:
            answer = self.on_session_message(messages.session, messages.timestamp, payload, messages.header)
            if answer is not None:
                messages.reply(answer)

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        """Handle a timer that fired."""

    def on_query(self, payload: bytes) -> bytes:
        """Answer a client's query from the state, without changing the state.

        Not part of the log: on one member, between two records. What it raises goes to the client as an error, and ends
        nothing; NotImplementedError says that the question is none that the service answers.
        """
        raise NotImplementedError("the service answers no queries")

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        """Write the whole state; `on_start` gets it back, byte for byte.

        Members compare what they wrote: the same state must give the same bytes, whatever way led to it. Sort sets and
        whatever else has no order of its own; `pickle` may write equal objects in different ways.

        A service in its own process is copied for this (`can_fork`): what is changed here is changed in the copy only,
        and on some members perhaps not. So change nothing.
        """

    def state_hash(self) -> bytes:
        """Return a hash of the whole state, or of what it depends on: cheap to compute, the same for the same state.

        Not called unless it is overridden. Members compare it at intervals of the log (bytes, `[service]
        state_hash_every`), and one that differs takes the others' state. It must not depend on the way that led to the
        state: a service that was restored from a snapshot gives the same bytes. It changes nothing.
        """
        raise NotImplementedError(f"{type(self).__name__} has no state_hash")

    def on_role_change(self, role: Role) -> None:
        """Handle the change of this member's role to leader or follower.

        Not part of the state machine: members differ.
        """

    def on_terminate(self, cluster: Cluster) -> None:
        """Stop; the last callback of a service that was started."""

    def on_new_leadership_term(self, event: NewLeadershipTermEvent) -> None:
        """Handle the beginning of a leadership term, whose first record this is."""

    def on_time_unit(self, former: TimeUnit, unit: TimeUnit) -> None:
        """Convert the times of the state: from this record on timestamps are in `unit`, which is finer than `former`.

        `former.rescale(value, unit)` converts one. Timers are converted already. A log changes its unit only if the
        setting `time_unit_from` says so and this is overridden; a service whose state has no times overrides it with
        nothing. `on_new_leadership_term` follows.
        """
        raise NotImplementedError(f"{type(self).__name__} has no on_time_unit")

    def do_background_work(self, now_ns: int) -> int:
        """Do background work, in every duty cycle, given the monotonic clock.

        Not part of the state machine. Returns > 0 if work was done.
        """
        return 0


Service: TypeAlias = ClusteredService | NativeClusteredService


def check_hash(found: object) -> bytes:
    """Return the value that a `state_hash` returned. Raises ServiceError if it is not a hash."""
    if not isinstance(found, bytes) or not found:
        raise ServiceError(f"state_hash must return bytes, at least one; returned {found!r:.40}")
    return found
