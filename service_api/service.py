"""What a user writes against: a deterministic service, and the cluster as it sees it.

A service is a function of (snapshot, log): the same records in the same order give the same state on every member, so
time comes from `timestamp` and `cluster.time` only, and randomness and outside input stay out of the state. All
callbacks of a service run on one thread, one at a time (cluster-service-api.md).

What may be called from where:

    callback                                              sessions, timers, cluster.offer
    on_session_open, on_session_close, on_session_message,
    on_timer_event, on_new_leadership_term                yes
    on_start, on_role_change, on_take_snapshot,
    on_query, on_terminate, do_background_work            no: ServiceCallError
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol, TypeAlias

from service_api.native import Header, NativeClusteredService
from service_api.snapshot import SnapshotReader, SnapshotWriter

NULL_MEMBER_ID = -1
NULL_TERM_ID = -1

Payload: TypeAlias = bytes | bytearray | memoryview


class OfferResult(IntEnum):
    """What an `offer` returns when it returns no position: every negative result is a member of this (§5 of
    cluster-service-api.md). A code and no exception, since the members that only mock an offer could not raise it."""

    MOCKED = 1
    """Accepted and dropped: this member does not lead, and its answers go nowhere."""
    NOT_CONNECTED = -1
    """Nobody is there to receive it, or not yet."""
    BACK_PRESSURED = -2
    """The receiver is behind: try again later."""
    ADMIN_ACTION = -3
    """The log buffer was being rotated: try again at once."""
    CLOSED = -4
    """The session or its stream is closed."""
    MAX_POSITION_EXCEEDED = -5
    """The stream has come to its last position."""
    MESSAGE_TOO_LONG = -6
    """Longer than the stream takes, and never accepted however often it is tried."""


class Role(IntEnum):
    """What a service can be: the leader's service answers clients, all others only follow."""

    FOLLOWER = 0
    LEADER = 2


class CloseReason(IntEnum):
    """Why a client's session was closed."""

    CLIENT_ACTION = 0
    SERVICE_ACTION = 1
    TIMEOUT = 2


class TimeUnit(IntEnum):
    """The unit of all timestamps of one cluster."""

    MILLIS = 0
    MICROS = 1
    NANOS = 2


class NewLeadershipTermEvent(NamedTuple):
    """The first record of a leadership term (cluster-consensus.md §11)."""

    leadership_term_id: int
    log_position: int
    timestamp: int
    term_base_log_position: int
    leader_member_id: int
    log_session_id: int
    time_unit: TimeUnit
    app_version: int


class ClientSession(Protocol):
    """One client's open session."""

    @property
    def id(self) -> int: ...
    @property
    def response_stream_id(self) -> int: ...
    @property
    def response_channel(self) -> str: ...
    @property
    def encoded_principal(self) -> bytes: ...
    @property
    def is_closing(self) -> bool: ...

    def offer(self, payload: Payload) -> int:
        """Sends a message to the client. Never blocks.

        Returns a position > 0 (`OfferResult.MOCKED` on a member that does not lead), or a negative `OfferResult`.
        Raises ServiceCallError from a callback that may not send.
        """
        ...

    def close(self) -> None:
        """Asks for the session to be closed; `on_session_close` follows. Again is harmless."""
        ...


class Cluster(Protocol):
    """The cluster as its service sees it."""

    @property
    def member_id(self) -> int: ...
    @property
    def role(self) -> Role: ...
    @property
    def log_position(self) -> int:
        """After the record being executed; in `on_start` the snapshot's position or 0."""
        ...

    @property
    def time(self) -> int:
        """Timestamp of the last executed record, in `time_unit`."""
        ...

    @property
    def time_unit(self) -> TimeUnit | None:
        """None until a snapshot or the first term told it."""
        ...

    @property
    def client_sessions(self) -> Sequence[ClientSession]:
        """Open sessions in ascending order of id."""
        ...

    def get_client_session(self, session_id: int) -> ClientSession | None: ...

    def close_client_session(self, session_id: int) -> bool:
        """Asks for a session to be closed. Raises ServiceError for an unknown id."""
        ...

    def schedule_timer(self, correlation_id: int, deadline: int) -> bool:
        """`on_timer_event(correlation_id, ...)` once cluster time reaches `deadline`; replaces one of the same id.

        Always True: what the consensus module cannot take at once is kept in order, and no further record is executed
        until it is taken.
        """
        ...

    def cancel_timer(self, correlation_id: int) -> bool:
        """`on_timer_event` is not called for it any more."""
        ...

    def offer(self, payload: Payload) -> int:
        """Puts a message from this service into the log; it comes back with `session` None.

        Must be called identically on every member; the log keeps one copy. Answers a number > 0, not a log position.
        """
        ...

    def idle(self) -> None:
        """To be called in a loop that waits for a session to take a message: lets the transport go on."""
        ...


class ClusteredService:
    """Subclass and implement at least `on_session_message`. Every other callback does nothing unless overridden."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        """Once, before any other callback. Restore the state from `snapshot` when there is one."""

    def on_session_open(self, session: ClientSession, timestamp: int) -> None:
        """A client opened a session."""

    def on_session_close(self, session: ClientSession, timestamp: int, close_reason: CloseReason) -> None:
        """A session is gone; it is no longer in `cluster.client_sessions`."""

    def on_session_message(self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header) -> None:
        """A client's message, or a service's (then `session` is None). `payload` may be kept, `header` may not."""
        raise NotImplementedError(f"{type(self).__name__} must implement on_session_message")

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        """A timer fired."""

    def on_query(self, payload: bytes) -> bytes:
        """A client asks for something that changes nothing: answer it from the state, and leave the state alone.

        Not part of the log: on one member, between two records. What it raises goes to the client as an error, and ends
        nothing; NotImplementedError says that the question is none that the service answers.
        """
        raise NotImplementedError("the service answers no queries")

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        """Write the whole state; `on_start` gets it back, byte for byte."""

    def on_role_change(self, role: Role) -> None:
        """This member became the leader or a follower. Not part of the state machine: members differ."""

    def on_terminate(self, cluster: Cluster) -> None:
        """Last callback of a service that was started."""

    def on_new_leadership_term(self, event: NewLeadershipTermEvent) -> None:
        """First record of each term."""

    def do_background_work(self, now_ns: int) -> int:
        """Every duty cycle, with the monotonic clock. Not part of the state machine. Answers > 0 if work was done."""
        return 0


Service: TypeAlias = ClusteredService | NativeClusteredService
