"""The cluster as its service sees it: sessions, timers, messages, and the codes that their calls return."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol, TypeAlias

from ordo.runtime.native.cluster_time import TimeUnit

NULL_MEMBER_ID = -1
NULL_TERM_ID = -1

Payload: TypeAlias = bytes | bytearray | memoryview
ID_OF_SERVICE = (
    "offer: an id is for the outputs of applications (docs/APPLICATIONS.md); what a service of the members puts into "
    "the log is executed once as it is: leave the id out"
)


class OfferResult(IntEnum):
    """The result of an `offer` that is not a position (cluster-service-api.md §5).

    Every result below 32 is a member of this. It is a code and not an exception, since the members that only mock an
    offer could not raise it.
    """

    MOCKED = 1
    """Accepted and dropped: this member does not lead, and its answers go nowhere."""
    KEPT = 2
    """Accepted, and sent as soon as the slow client takes it (docs/CLIENT.md, Slow clients)."""
    NOT_CONNECTED = -1
    """There is no receiver, or not yet."""
    BACK_PRESSURED = -2
    """The receiver is too slow at present: try again later."""
    ADMIN_ACTION = -3
    """The log buffer was being rotated: try again at once."""
    CLOSED = -4
    """The session or its stream is closed."""
    MAX_POSITION_EXCEEDED = -5
    """The stream has come to its last position."""
    MESSAGE_TOO_LONG = -6
    """Longer than the stream takes, and never accepted however often it is tried."""
    NO_ROOM = -7
    """The cluster takes no messages until there is room on its disks again: a client's `offer`."""


class Role(IntEnum):
    """What a service can be: the leader's service answers clients, all others only follow."""

    FOLLOWER = 0
    LEADER = 2


class CloseReason(IntEnum):
    """The reason for which a client's session was closed."""

    CLIENT_ACTION = 0
    SERVICE_ACTION = 1
    TIMEOUT = 2


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
    """The version of service 0's code, if a node runs several services."""


class ClientSession(Protocol):
    """One client's open session."""

    @property
    def id(self) -> int:
        """The id of the session, the same on every member."""
        ...

    @property
    def response_stream_id(self) -> int:
        """The stream that the client takes answers on."""
        ...

    @property
    def response_channel(self) -> str:
        """The channel that the client takes answers on."""
        ...

    @property
    def encoded_principal(self) -> bytes:
        """The client's principal, as the cluster's authenticator states it; empty without one."""
        ...

    @property
    def is_closing(self) -> bool:
        """Whether `close` was called, and the log has not closed the session yet."""
        ...

    def offer(self, payload: Payload) -> int:
        """Send a message to the client. Never blocks: a slow client's messages are kept and sent later.

        Returns a position > 0, `OfferResult.KEPT`, `OfferResult.MOCKED` on a member that does not lead, or a negative
        `OfferResult`: the message goes nowhere. None of them says to try again.
        Raises ServiceCallError from a callback that may not send.
        """
        ...

    def reply(self, payload: Payload) -> None:
        """Answer the message that is being executed, once; returning bytes from `on_session_message` does the same.

        A request's answer is kept, so that it reaches the client also after a failover. A message that is no request
        gets it as with `offer`, at most once. Raises ServiceCallError anywhere else, and for a second answer.
        """
        ...

    @property
    def identity(self) -> bytes | None:
        """The 16 bytes that name the sender of the request being executed, over all its sessions; None otherwise."""
        ...

    def close(self) -> None:
        """Ask for the session to be closed; `on_session_close` follows. Idempotent."""
        ...


class Cluster(Protocol):
    """The cluster as its service sees it."""

    @property
    def member_id(self) -> int:
        """The id of this member; no state may depend on it."""
        ...

    @property
    def role(self) -> Role:
        """What this member is now; no state may depend on it."""
        ...

    @property
    def log_position(self) -> int:
        """The position after the record being executed; in `on_start` the snapshot's position or 0."""
        ...

    @property
    def time(self) -> int:
        """The timestamp of the last executed record, in `time_unit`."""
        ...

    @property
    def time_unit(self) -> TimeUnit | None:
        """The unit of all timestamps; None until a snapshot or the first term tells it."""
        ...

    @property
    def client_sessions(self) -> Sequence[ClientSession]:
        """The open sessions in ascending order of id."""
        ...

    def get_client_session(self, session_id: int) -> ClientSession | None:
        """Return the open session of that id, or None."""
        ...

    def close_client_session(self, session_id: int) -> bool:
        """Ask for a session to be closed. Raises ServiceError for an unknown id."""
        ...

    def schedule_timer(self, correlation_id: int, deadline: int) -> bool:
        """Call `on_timer_event(correlation_id, ...)` once cluster time reaches `deadline`.

        A timer of the same id is replaced.

        Both are whole numbers of 64 bits; raises ServiceCallError for others.

        Always True: what the consensus module cannot take at once is kept in order, and no further record is executed
        until it is taken.
        """
        ...

    def cancel_timer(self, correlation_id: int) -> bool:
        """Cancel a timer: `on_timer_event` is no longer called for it."""
        ...

    def offer(self, payload: Payload, *, id: bytes | None = None) -> int:
        """Put a message from this service into the log; it comes back with `session` None.

        Must be called identically on every member; the log keeps one copy. Returns a number > 0
        that is not a log position.

        `id` is for the outputs of applications (docs/APPLICATIONS.md): 1 to 64 bytes, for which the cluster executes
        one request or output alone. A service of the cluster's members raises ServiceCallError for it.
        """
        ...

    def publish(self, topic: str, payload: Payload, *more: Payload) -> int:
        """Publish a message to all subscribers of the topic (docs/CLIENT.md, Feeds), on every member alike.

        Returns its sequence number in the topic, from 1 on; with several, the first one's, which the others follow.
        Nothing of a record goes out whose callback raises an error other than Reject. Raises ServiceError for a topic's
        name, a length or a number of topics that is not allowed.
        """
        ...

    def idle(self) -> None:
        """Let the transport work. Call it in a loop that waits until a session takes a message."""
        ...
