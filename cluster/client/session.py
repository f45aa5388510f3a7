"""The cluster client: one session with the cluster's leader (cluster-client.md).

    CONNECTING                   opening the session; redirected to the leader where needed
    CONNECTED                    offers go to the leader
    AWAIT_NEW_LEADER             the leader is gone; waiting for the new one to say who it is
    AWAIT_NEW_LEADER_CONNECTION  connecting to it; then CONNECTED again
    CLOSED                       the session is over

    CONNECTING -> CONNECTED <-> AWAIT_NEW_LEADER -> AWAIT_NEW_LEADER_CONNECTION -> CONNECTED; any -> CLOSED

A client that stays (`ClientSettings.reconnect`) opens a new session in place of CLOSED, with the same identity.

Where messages of `send` are tracked, nothing is sent in a session or term before a mark that says where they begin
(cluster/client/acknowledgements.py).

The client has no thread: everything happens in `poll`, `send` and `offer`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ordo.cluster.client.acknowledgements import Acknowledged, Unsequenced
from ordo.cluster.client.connection.connect import SessionConnect
from ordo.cluster.client.connection.endpoints import Endpoints, EndpointSource, NamedEndpoints
from ordo.cluster.client.connection.ingress import IngressPublications, parse_endpoints
from ordo.cluster.client.connection.keeper import SessionKeeper
from ordo.cluster.client.connection.loop import ClientLoop, MessageHandler
from ordo.cluster.client.current_session import CurrentSession
from ordo.cluster.client.keep_alive import KeepAlive
from ordo.cluster.client.message_calls import TICK_INTERVAL_NS, UNHEARD_NS, ClientCalls
from ordo.cluster.client.opening import SessionOpener, choose_settings, egress_channel_of, open_transport
from ordo.cluster.client.query import ClientQueries
from ordo.cluster.client.query_calls import QueryCalls
from ordo.cluster.client.requests.journal import Journal
from ordo.cluster.client.requests.relay import RelayedRequests
from ordo.cluster.client.session_states import ClientEvent, ClientState, SessionCallbacks, answers_limited, tell_event
from ordo.cluster.client.settings import ClientSettings, to_ns
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.codecs import EventCode
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.sessions.ingress_notice import UNCHECKED_NOTICE, decode_failure, decode_held, decode_notice
from ordo.cluster.wire.sessions.message_limit import decode_message_limit, is_announcement
from ordo.cluster.wire.succession import DISMISSED
from ordo.runtime.closing import Closing
from ordo.runtime.errors import (
    ClusterError,
    ClusterTimeoutError,
    ConfigurationError,
    DecodeError,
    SessionClosedError,
    SessionRejectedError,
)
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.reporting.logging import tell
from ordo.runtime.version import VERSION
from ordo.transport.client.client_transport import RECEIVER_WINDOW_BYTES, ClientTransport
from ordo.transport.streams.image import Image

if TYPE_CHECKING:
    from ordo.cluster.wire import records
    from ordo.runtime.sbe import Message
    from ordo.service_api.service import Payload

POLL_LIMIT = 64
PARK_SLICE_NS = 100_000_000
REOPEN_PAUSE_NS = 500_000_000
"""After a cluster has refused a new session to a client that stays, or has ended one so soon."""
EVENT_CODES = frozenset(EventCode)
UNCHECKED_TEXT = (
    "nobody has looked at the credentials of this client: the cluster has no [[tokens]], and lets everybody in; make"
    " tokens with `ordo cluster new-token` and give them to every member (docs/SECURITY.md)"
)
CLIENT_INFO = "name={} version={} commit=ordo"
OnMessage = Callable[[int, int, bytes], object] | MessageHandler
OnMessages = Callable[[int, memoryview, memoryview, bytes], object]


class ServiceFailures(NamedTuple):
    """Where services have failed, and at what; empty where none has."""

    now: str = ""
    """That of the leader."""
    earlier: str = ""
    """That of the newest leader before it whose service has."""

    @property
    def newest(self) -> str:
        """What is known of any of them."""
        return self.now or self.earlier


class ClusterClient(ClientCalls, QueryCalls, Closing):
    """A client's session with a cluster.

        with ClusterClient(["10.0.0.1:20000", "10.0.0.2:20000"], "aeron:udp?endpoint=10.0.0.9:0") as client:
            print(client.request(b"40").payload)

    `ingress_endpoints`: every member's `host:port` by member id, or in any order; or what returns them, such as
    `endpoints_from_dns` and `endpoints_from_file`; empty for shared memory and for multicast. Queries to learners need
    theirs by id.
    `egress_channel` is short for the setting of that name.
    `on_message(session_id, timestamp, payload)` gets what the service sends, timestamp in cluster time; or
    `on_messages(session_id, timestamps, lengths, payloads)` gets all that one `poll` finds: sequences of ints, and one
    bytes object that holds the payloads back to back;
    `on_session_event(code, detail)` what the cluster says of the session; `on_new_leader(leadership_term_id,
    leader_member_id, endpoints)` follows a failover, when offers are taken again; `on_challenge(challenge)` answers an
    authenticator with credentials. Callbacks come from `poll` and `send`.

    `request` is executed once and answered, whatever happens. A message of `send` or `offer` that was taken may be lost
    with a leader. With `on_unsequenced(message)` or `on_acknowledged(acknowledged)` the client is told which of them
    the log has, and given back those that it has not. docs/CLIENT.md compares them.

    `aeron_dir`: the folder of a media driver that runs elsewhere; without it the client embeds one, which its own calls
    run. With `wait=False` the session opens while `poll` is called.
    Raises ClusterTimeoutError when no leader answers, SessionRejectedError when the cluster refuses.
    """

    _keeper: SessionKeeper | None = None
    _attempts: Mapping[int, int] = MappingProxyType({})
    _leader_heartbeat_timeout_ns = _opened_ns = _reopen_ns = 0
    _deadline_ns = 0
    _is_ending = _has_begun = False
    _client_info = CLIENT_INFO
    _opened_detail = ""
    """What the leader said when it opened the session."""
    _service_failure = ServiceFailures()
    offer: Callable[[Payload], int]
    """`offer(payload)` sends one message (bytes or anything with a buffer) and never blocks.

    Returns a position > 0: taken, not yet sequenced; or a negative OfferResult: BACK_PRESSURED (poll and try again),
    NOT_CONNECTED and CLOSED while there is no leader to send to, NO_ROOM while the cluster's disks are full,
    MESSAGE_TOO_LONG. Raises SessionClosedError when the session is over.
    """

    def __init__(
        self,
        ingress_endpoints: Endpoints | EndpointSource = (),
        egress_channel: str | None = None,
        *,
        settings: ClientSettings | None = None,
        on_message: OnMessage | None = None,
        on_messages: OnMessages | None = None,
        on_session_event: Callable[[EventCode, str], object] | None = None,
        on_new_leader: Callable[[int, int, dict[int, str]], object] | None = None,
        on_challenge: Callable[[bytes], bytes] | None = None,
        on_event: Callable[[ClientEvent], object] | None = None,
        on_acknowledged: Callable[[Acknowledged], object] | None = None,
        on_unsequenced: Callable[[Unsequenced], object] | None = None,
        aeron_dir: str | None = None,
        transport: ClientTransport | None = None,
        journal: Journal | None = None,
        wait: bool = True,
    ) -> None:
        self._requests = self._relay = self._acknowledgements = None
        self.settings = choose_settings(settings, egress_channel, journal)
        self._make_loop(on_message, on_messages)
        self._named = NamedEndpoints(ingress_endpoints, self.settings.ingress_channel)
        self._current = CurrentSession(self._loop, self._named.by_id, dict(self._named.table))
        self._keep_alive = KeepAlive(self._current, self._loop, to_ns(self.settings.keep_alive_interval_s))
        self._on_client_event = on_event or tell_event
        self._is_limited_told = False
        self._callbacks = SessionCallbacks(
            on_session_event or (lambda code, detail: None),
            on_new_leader or (lambda leadership_term_id, member_id, endpoints: None),
            on_challenge or (lambda challenge: self.settings.read_credentials()),
        )
        self.close_reason = ""
        self._connect: SessionConnect | None = None
        self.known_cluster = KnownCluster()
        self._owns_transport = transport is None
        self._transport = transport or open_transport(aeron_dir, self.settings)
        if on_acknowledged is not None or on_unsequenced is not None:
            self._track_messages(on_acknowledged, on_unsequenced)
        try:
            self._begin(journal)
            while wait and self.state is ClientState.CONNECTING:
                if self.poll() == 0:
                    self._park(TICK_INTERVAL_NS)
        except BaseException:
            self.close()
            raise

    def _make_loop(self, on_message: OnMessage | None, on_messages: OnMessages | None) -> None:
        if on_message is not None and on_messages is not None:
            raise ConfigurationError("on_message and on_messages: give one of both")
        on_message = on_message or (lambda session_id, timestamp, payload: None)
        self._loop = ClientLoop(on_message, self._on_event, self._on_offered)
        if on_messages is not None:
            self._loop.set_on_messages(on_messages)
        self.offer, self.offer_many = self._loop.offer, self._loop.offer_many
        self._loop.set_work(self._tick, None)

    def _begin(self, journal: Journal | None) -> None:
        settings, client = self.settings, self._transport.client
        self._loop.set_transport(self._transport)
        if journal is not None or settings.journal:
            self._requests = self._make_requests(journal)
        ingress = settings.ingress_channel, settings.ingress_stream_id
        self._current.publications = IngressPublications(client, *ingress)
        self._queries = ClientQueries(self._current, client, *ingress, to_ns(settings.query_retry_interval_s))
        egress = egress_channel_of(settings), settings.egress_stream_id
        window_bytes = min(settings.egress_term_length_bytes // 2, RECEIVER_WINDOW_BYTES)
        self._egress_subscription = self._transport.ports.subscribe(*egress, window_bytes)
        self._loop.set_egress(self._egress_subscription)
        self._has_begun = True
        self._opener = SessionOpener(
            settings,
            self._transport,
            self._current,
            self._named,
            self._egress_subscription,
            info=self._client_info.format(settings.client_name, VERSION),
            on_challenge=self._callbacks.on_challenge,
            on_event=self._on_client_event,
        )
        self._connect = self._opener.begin()
        if not self._owns_transport:
            self._transport.add_keeper(self._keep_alive.work)
        elif settings.keep_alive_thread:
            self._keeper = SessionKeeper(self._keep_alive.run, settings.keep_alive_interval_s / 4)

    # Calls

    @property
    def is_connected(self) -> bool:
        """Whether offers go to a leader; False while a new one is awaited."""
        return self._current.is_connected

    @property
    def unsent(self) -> int:
        """The number of messages offered since the transport ran last."""
        return self._loop.unsent

    @property
    def is_closed(self) -> bool:
        """Whether the session is over, and none follows it."""
        return self.state is ClientState.CLOSED or self._loop.is_ended

    @property
    def descriptor(self) -> int | None:
        """A descriptor that is readable when `poll` would find something; None with the driver of another process."""
        return self._transport.descriptor

    def poll(self, limit: int = POLL_LIMIT) -> int:
        """Run the transport and hand out up to `limit` messages; their number. Keeps the session alive.

        Raises SessionClosedError when the session is over.
        """
        if self._loop.is_ended and not self._transport.use.is_forked:
            raise self._closed_error()
        count = self._loop.poll(limit)
        if not count and self.state is ClientState.CLOSED:
            raise self._closed_error()
        return count

    def park(self, timeout_s: float) -> None:
        """Wait until something may have come in, or the timeout passed."""
        clock, slice_ns = self._transport.clock, PARK_SLICE_NS
        deadline_ns = clock.now() + to_ns(timeout_s)
        while (left_ns := deadline_ns - (before_ns := clock.now())) > 0:
            self._park(min(left_ns, slice_ns))
            if clock.now() - before_ns < slice_ns:
                return
            self._keep_alive.run()

    def flush(self) -> None:
        """Send at once what was offered. `poll` does so, too."""
        self._loop.flush()

    @property
    def native(self) -> ClientLoop:
        """The native half, for programs in Cython.

        It has `offer_native`, `drive` and `poll_egress` (cluster/client/connection/loop.pxd).

        They may run without the interpreter, so from now on no other thread does anything for this client.
        """
        if self._acknowledgements is not None:
            raise ClusterError(
                "a client that tracks its messages has no native half: they go through `send` and `offer`"
            )
        self._stop_keeper()
        return self._loop

    def close(self) -> None:
        """Close the session and give the transport back.

        Idempotent. Requests under way fail with SessionClosedError; those of a journal go on when it is opened again.

        Any thread may call it, and the handler of a signal: a call that is under way ends first, and the next one
        raises. In a process that was forked from the client's it does nothing.
        """
        if self._loop.is_ended or self._transport.use.is_forked:
            return
        self._is_ending = True
        self._loop.mark_ended()
        self._stop_keeper()
        self._transport.use.end(self._end, at_once=not self._owns_transport)

    def _end(self) -> None:
        if not self._has_begun:  # the constructor has failed, and says why
            if self._owns_transport:
                self._transport.close()
            return
        if self.state in (ClientState.CONNECTED, ClientState.AWAIT_NEW_LEADER) and self.session_id >= 0:
            publication = self._current.publications.get(self.leader_member_id)
            if publication is not None and not self._transport.client.is_closed:
                publication.offer(codecs.SESSION_CLOSE_REQUEST.encode(**self._current.ids()))
                self._drive()
        self._become_closed("it was closed by this client")
        if self._owns_transport:
            self._transport.close()
        elif not self._transport.client.is_closed:
            self._queries.close()
            self._current.publications.close()
            self._egress_subscription.close()

    # Duty cycle

    def _park(self, timeout_ns: int) -> None:
        self._loop.enter()
        try:
            self._transport.park(timeout_ns)
        finally:
            self._loop.leave()

    def _drive(self) -> int:
        return self._loop.drive()

    def _on_offered(self, result: int) -> None:
        if self.is_closed:
            raise self._closed_error()
        if result > 0:
            self._loop.flush()
        else:
            self._drive()

    def _work_at_polls(self) -> None:
        self._loop.set_work(self._tick, self._work_calls)

    def _work_calls(self, now_ns: int) -> None:
        """Do what requests and tracked messages need at every poll."""
        if self._acknowledgements is not None:
            self._acknowledgements.work(now_ns)
        if self._requests is not None:
            self._requests.work(now_ns)
        if self._relay is not None:
            self._relay.work(now_ns)

    def _tick(self, now_ns: int) -> None:
        self._loop.next_tick_ns = now_ns + TICK_INTERVAL_NS
        if not self._owns_transport:
            self._transport.keep_sessions(now_ns)
        if self.state is ClientState.CONNECTED:
            self._watch_leader(now_ns)
        elif self.state is ClientState.CONNECTING:
            self._work_connect(now_ns)
        elif self.state is ClientState.AWAIT_NEW_LEADER:
            self._await_new_leader(now_ns)
        elif self.state is ClientState.AWAIT_NEW_LEADER_CONNECTION:
            self._await_new_leader_connection(now_ns)
        self._queries.work(now_ns)

    def _work_connect(self, now_ns: int) -> None:
        if self._connect is None:
            if now_ns >= self._reopen_ns:
                self._connect = self._opener.begin()
            return
        self._loop.next_tick_ns = 0
        try:
            self._connect.work(now_ns)
        except ClusterTimeoutError as error:
            self._retry_connect(error, now_ns)

    def _retry_connect(self, error: ClusterError, now_ns: int) -> None:
        """Try again when no session could be opened, if the client had one and makes requests; else raise the error."""
        if not self._stays or self.leadership_term_id == NULL_VALUE:
            raise error
        if self._requests is not None:
            self._requests.trouble = error.message
        self._current.ingress_endpoints = dict(self._named.table)
        self._on_client_event(ClientEvent("refused", NULL_VALUE, error.message))
        self._connect = None
        self._current.publications.close()
        self._reopen_ns = now_ns + REOPEN_PAUSE_NS

    def _take_session(self, connect: SessionConnect, now_ns: int) -> None:
        """Take the new session into use at once, since a NewLeaderEvent may follow immediately."""
        opened = connect.opened
        self._connect = None
        self._demand_known_cluster(connect)
        self._attempts = connect.attempts
        self._current.ingress_endpoints = connect.endpoints
        self._current.image = connect.image
        self._leader_heartbeat_timeout_ns = max(opened.leader_heartbeat_timeout_ns, 0)
        self._opened_detail = opened.detail
        message_bytes_max = decode_message_limit(opened.detail)
        if message_bytes_max is not None:
            self._loop.set_message_bytes_max(message_bytes_max)
        self._opened_ns = now_ns
        self._enter_term(opened.leadership_term_id, opened.cluster_session_id)
        self._on_client_event(ClientEvent("opened", self.session_id, f"leader {opened.leader_member_id}"))
        if message_bytes_max is None and not self._is_limited_told:
            self._is_limited_told = True
            self._on_client_event(answers_limited(self.session_id, self.settings.egress_term_length_bytes))
        is_of_asked = connect.member_id in (opened.leader_member_id, NULL_VALUE)
        self._current.leader_member_id = connect.member_id if is_of_asked else opened.leader_member_id
        if not is_of_asked or is_announcement(opened.detail):
            self._look_for_leader(now_ns)  # by a publication that the leader hears from its beginning
        elif not self._become_connected(now_ns):
            self._retry_soon(now_ns)

    def _enter_term(self, leadership_term_id: int, session_id: int) -> None:
        self._current.enter_term(leadership_term_id, session_id)
        self._service_failure = ServiceFailures(earlier=self._service_failure.newest)
        self._note_room("")
        self._note_quota("")  # who leads now counts anew

    def _become_connected(self, now_ns: int) -> bool:
        """Become connected. Return False when the leader's ingress has no room for the mark that must come first."""
        publication = self._current.publications.get(self.leader_member_id)
        if self._acknowledgements is not None and not self._acknowledgements.begin(publication, now_ns):
            return False
        self._current.state = ClientState.CONNECTED
        self._loop.set_ingress(publication)
        self._keep_alive.begin(now_ns)
        return True

    def _retry_soon(self, now_ns: int) -> None:
        """Try again soon: the leader is there, but its ingress has no room."""
        self._loop.set_ingress(None)
        self._current.state = ClientState.AWAIT_NEW_LEADER
        self._deadline_ns = now_ns + to_ns(self.settings.new_leader_timeout_s)

    def _begin_acknowledging(self) -> None:
        if self.state is ClientState.CONNECTED:
            now_ns = self._transport.clock.now()
            if not self._become_connected(now_ns):
                self._retry_soon(now_ns)

    def _watch_leader(self, now_ns: int) -> None:
        if self._loop.take_ingress_lost() or self._current.image is None or self._current.image.is_closed:
            self._look_for_leader(now_ns)
        elif self._keep_alive.is_due(now_ns) and (self._loop.take_sent() or self._keep_alive.send()):
            self._keep_alive.begin(now_ns)

    def _look_for_leader(self, now_ns: int) -> None:
        """Wait for a NewLeaderEvent: the leader was lost, or another member leads than the one that was asked."""
        self._current.state = ClientState.AWAIT_NEW_LEADER
        timeout_ns = to_ns(self.settings.new_leader_timeout_s)
        self._deadline_ns = now_ns + max(timeout_ns, 2 * self._leader_heartbeat_timeout_ns)
        self._open_ingress()

    def _open_ingress(self) -> None:
        """Open a new publication to the leader: members do not accept one again that they have lost."""
        self._loop.set_ingress(None)
        self._current.publications.close()
        endpoint = self._current.leader_endpoint
        if endpoint is not None:
            self._current.publications.open({self.leader_member_id: endpoint})

    def _stop_keeper(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.close()

    def _await_new_leader(self, now_ns: int) -> None:
        """Wait for a leader. If the same one can be reached again, the session goes on as before."""
        self._current.publications.poll()
        image_is_open = self._current.image is not None and not self._current.image.is_closed
        is_there = image_is_open and self.leader_member_id in self._current.publications.connected
        if is_there and self._keep_alive.send() and self._become_connected(now_ns):
            return
        if now_ns > self._deadline_ns:
            self._become_closed(self._describe_loss())

    def _describe_loss(self) -> str:
        """Say what is known of the loss. The service fails at each leader in turn, and the last one may tell nobody."""
        now, earlier = self._service_failure
        if now:
            return f"{now}; the log of the members says where (`ordo errors`)"
        why = self._describe_lost_leader()
        return f"{why}; under an earlier leader {earlier} (`ordo errors`)" if earlier else why

    def _describe_lost_leader(self) -> str:
        """Say how the leader is lost. A member that can be reached need not lead any more: all members hear clients."""
        if self.leader_member_id not in self._current.publications.connected:
            return "the leader is gone and no new one was announced in time"
        why = "the session was closed, no leader was elected in time, or the way from the leader is cut"
        if self._loop.longest_stop_ns > UNHEARD_NS:
            why = f"this client did not run for {self._loop.longest_stop_ns / 1e9:.1f} s, and was given up"
        return f"member {self.leader_member_id}, which led, is there, and no leader sends to this client: {why}"

    def _await_new_leader_connection(self, now_ns: int) -> None:
        self._current.publications.poll()
        is_there = self.leader_member_id in self._current.publications.connected
        if is_there and self._keep_alive.send() and self._become_connected(now_ns):
            self._callbacks.on_new_leader(self.leadership_term_id, self.leader_member_id, self.ingress_endpoints)
            self._on_client_event(ClientEvent("leader", self.session_id, f"leader {self.leader_member_id}"))
        elif now_ns > self._deadline_ns:
            self._become_closed(f"the new leader {self.leader_member_id} does not accept a connection")
        else:
            self._loop.next_tick_ns = 0

    def _become_closed(self, reason: str) -> None:
        if self.state is ClientState.CLOSED:
            return
        self.close_reason = reason
        self._note_answered()
        self._loop.set_ingress(None)
        self._queries.fail_all(self._closed_error)
        if not self._is_ending:
            self._on_client_event(ClientEvent("lost", self.session_id, reason))
        if not self._stays:
            self._current.state = ClientState.CLOSED
            if self._requests is not None:
                self._requests.close(self._closed_error())
            if self._relay is not None:
                self._relay.close(self._closed_error().message)
            if self._acknowledgements is not None:
                self._acknowledgements.give_up()
            return
        if self._requests is not None:
            self._requests.trouble = f"session {self.session_id} is over: {reason}"
        self._current.state = ClientState.CONNECTING
        self._current.session_id = NULL_VALUE
        self._current.publications.close()
        self._reopen_ns = self._opened_ns + REOPEN_PAUSE_NS
        if self._transport.clock.now() >= self._reopen_ns:
            self._connect = self._opener.begin()
        self._loop.next_tick_ns = 0

    @property
    def _stays(self) -> bool:
        """Whether a session that is lost is followed by a new one."""
        wanted = self.settings.reconnect
        if wanted is None:
            wanted = any(one is not None for one in (self._requests, self._relay, self._acknowledgements))
        return wanted and not self._is_ending and self.known_cluster.error is None

    def _closed_error(self) -> ClusterError:
        why = self.close_reason or "it was closed by this client"
        return self.known_cluster.error or SessionClosedError(f"session {self.session_id} is over: {why}")

    # Egress

    def _on_event(self, message: bytes, image: Image) -> None:
        """Handle an egress message that no native code takes.

        Anybody may have sent it, so an unreadable one is dropped.
        """
        try:
            found = ordo_codecs.decode_any(message)
        except DecodeError:
            return
        if found is not None:
            self._take_event(*found, image)

    def _take_event(self, table: Message, values: Any, image: Image) -> None:
        if self._connect is not None:
            now_ns = self._transport.clock.now()
            self._loop.next_tick_ns = 0
            try:
                self._connect.on_event(table, values, image, now_ns)
            except SessionRejectedError as error:
                self._retry_connect(error, now_ns)
                return
            if self._connect.opened is not None:
                self._take_session(self._connect, now_ns)
        elif table is ordo_codecs.LOG_IDENTITY:
            self._learn_cluster(values)
        elif getattr(values, "cluster_session_id", None) != self.session_id:
            self._close_spare(table, values)
        elif table is codecs.NEW_LEADER_EVENT:
            self._take_new_leader(values, image)
        elif table is codecs.SESSION_EVENT:
            self._take_session_event(values)
        elif table is ordo_codecs.QUERY_RESPONSE:
            self._queries.on_response(values, self._transport.clock.now())
        elif table is ordo_codecs.MESSAGES_MARKED and self._acknowledgements is not None:
            self.known_cluster.position = max(self.known_cluster.position, values.log_position)
            self._acknowledgements.on_marked(values, self._transport.clock.now())
        elif table is ordo_codecs.IDENTITY_OPENED:
            requests = self._relay or self._requests
            if requests is not None:
                requests.on_opened(values, self._transport.clock.now())
        else:
            self._on_other_event(table, values)

    def _on_other_event(self, table: Message, values: Any) -> None:
        """Handle an event of sessions that are sent more than a client's."""

    def _close_spare(self, table: Any, values: Any) -> None:
        """Close a session of another attempt to connect, which has opened after this one."""
        is_open = table is codecs.SESSION_EVENT and values.code == EventCode.OK
        if not is_open or values.correlation_id not in self._attempts:
            return
        publication = self._current.leader_ingress
        if publication is not None:
            ids = {"leadership_term_id": values.leadership_term_id, "cluster_session_id": values.cluster_session_id}
            publication.offer(codecs.SESSION_CLOSE_REQUEST.encode(**ids))

    def _take_new_leader(self, event: records.NewLeaderEvent, image: Image) -> None:
        if self.state is ClientState.CLOSED or not self._is_news(event):
            return
        self._current.image = image
        self._enter_term(event.leadership_term_id, self.session_id)
        self._current.leader_member_id = event.leader_member_id
        self._loop.reset_assemblies(image)
        if event.ingress_endpoints and NULL_VALUE not in self.ingress_endpoints:
            self._current.ingress_endpoints = parse_endpoints(event.ingress_endpoints)
        self._open_ingress()
        self._current.state = ClientState.AWAIT_NEW_LEADER_CONNECTION
        self._deadline_ns = self._transport.clock.now() + to_ns(self.settings.message_timeout_s)
        self._loop.next_tick_ns = 0

    def _is_news(self, event: records.NewLeaderEvent) -> bool:
        """Return whether an event says something new. One of the present term does where the leader was not known."""
        if event.leadership_term_id != self.leadership_term_id or NULL_VALUE in self.ingress_endpoints:
            return bool(event.leadership_term_id > self.leadership_term_id)
        endpoints = parse_endpoints(event.ingress_endpoints) if event.ingress_endpoints else {}
        return endpoints.get(event.leader_member_id) != self._current.leader_endpoint

    def _take_session_event(self, event: records.SessionEvent) -> None:
        if event.code not in EVENT_CODES:
            return
        code = EventCode(event.code)
        if code is EventCode.CLOSED:
            if event.detail == DISMISSED:
                self._current.ingress_endpoints = dict(self._named.table)  # the members that it knows are none any more
            self._become_closed(event.detail or "closed by the cluster")
        elif code is EventCode.OK and (trouble := decode_notice(event.detail)) is not None:
            if trouble != self._current.closed_reason:
                kind = "full" if trouble else "room"
                self._on_client_event(ClientEvent(kind, self.session_id, trouble or "messages are taken again"))
            self._note_room(trouble)
        elif code is EventCode.OK and (quota := decode_held(event.detail)) is not None:
            self._note_quota(quota)
        elif code is EventCode.OK and (failure := decode_failure(event.detail)) is not None:
            self._service_failure = self._service_failure._replace(now=failure)
            if self._requests is not None:
                self._requests.trouble = failure
        elif code is EventCode.OK and event.detail == UNCHECKED_NOTICE:
            tell("warning", "client.credentials", text=UNCHECKED_TEXT)
        self._callbacks.on_session_event(code, event.detail)

    def _note_room(self, trouble: str) -> None:
        requests = self._requests
        if requests is not None and (trouble or requests.trouble == self._current.closed_reason):
            requests.trouble = trouble
        self._current.closed_reason = trouble
        self._loop.set_room(not trouble)

    def _note_quota(self, reason: str) -> None:
        """Note that messages wait for a quota: a call that waits in vain says so. They are sent all the same."""
        requests = self._requests
        if requests is not None and requests.trouble in ("", self._current.held_reason):
            requests.trouble = reason
        if reason != self._current.held_reason:
            kind = "held" if reason else "free"
            self._on_client_event(ClientEvent(kind, self.session_id, reason or "messages wait for no quota any more"))
        self._current.held_reason = reason


def relay_of(client: ClusterClient) -> RelayedRequests:
    """Return a client's relay, for gateways: requests of many identities, numbered by others, in this client's session.

    Raises ClusterError for a client that makes requests of its own.
    """
    return client._take_relay()
