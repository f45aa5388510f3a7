"""Open client sessions: their state from the log, and what the leader does for them (cluster-client.md §5, §6)."""

from __future__ import annotations

import struct
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ordo.cluster.module.sessions.response_channels import is_from_opener, opener_host
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.codecs import CloseReason, EventCode
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.members import host_of
from ordo.cluster.wire.sessions.consumer_codec import ADMINISTRATION, ConsumerStatus, encode_answer, text_answer
from ordo.cluster.wire.sessions.message_limit import encode_announcement
from ordo.runtime.errors import DecodeError, OrdoError, RegistrationError
from ordo.runtime.security.authentication import EVERYTHING, Right, key_name_of
from ordo.transport.client.pending_registrations import PendingRegistrations

if TYPE_CHECKING:
    from ordo.cluster.wire import records
    from ordo.sequencer.session_table import SessionTable
    from ordo.transport.client.client import TransportClient
    from ordo.transport.client.client_core import ClientCounter
    from ordo.transport.streams.image import Image
    from ordo.transport.streams.publication import Publication

LABEL_LENGTH_MAX = 380
CONNECTS_PER_TICK = 32
CONNECTING_MAX = 64
"""Publications to clients that a new leader's driver has not made yet."""
EVENTS_MAX = 64
"""Events and admin responses that wait for one client."""
TOLD_HEARTBEAT_TIMEOUT_NS_MIN = 5_000_000_000


class Leadership(Protocol):
    """The calls that sessions make on the serving leader."""

    member_id: int
    leadership_term_id: int
    heartbeat_timeout_ns: int

    def append(self, record: bytes) -> bool:
        """Append a record to the log. Returns False when there is no room now."""

    @property
    def ingress_endpoints(self) -> str: ...


@dataclass(slots=True)
class ClusterSession:
    """A session, with the fields of its SessionOpenEvent.

    Fields below the line belong to this leadership and are never replicated.
    """

    id: int
    correlation_id: int
    opened_log_position: int
    response_stream_id: int
    response_channel: str
    encoded_principal: bytes = b""

    counter: ClientCounter | None = field(default=None, compare=False)
    publication: Publication | None = None
    events: deque[bytes] = field(default_factory=deque)
    ingress_image: Image | None = None
    close_reason: CloseReason | None = None
    close_detail: str = ""
    close_appended: bool = False


def session_event(
    leadership: Leadership, session_id: int, correlation_id: int, code: EventCode, detail: str, leader_id: int
) -> bytes:
    """Return an encoded SessionEvent from this member.

    Clients wait for a new leader twice as long as the heartbeat timeout they are told; a short one would make them give
    up in an election that takes a second vote.
    """
    return codecs.SESSION_EVENT.encode(
        cluster_session_id=session_id,
        correlation_id=correlation_id,
        leadership_term_id=leadership.leadership_term_id,
        leader_member_id=leader_id,
        code=code,
        version=codecs.CLIENT_PROTOCOL_VERSION,
        leader_heartbeat_timeout_ns=max(leadership.heartbeat_timeout_ns, TOLD_HEARTBEAT_TIMEOUT_NS_MIN),
        detail=detail,
    )


def _sequenced(leadership_term_id: int, session_id: int, number: int, log_position: int) -> bytes:
    return ordo_codecs.MESSAGES_MARKED.encode(
        leadership_term_id=leadership_term_id,
        cluster_session_id=session_id,
        timestamp=0,
        number=number,
        known_number=0,
        log_position=log_position,
        level=ordo_codecs.AcknowledgementLevel.SEQUENCED,
        previous=ordo_codecs.PreviousSession.NONE,
        gaps=b"",
    )


class OpenSessions:
    """Every open session. `execute_*` follow the committed log on every member; the rest is for the leader.

    The native `table` holds the sessions whose messages the leader takes, with the time of their last activity.
    """

    def __init__(
        self,
        client: TransportClient,
        table: SessionTable,
        session_timeout: int,
        rights_of: Callable[[bytes], Right] = lambda principal: EVERYTHING,
        speaks_for: Callable[[bytes, str], bool] = lambda principal, key_name: True,
        on_bound: Callable[[Image], object] = lambda image: None,
    ) -> None:
        """Take the member's parts.

        `session_timeout` is in cluster time units; `rights_of` returns the rights of a principal.

        `on_bound` takes each image that a session's client speaks through.
        """
        self._client = client
        self._rights_of = rights_of
        self._speaks_for = speaks_for
        self._on_bound = on_bound
        self._table = table
        self.session_timeout = session_timeout
        self._sessions: dict[int, ClusterSession] = {}
        self._closed: list[ClusterSession] = []
        self._told: dict[int, ClusterSession] = {}
        """Sessions with events that wait."""
        self._unconnected: deque[ClusterSession] = deque()
        """Sessions that a new leader has not contacted yet."""
        self._closing: dict[int, ClusterSession] = {}
        """Sessions whose SessionCloseEvent is to be appended."""
        self._marks: dict[int, tuple[int, int]] = {}
        """Keyed by session: the number and position of a mark that is not committed yet."""
        self._asked: PendingRegistrations[ClusterSession] = PendingRegistrations(client)
        self._counters: PendingRegistrations[ClusterSession] = PendingRegistrations(client)
        self._by_image: dict[Image, dict[int, ClusterSession]] = {}
        """Keyed by ingress image: the sessions whose client sends on it."""
        self._announcement = ""
        """What a session that this leader has not opened is told first; empty while this member does not lead."""
        self._of_host: Counter[str] = Counter()
        self._of_principal: Counter[bytes] = Counter()
        self.next_session_id = 1

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[ClusterSession]:
        return iter(sorted(self._sessions.values(), key=lambda session: session.id))

    def count_of_host(self, host: str) -> int:
        """Return how many open sessions a host has opened, by `opener_host` of their channels."""
        return self._of_host[host]

    def count_of_principal(self, encoded_principal: bytes) -> int:
        """Return how many open sessions a principal has."""
        return self._of_principal[encoded_principal]

    def _count(self, session: ClusterSession, change: int) -> None:
        host = opener_host(session.response_channel)
        self._of_host[host] += change
        if not self._of_host[host]:
            del self._of_host[host]
        principal = session.encoded_principal
        self._of_principal[principal] += change
        if not self._of_principal[principal]:
            del self._of_principal[principal]

    def get(self, session_id: int) -> ClusterSession | None:
        return self._sessions.get(session_id)

    def may(self, session_id: int, right: Right) -> bool:
        """Return whether an open session's principal has a right."""
        session = self._sessions.get(session_id)
        return session is not None and right in self._rights_of(session.encoded_principal)

    # -- the committed log

    def execute_open(self, event: records.SessionOpenEvent, log_position: int) -> ClusterSession:
        session = ClusterSession(
            event.cluster_session_id,
            event.correlation_id,
            log_position,
            event.response_stream_id,
            event.response_channel,
            event.encoded_principal,
        )
        self.restore(session)
        return session

    def execute_close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        self._table.remove(session_id)
        self._told.pop(session_id, None)
        self._closing.pop(session_id, None)
        if session is None:
            return
        self._count(session, -1)
        self._bind(session, None)
        if session.counter is not None:
            session.counter.close()
        if session.publication is not None:
            self._closed.append(session)

    def restore(self, session: ClusterSession) -> None:
        """Add a session of a snapshot, or one just opened; it gets its counter later (`take_counters`).

        The counter is for tools only: a session without one is open all the same, as it is on the other members.
        """
        if (known := self._sessions.get(session.id)) is not None:
            self._count(known, -1)
        self._sessions[session.id] = session
        self._count(session, 1)
        label = f"cluster-session: sessionId={session.id} channel={session.response_channel}"[:LABEL_LENGTH_MAX]
        key = struct.pack("<iq", 0, session.id)
        with suppress(RegistrationError):
            self._counters.add(self._client.async_add_counter(int(CounterType.SESSION), label, key), session)
        self.next_session_id = max(self.next_session_id, session.id + 1)

    def take_counters(self) -> None:
        """Take the counters that the driver has created; close a counter whose session is over."""
        for session, counter, error in self._counters.take():
            if error is not None:
                continue
            if self._sessions.get(session.id) is session:
                session.counter = counter
                counter.set(session.id)
            else:
                counter.close()

    def release_unwanted(self) -> None:
        """Close publications to clients that this member asked for while it led, and received after that."""
        if not self._announcement:
            for _, publication, error in self._asked.take():
                if error is None:
                    publication.close()

    # -- the leader

    def lead(self, leadership: Leadership, cluster_time: int, message_bytes_max: int) -> None:
        """Reach every session from this new leader: an OK event, then the NewLeaderEvent, until each is sent.

        The OK event says that it is an announcement: a client that has heard nothing of its session yet must not go on
        with the publication that it was asked for on, which this process may not have heard from its beginning.

        A few at a time: a leader that made thousands of publications at once would miss heartbeats and be replaced.
        """
        self._announcement = encode_announcement(message_bytes_max)
        for session in self:
            self._take_messages(session, cluster_time)
            session.close_reason = None
            session.close_appended = False
            self._unconnected.append(session)
        self._connect_some(leadership)

    def _announce(self, session: ClusterSession, leadership: Leadership) -> None:
        member_id, term_id = leadership.member_id, leadership.leadership_term_id
        detail, correlation_id = self._announcement, session.correlation_id
        self.tell(session, session_event(leadership, session.id, correlation_id, EventCode.OK, detail, member_id))
        self.tell(
            session,
            codecs.NEW_LEADER_EVENT.encode(
                leadership_term_id=term_id,
                cluster_session_id=session.id,
                leader_member_id=member_id,
                ingress_endpoints=leadership.ingress_endpoints,
            ),
        )

    def lose_leadership(self) -> None:
        self._announcement = ""
        self._table.clear()
        for session in [*self._sessions.values(), *self._closed]:
            session.events.clear()
            self._bind(session, None)
            session.close_reason = None
            session.close_appended = False
            self._disconnect(session)
        self._closed.clear()
        self._told.clear()
        self._closing.clear()
        self._marks.clear()
        self._unconnected.clear()

    def admit(self, session: ClusterSession, publication: Publication | None, image: Image, cluster_time: int) -> None:
        """Let a client in: the session's open event, appended by this leader, has been committed."""
        session.publication = publication
        self._bind(session, image)
        self._take_messages(session, cluster_time)
        self._table.claim(session.id, image)
        if image.is_closed:  # it ended while the record was on its way, and nobody will speak for the session
            self.close(session.id, CloseReason.TIMEOUT)

    def _bind(self, session: ClusterSession, image: Image | None) -> None:
        """Note the image that the session's client speaks through."""
        if session.ingress_image is image:
            return
        if session.ingress_image is not None:
            others = self._by_image[session.ingress_image]
            del others[session.id]
            if not others:
                del self._by_image[session.ingress_image]
        session.ingress_image = image
        if image is not None:
            self._by_image.setdefault(image, {})[session.id] = session
            self._on_bound(image)

    def _take_messages(self, session: ClusterSession, cluster_time: int) -> None:
        self._table.put(session.id, cluster_time)
        if not self.may(session.id, Right.INGRESS):
            self._table.mute(session.id)

    def is_owner(self, session_id: int, image: Image) -> bool:
        """Return whether messages on this image may act for the session.

        It is the one that the session was opened on, or spoke first after a change of the leader. Another of the same
        host is the client's that had to connect again.
        """
        if not self.may_claim(session_id, image):
            return False
        if self._table.is_owner(session_id, image):
            return True
        session = self._sessions.get(session_id)
        if session is None:
            return False
        if session.ingress_image is None:
            return not self.may(session_id, Right.INGRESS)  # it claims nothing in the table
        known, claimed = session.ingress_image.source_identity, image.source_identity
        return host_of(known) == host_of(claimed) and key_name_of(known) == key_name_of(claimed)

    def may_claim(self, session_id: int, image: Image) -> bool:
        """Return whether an image may be the one that a session's client sends on.

        It comes from where the session was opened, and its key, if it has one, speaks for the session's principal.
        """
        session = self._sessions.get(session_id)
        if session is None or not is_from_opener(session.response_channel, image.source_identity):
            return False
        return self._speaks_for(session.encoded_principal, key_name_of(image.source_identity))

    def may_ask(self, session_id: int, image: Image) -> bool:
        """Return whether queries of the session are taken from this image.

        Only that of its messages, whatever its host.
        """
        session = self._sessions.get(session_id)
        if session is not None and not self.may_claim(session_id, image):
            return False
        if session is None or session.ingress_image is image or self._table.is_owner(session_id, image):
            return session is not None
        return session.ingress_image is None and not self.may(session_id, Right.INGRESS)

    def admits_command(self, image: Image, message: bytes) -> bool:
        """Return whether a session may send this ConsumerCommand; otherwise it is told why."""
        try:
            values = ordo_codecs.CONSUMER_COMMAND.decode(message)
        except DecodeError:
            return False
        session = self._sessions.get(values.cluster_session_id)
        if session is None or not self.may_ask(session.id, image):
            return False
        wanted = Right.ADMINISTRATION if values.kind in ADMINISTRATION else Right.CONSUMERS
        if self.may(session.id, wanted):
            return True
        if len(session.events) < EVENTS_MAX:
            text = f"this client's roles do not include {(wanted.name or '').lower()!r}, which this needs"
            answer = text_answer(values, ConsumerStatus.NOT_ALLOWED, text)
            self.tell(session, encode_answer(answer, values.leadership_term_id, session.id))
        return False

    def admits_output(self, image: Image, session_id: int) -> bool:
        """Return whether a session may write outputs for other sessions, to which they are sent.

        If not, it is closed.
        """
        if self.may(session_id, Right.CONSUMERS):
            return True
        if self.may_ask(session_id, image):
            text = "this client's roles do not include 'consumers', which outputs for other clients need"
            self.close(session_id, CloseReason.SERVICE_ACTION, text)
        return False

    def keep_alive(self, session_id: int, image: Image, cluster_time: int) -> None:
        session = self._sessions.get(session_id)
        if session is not None and session.close_reason is None:
            self._table.put(session_id, cluster_time)
            self._table.claim(session_id, image)
            self._bind(session, image)

    def close(self, session_id: int, reason: CloseReason, detail: str = "") -> None:
        """Close a session: take no more of its messages; `work` appends the SessionCloseEvent.

        `detail` tells the client more than the reason.
        """
        session = self._sessions.get(session_id)
        if session is None or session.close_reason is not None:
            return
        session.close_reason, session.close_detail = reason, detail
        self._closing[session_id] = session
        self._table.remove(session_id)
        if reason is CloseReason.CLIENT_ACTION:
            self._disconnect(session)

    def on_admin_request(self, request: records.AdminRequest, ask_snapshot: Callable[[], bool] | None) -> None:
        """Queue the response to an AdminRequest.

        `ask_snapshot` is None when admin requests are not authorised. A client whose responses pile up gets no more.
        """
        session = self._sessions.get(request.cluster_session_id)
        if session is None or session.close_reason is not None or len(session.events) >= EVENTS_MAX:
            return
        code, message = codecs.AdminResponseCode.UNAUTHORISED_ACCESS, "admin requests are not allowed"
        if ask_snapshot is not None and request.request_type != codecs.AdminRequestType.SNAPSHOT:
            code, message = codecs.AdminResponseCode.ERROR, f"unknown request type {request.request_type}"
        elif ask_snapshot is not None:
            accepted = ask_snapshot()
            code = codecs.AdminResponseCode.OK if accepted else codecs.AdminResponseCode.ERROR
            message = "" if accepted else "the cluster is busy with another action"
        self.tell(
            session,
            codecs.ADMIN_RESPONSE.encode(
                cluster_session_id=session.id,
                correlation_id=request.correlation_id,
                request_type=request.request_type,
                response_code=code,
                message=message,
                payload=b"",
            ),
        )

    def image_gone(self, image: Image) -> None:
        """End the sessions of a client whose ingress ended, since messages may be lost."""
        for session_id in list(self._by_image.get(image, ())):
            self.close(session_id, CloseReason.TIMEOUT)

    def touch(self, cluster_time: int) -> None:
        """Restart the timeout of every session, because the member could not listen for a while."""
        for session in self._sessions.values():
            if session.close_reason is None:
                self._table.put(session.id, cluster_time)

    def touch_stream(self, session_id: int, cluster_time: int) -> None:
        """Restart the timeout of a session, and of all others whose clients speak through the same stream."""
        session = self._sessions.get(session_id)
        others = {} if session is None or session.ingress_image is None else self._by_image[session.ingress_image]
        for one in {session_id, *others}:
            if self._table.get_activity(one) is not None:
                self._table.put(one, cluster_time)

    def work(self, leadership: Leadership, cluster_time: int) -> int:
        """Handle timeouts and append close records; return the number of sessions timed out."""
        silent = self._table.find_silent(cluster_time - self.session_timeout)
        for session_id in silent:
            self.close(session_id, CloseReason.TIMEOUT)
        for session in list(self._closing.values()):
            self._append_close(leadership, session, cluster_time)
            if session.close_appended:
                del self._closing[session.id]
        return len(silent)

    def tell(self, session: ClusterSession, event: bytes) -> None:
        """Queue a message to a session's client."""
        session.events.append(event)
        self._told[session.id] = session

    def tell_now(self, session: ClusterSession, message: bytes) -> bool:
        """Send a message to a session's client at once, if there is room.

        False: the client does not read, and gets no more.
        """
        if session.close_reason is not None or len(session.events) >= EVENTS_MAX:
            return False
        self.tell(session, message)
        self._send_events(session)
        return True

    def notify(self, leadership: Leadership, session: ClusterSession, detail: str) -> None:
        """Queue an event about an open session. A client whose events pile up gets no more."""
        if session.close_reason is None and len(session.events) < EVENTS_MAX:
            own_id = leadership.member_id
            self.tell(
                session, session_event(leadership, session.id, session.correlation_id, EventCode.OK, detail, own_id)
            )

    def notify_now(self, leadership: Leadership, session: ClusterSession, detail: str) -> None:
        """Send an event about an open session at once, if there is room."""
        own_id = leadership.member_id
        self.tell_now(
            session, session_event(leadership, session.id, session.correlation_id, EventCode.OK, detail, own_id)
        )

    def note_mark(self, session_id: int, number: int, position: int) -> None:
        """Note that a client has marked which message comes next; it is told when that is committed."""
        self._marks[session_id] = number, position

    def _tell_marks(self, leadership: Leadership, commit_position: int) -> None:
        committed = [session_id for session_id, mark in self._marks.items() if mark[1] <= commit_position]
        for session_id in committed:
            number, position = self._marks.pop(session_id)
            session = self._sessions.get(session_id)
            if session is not None and len(session.events) < EVENTS_MAX:
                self.tell(session, _sequenced(leadership.leadership_term_id, session_id, number, position))

    def send(self, leadership: Leadership, commit_position: int) -> None:
        """Send queued events to sessions that are open or were closed just now."""
        self._connect_some(leadership)
        self._tell_marks(leadership, commit_position)
        for session in list(self._told.values()):
            self._send_events(session)
            if not session.events:
                del self._told[session.id]
        self._closed = [session for session in self._closed if not self._finished(session)]

    def _append_close(self, leadership: Leadership, session: ClusterSession, cluster_time: int) -> None:
        assert session.close_reason is not None
        session.close_appended = leadership.append(
            codecs.SESSION_CLOSE_EVENT.encode(
                leadership_term_id=leadership.leadership_term_id,
                cluster_session_id=session.id,
                timestamp=cluster_time,
                close_reason=session.close_reason,
            )
        )
        if session.close_appended and session.close_reason is not CloseReason.CLIENT_ACTION:
            detail = session.close_detail or session.close_reason.name
            self.tell(
                session,
                session_event(
                    leadership, session.id, session.correlation_id, EventCode.CLOSED, detail, leadership.member_id
                ),
            )

    def _send_events(self, session: ClusterSession) -> None:
        publication = session.publication
        while session.events and publication is not None and publication.offer(session.events[0]) > 0:
            session.events.popleft()

    def _finished(self, session: ClusterSession) -> bool:
        self._send_events(session)
        if session.events and session.publication is not None and session.publication.is_connected:
            return False
        self._disconnect(session)
        return True

    def _connect_some(self, leadership: Leadership) -> None:
        room = min(CONNECTS_PER_TICK, CONNECTING_MAX - len(self._asked), len(self._unconnected))
        for _ in range(room):
            session = self._unconnected.popleft()
            if self._sessions.get(session.id) is session and session.publication is None:
                self._announce(session, leadership)
                self._connect(session)
        if self._asked:
            self._client.invoke_driver()
            self._take_asked()

    def _connect(self, session: ClusterSession) -> None:
        with suppress(OrdoError):
            registration_id = self._client.async_add_publication(session.response_channel, session.response_stream_id)
            self._asked.add(registration_id, session)

    def _take_asked(self) -> None:
        """Take the publications that the driver has created; close one whose session or leadership is over."""
        for session, publication, error in self._asked.take():
            if error is not None:
                continue
            if self._sessions.get(session.id) is session and session.publication is None:
                session.publication = publication
            else:
                publication.close()

    @staticmethod
    def _disconnect(session: ClusterSession) -> None:
        if session.publication is not None:
            session.publication.close()
            session.publication = None
