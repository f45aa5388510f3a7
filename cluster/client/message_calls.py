"""The calls of a cluster client that send messages and make requests (docs/CLIENT.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ordo.cluster.client.acknowledgements import LEVELS, Acknowledged, Acknowledgements, HandedOver, Unsequenced
from ordo.cluster.client.connection.endpoints import archive_endpoint
from ordo.cluster.client.request_calls import RequestCalls, RequestRun
from ordo.cluster.client.requests.journal import Journal, JournalFile
from ordo.cluster.client.requests.relay import RelayedRequests
from ordo.cluster.client.requests.request_window import Answer, PendingRequest
from ordo.cluster.client.requests.requests import ClientRequests
from ordo.cluster.client.session_states import ClientState
from ordo.cluster.client.settings import ClientSettings, to_ns
from ordo.cluster.wire import codecs
from ordo.cluster.wire.log_identity import identity_text, told_beginning, told_log, told_past
from ordo.runtime.errors import (
    ClusterError,
    ClusterTimeoutError,
    ConfigurationError,
    OrdoError,
    RequestOutcome,
)
from ordo.service_api.messages.request import Request, to_request
from ordo.service_api.service import OfferResult

if TYPE_CHECKING:
    from ordo.cluster.client.connection.connect import SessionConnect
    from ordo.cluster.client.connection.loop import ClientLoop
    from ordo.cluster.client.current_session import CurrentSession
    from ordo.cluster.wire import records
    from ordo.cluster.wire.known_cluster import KnownCluster
    from ordo.follow.topics.feeds import FeedReader, FeedStart
    from ordo.service_api.service import Payload
    from ordo.transport.client.client_transport import ClientTransport

A = TypeVar("A")
TICK_INTERVAL_NS = 1_000_000
UNHEARD_NS = 1_000_000_000
SEND_PARK_NS = 100_000


class ClientCalls(RequestCalls):
    """The calls that an application makes on its client; the client itself keeps the session."""

    settings: ClientSettings
    known_cluster: KnownCluster
    """The cluster whose sessions this client has: another one, at addresses that it has now, is refused."""
    _attempts: Mapping[int, int]
    _loop: ClientLoop
    _current: CurrentSession
    _transport: ClientTransport
    _requests: ClientRequests | None
    _relay: RelayedRequests | None
    _acknowledgements: Acknowledgements | None
    offer: Callable[[Payload], int]
    offer_many: Callable[[Iterable[Payload]], int]
    """`offer_many(payloads)` sends messages in order, in one go, never blocks, and returns how many were taken.

    Fewer than all when there is no room, or no leader to send to: poll, and offer the rest. Raises ClusterError for a
    message that is too long and SessionClosedError when the session is over; the messages before it were taken.
    """

    # The session, which the client alone changes

    @property
    def state(self) -> ClientState:
        """The stage of the session."""
        return self._current.state

    @property
    def session_id(self) -> int:
        """The id of the session with the cluster; -1 while there is none."""
        return self._current.session_id

    @property
    def leadership_term_id(self) -> int:
        """The leadership term that the session is in; -1 while none is known."""
        return self._current.leadership_term_id

    @property
    def leader_member_id(self) -> int:
        """The id of the member that leads; -1 while none is known."""
        return self._current.leader_member_id

    @property
    def ingress_endpoints(self) -> dict[int, str]:
        """The endpoints of the members, by their ids."""
        return self._current.ingress_endpoints

    @property
    def ingress_trouble(self) -> str:
        """Why the leader takes no messages for now, or fewer than are sent; empty: it takes all."""
        return self._current.ingress_trouble

    # The client's

    def poll(self, limit: int = ...) -> int:
        raise NotImplementedError

    @property
    def is_closed(self) -> bool:
        raise NotImplementedError

    def _park(self, timeout_ns: int) -> None:
        raise NotImplementedError

    def _drive(self) -> int:
        raise NotImplementedError

    def _become_closed(self, reason: str) -> None:
        raise NotImplementedError

    def _closed_error(self) -> ClusterError:
        raise NotImplementedError

    def _work_at_polls(self) -> None:
        """Request or tracked messages need work at every poll from now on."""
        raise NotImplementedError

    def _begin_acknowledging(self) -> None:
        """Prepare for messages that are tracked."""
        raise NotImplementedError

    # Messages

    def send(self, payload: Payload, *, timeout_s: float | None = None, until: str = "") -> HandedOver:
        """Offer a message until it is taken, polling meanwhile, and return its position.

        A change of the leader does not end the wait.

        That the message was taken does not say that the log has it. With `until` "sequenced" this waits until it is in
        the log, on a quorum; with "executed", until the leader's service has executed it.
        Raises ClusterTimeoutError after `timeout_s` (default: message_timeout_s), SessionClosedError when the session
        is over, ClusterError for a message that is too long; with `until` NotSequencedError when the message is lost.
        """
        if until:
            return self._send_until(payload, until, timeout_s)
        result = self._loop.send(payload)
        if result == 0:
            self.poll()  # this process was stopped for a while: what was true before may no longer hold
            result = self._loop.send(payload)
        if result < 0:
            result = self._send_slowly(payload, timeout_s)
            self._loop.flush()
        return HandedOver(result, self.last_number)

    def _send_slowly(self, payload: Payload, timeout_s: float | None) -> int:
        deadline_ns = self._end_ns(timeout_s)
        while (result := self.offer(payload)) < 0:
            if result == OfferResult.MESSAGE_TOO_LONG:
                text = f"not sent: {self._describe_too_long(payload)}"
                raise ClusterError(text, outcome=RequestOutcome.NOT_EXECUTED)
            if self._transport.clock.now() > deadline_ns:
                why = f"result={OfferResult(result).name} state={self.state.name}"
                text = f"message not taken in time, so not sent: {why} {self.ingress_trouble}".rstrip()
                raise ClusterTimeoutError(text, outcome=RequestOutcome.NOT_EXECUTED)
            if self.poll() == 0:
                self._park(SEND_PARK_NS)
        return result

    def _describe_too_long(self, payload: Payload) -> str:
        """Return what to say when `offer` returned MESSAGE_TOO_LONG, with settings that would allow the message."""
        return self._loop.describe_too_long("message", payload)

    def _send_until(self, payload: Payload, level: str, timeout_s: float | None) -> HandedOver:
        if self._loop.is_in_callback:
            raise ClusterError("a message is waited for, which no callback can do: use send without `until` there")
        deadline_ns = self._end_ns(timeout_s)
        tracked = self.demand_acknowledgements(level)
        handed_over = self.send(payload, timeout_s=timeout_s)
        number = handed_over.number
        tracked.watch(number)
        try:
            self._poll_until(
                lambda: tracked.has_reached(number, level),
                deadline_ns,
                lambda: ClusterTimeoutError(
                    f"message handed over, and not known to be {level} in time: unknown whether it will be",
                    outcome=RequestOutcome.UNKNOWN,
                ),
            )
        finally:
            tracked.forget(handed_over.number)
        return handed_over

    def demand_acknowledgements(self, level: str) -> Acknowledgements:
        """Have the client track its messages from now on, for a call that waits for a level."""
        if level not in LEVELS:
            raise ConfigurationError(f"until={level!r}: must be one of {', '.join(LEVELS)}")
        if self._acknowledgements is None:
            self._track_messages(None, None)
            self._begin_acknowledging()
        assert self._acknowledgements is not None
        return self._acknowledgements

    def _track_messages(
        self,
        on_acknowledged: Callable[[Acknowledged], object] | None,
        on_unsequenced: Callable[[Unsequenced], object] | None,
    ) -> None:
        settings = self.settings
        self._work_at_polls()
        self._acknowledgements = Acknowledgements(
            self._current,
            self._loop,
            interval_ns=to_ns(settings.acknowledge_interval_s),
            patience_ns=to_ns(settings.connect_timeout_s),
            kept_bytes_max=settings.unsequenced_bytes_max,
            on_acknowledged=on_acknowledged,
            on_unsequenced=on_unsequenced,
        )

    def await_sequenced(self, *, timeout_s: float | None = None) -> None:
        """Poll until it is known of everything that was handed over whether the log has it: the rest was given back.

        For a client that tracks its messages; before it is closed, for example. Raises ClusterTimeoutError.
        """
        self._poll_until(
            lambda: self.is_all_known,
            self._end_ns(timeout_s),
            lambda: ClusterTimeoutError(
                "messages handed over, and not known to be sequenced in time: unknown whether they will be",
                outcome=RequestOutcome.UNKNOWN,
            ),
        )

    @property
    def is_all_known(self) -> bool:
        """True when it is known of every message whether the log has it."""
        return self._acknowledgements is None or self._acknowledgements.is_complete

    @property
    def last_number(self) -> int:
        """The number of the newest message; 0 while the client does not track them."""
        return 0 if self._acknowledgements is None else self._acknowledgements.next_number - 1

    @property
    def sequenced(self) -> Acknowledged | None:
        """How far messages are in the log; None while the client does not track them."""
        return None if self._acknowledgements is None else self._acknowledgements.sequenced

    @property
    def executed(self) -> Acknowledged | None:
        """How far messages are executed by the leader's service; None while the client does not track them."""
        return None if self._acknowledgements is None else self._acknowledgements.executed

    @property
    def sequenced_position(self) -> int:
        """A log position at or above every message up to `sequenced.number`; -1 before the first."""
        return -1 if self._acknowledgements is None else self._acknowledgements.sequenced.log_position

    # Requests

    @overload
    def request(self, payload: Payload, *, timeout_s: float | None = ..., id: bytes | None = ...) -> Answer: ...
    @overload
    def request(self, payload: Request[A], *, timeout_s: float | None = ..., id: bytes | None = ...) -> A: ...

    def request(
        self, payload: Payload | Request[object], *, timeout_s: float | None = None, id: bytes | None = None
    ) -> object:
        """Have the service execute a message once, and return its answer; poll until it is there.

        A message that is a Request[Ack] is answered by an Ack, and bytes by an Answer, which has bytes.

        It is sent again by itself, through changes of the leader and new sessions. `id`: of the caller's choice, from 1
        to 64 bytes; a request with the same id, of whichever client, process or machine with the same principal, is
        executed once, and gets the answer of the first one. Each error has an `outcome`: "executed", "not executed" or
        "unknown".

        Raises RejectedError with the service's reason; ClusterTimeoutError after `timeout_s` (default:
        message_timeout_s), when the request goes on and may still be executed, once: wait for it with
        `error.pending.result()`; another call would be another request, unless it has the same `id`. RequestIdError
        where the id was used for another payload; AnswerTooLongError and AnswerForgottenError where it was executed;
        IdentityError when the cluster does not know the client any more; ClusterError for a payload that is too long;
        MessageError for a message that cannot be sent, or was executed and is answered by something else than it says.
        """
        if self._loop.is_in_callback:
            raise ClusterError(
                "not executed: a request waits for its answer, which no callback can: use submit there",
                outcome=RequestOutcome.NOT_EXECUTED,
            )
        seconds = self.settings.seconds(timeout_s, RequestOutcome.NOT_EXECUTED)
        return self.submit(payload, id=id).result(seconds)

    @overload
    def submit(
        self,
        payload: Payload,
        *,
        on_done: Callable[[PendingRequest], object] | None = ...,
        id: bytes | None = ...,
    ) -> PendingRequest: ...
    @overload
    def submit(
        self,
        payload: Request[A],
        *,
        on_done: Callable[[PendingRequest[A]], object] | None = ...,
        id: bytes | None = ...,
    ) -> PendingRequest[A]: ...

    def submit(
        self,
        payload: Payload | Request[object],
        *,
        on_done: Callable[..., object] | None = None,
        id: bytes | None = None,
    ) -> PendingRequest[object]:
        """Send a request without waiting for its answer. `poll` sends it, sends it again, and calls `on_done`.

        With `outstanding_requests_max` under way it polls until there is room. Raises as `request`.
        """
        request, read = to_request(payload)
        requests = self._open_requests()
        if not requests.has_room:
            self._await_room()
        return requests.submit(request, on_done, id, read)

    def _take_request(
        self, payload: Payload | Request[object], on_done: Callable[..., object], id: bytes | None
    ) -> PendingRequest[object]:
        """Take a request as `submit` does, where there is room: the next `poll` sends all that were taken together."""
        request, read = to_request(payload)
        return self._open_requests().take(request, on_done, id, read)

    @property
    def _has_request_room(self) -> bool:
        """Whether fewer requests are under way than may be."""
        return self._requests is None or self._requests.has_room

    def _open_requests(self) -> ClientRequests:
        self._transport.use.check()
        if self._loop.is_ended:
            raise self._closed_error().for_request(RequestOutcome.NOT_EXECUTED)
        if self._requests is None:
            if self.is_closed:
                raise self._closed_error().for_request(RequestOutcome.NOT_EXECUTED)
            if self._relay is not None:
                raise ClusterError(
                    "not executed: a client that relays requests has none of its own: make another client",
                    outcome=RequestOutcome.NOT_EXECUTED,
                )
            self._requests = self._make_requests(None)
        return self._requests

    def subscribe(
        self,
        topic: str,
        *,
        from_position: FeedStart = "live",
        from_sequence: int | None = None,
        archives: Sequence[str] = (),
    ) -> FeedReader:
        """Read what the service publishes to a topic: from now on, from a position of the log, or from a number.

        It does not need the session, and keeps itself: iterate over it, or call its `poll`, and close it. Followers are
        asked first. `archives`: where members serve their archives, if not at the last of their five ports in a row.
        Raises ConfigurationError.
        """
        from ordo.follow.topics.feeds import FeedReader  # with the archive's client, which few clients need

        known = self.known_cluster
        return FeedReader(
            list(archives) or self._archive_endpoints(),
            topic,
            from_position=from_position,
            from_sequence=from_sequence,
            credentials=self.settings.credentials,
            key_file=self.settings.key_file,
            trusted_file=self.settings.trusted_file,
            cluster=None if known.origin is None else identity_text(known.origin),
        )

    def _archive_endpoints(self) -> list[str]:
        """Return the archive endpoints of all members, the leader's last; each session begins with another one."""
        ids = [one for one in sorted(self.ingress_endpoints) if one != self.leader_member_id]
        start = self.session_id % len(ids) if ids else 0
        ordered = [*ids[start:], *ids[:start], *(one for one in self.ingress_endpoints if one == self.leader_member_id)]
        endpoints = [self.ingress_endpoints[one] for one in ordered]
        if not all(endpoints):
            raise ConfigurationError(
                "archives: give the archive endpoints of the members; IPC and multicast do not tell them"
            )
        return [archive_endpoint(one) for one in endpoints]

    @property
    def identity(self) -> bytes:
        """The 16 bytes that name this client to the service in its requests; empty before the first one."""
        return b"" if self._requests is None else self._requests.identity

    @property
    def recovered_requests(self) -> list[PendingRequest]:
        """The requests that an earlier process left unanswered in the journal, in order.

        They are under way again; an answer that the earlier process has seen may come once more.
        """
        return [] if self._requests is None else self._requests.recovered

    def _fail_requests(self, error: OrdoError) -> None:
        """End the requests under way with an error that has ended this client; those of a journal stay in it."""
        if self._requests is not None:
            self._requests.fail(error)

    @property
    def pending_requests(self) -> list[PendingRequest[Any]]:
        """The unanswered requests, in their order; each can still be waited for with its `result`."""
        return [] if self._requests is None else self._requests.under_way

    @property
    def outstanding_requests(self) -> int:
        """The number of requests that are not answered."""
        return 0 if self._requests is None else len(self._requests)

    @property
    def has_unsent_requests(self) -> bool:
        """Whether requests wait for room in the ingress, for a leader, or for the identity to be opened."""
        return self._requests is not None and self._requests.has_unsent

    @property
    def request_trouble(self) -> str:
        """The reason why requests are not being answered, as far as this client knows; empty when nothing is wrong."""
        return "" if self._requests is None else self._requests.trouble

    def _take_relay(self) -> RelayedRequests:
        if self._relay is None:
            if self._requests is not None:
                raise ClusterError("a client that makes requests relays none: make another client")
            self._relay = RelayedRequests(
                self._current, retry_interval_ns=to_ns(self.settings.request_retry_interval_s)
            )
            self._loop.set_on_answer(self._relay.on_answer)
            self._work_at_polls()
        return self._relay

    def _demand_known_cluster(self, connect: SessionConnect) -> None:
        """Give up a session of another cluster than the one that is known. Raises OtherClusterError."""
        opened = connect.opened
        address = connect.endpoints.get(connect.member_id) or self._current.publications.channel
        if self._is_known_cluster(connect.told, address):
            return
        publication = self._current.publications.get(connect.member_id)
        if publication is not None:
            ids = {"leadership_term_id": opened.leadership_term_id, "cluster_session_id": opened.cluster_session_id}
            publication.offer(codecs.SESSION_CLOSE_REQUEST.encode(**ids))
        self._become_closed(str(self.known_cluster.error))
        self.known_cluster.check()

    def _learn_cluster(self, told: records.LogIdentity) -> None:
        """Take what the leader could not say yet when it opened the session: which cluster it is of."""
        if told.session_id == self.session_id and told.correlation_id in self._attempts:
            address = self._current.leader_endpoint or self._current.publications.channel
            if not self._is_known_cluster(told, address):
                self._become_closed(str(self.known_cluster.error))

    def _note_answered(self) -> None:
        """Note up to where this client knows the log of its cluster, by the answers that it has; a journal keeps it."""
        known = self.known_cluster
        if known.origin is not None and self._loop.answered_position > known.position:
            known.position = self._loop.answered_position
            if self._requests is not None:
                self._requests.note_cluster(known)

    def _is_known_cluster(self, values: records.LogIdentity | None, address: str) -> bool:
        """Note the cluster that a leader says it is of; return False if it is another one than this client knows."""
        known, beginning = self.known_cluster, told_beginning(values)
        if beginning is not None:
            return known.admits_beginning(beginning, address)
        told = told_log(values)
        self._note_answered()
        if not known.admits(told, address, told_past(values)):
            if self._requests is not None and known.error is not None:
                known.error = self._requests.tell_lost(known.error)
            return False
        known.adopt(told, address)
        known.position = max(known.position, 0 if told is None else told.executed_position)
        if self._requests is not None:
            self._requests.note_cluster(known)
        return True

    def _make_requests(self, journal: Journal | None) -> ClientRequests:
        settings = self.settings
        if journal is None and settings.journal:
            journal = Journal(JournalFile(settings.journal), settings.identity, synced=settings.journal_sync)
        draws = self._transport.random.stream("requests")
        make: Callable[..., ClientRequests] = ClientRequests
        if settings.tracing is not None:
            from ordo.cluster.client.requests.traced_requests import TracedRequests

            make = partial(TracedRequests, tracing=settings.tracing, epoch_ns=self._transport.clock.epoch_ns)
        requests = make(
            self._current,
            identity=settings.identity or draws.randbytes(16),
            incarnation=draws.getrandbits(63),
            retry_interval_ns=to_ns(settings.request_retry_interval_s),
            outstanding_max=settings.outstanding_requests_max,
            journal=journal,
            wait=self._await_request,
        )
        self.known_cluster = requests.known_cluster or self.known_cluster
        self._loop.set_on_answer(requests.on_answer)
        self._work_at_polls()
        return requests

    def _await_request(self, pending: PendingRequest[object], timeout_s: float | None) -> None:
        requests = self._requests
        assert requests is not None
        if self._loop.is_in_callback:
            raise ClusterError("a request waits for its answer, which no callback can: use submit there")
        deadline_ns = self._end_ns(timeout_s)
        try:
            self._drive()
            self._poll_until(lambda: pending.is_done, deadline_ns, lambda: requests.timeout(pending))
        except OrdoError as error:
            if not pending.is_done:
                error.outcome, error.pending = RequestOutcome.UNKNOWN, pending
            raise

    def _await_room(self) -> None:
        requests = self._requests
        assert requests is not None
        if self._loop.is_in_callback:
            raise ClusterError(
                f"not executed: {len(requests)} requests are under way: see outstanding_requests_max",
                outcome=RequestOutcome.NOT_EXECUTED,
            )
        self._poll_until(
            lambda: requests.has_room,
            self._end_ns(None),
            lambda: ClusterTimeoutError(
                f"not executed: no room for a request: {requests.trouble}", outcome=RequestOutcome.NOT_EXECUTED
            ),
            park_ns=SEND_PARK_NS,
        )

    def _run_of(
        self, payloads: Iterable[Payload | Request[object]], ids: Iterable[bytes] | None, timeout_s: float | None
    ) -> RequestRun:
        if self._loop.is_in_callback:
            raise ClusterError(
                "not executed: requests wait for their answers, which no callback can: use submit there",
                outcome=RequestOutcome.NOT_EXECUTED,
            )
        timeout_ns = to_ns(self.settings.seconds(timeout_s, RequestOutcome.NOT_EXECUTED))
        return RequestRun(self._open_requests(), self, self._transport.clock, payloads, ids, timeout_ns)

    # Waiting

    def _end_ns(self, timeout_s: float | None) -> int:
        """Return the end of a call that may last this long; by default message_timeout_s."""
        return self._transport.clock.now() + to_ns(self.settings.seconds(timeout_s))

    def _poll_until(
        self,
        is_done: Callable[[], bool],
        deadline_ns: int,
        late: Callable[[], OrdoError],
        park_ns: int = TICK_INTERVAL_NS,
    ) -> None:
        """Poll until something is done; raise what `late` returns once the deadline has passed and nothing comes."""
        while not is_done():
            if self.poll() == 0 and not is_done():
                if self._transport.clock.now() > deadline_ns:
                    raise late()
                self._park(park_ns)
