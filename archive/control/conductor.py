"""The server of an archive's control protocol: takes requests, and passes them to what carries them out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ordo.archive.archive import Archive
from ordo.archive.channels import answers_requester
from ordo.archive.control.access import AccessPolicy, full_access
from ordo.archive.control.admission import Admission
from ordo.archive.control.queries import QueryRequests
from ordo.archive.control.recordings import RecordingRequests
from ordo.archive.control.replay_tokens import NO_TOKEN, ReplayTokens
from ordo.archive.control.replays import ReplayRequests
from ordo.archive.control.replication import ReplicationRequests
from ordo.archive.control.session import ControlSession, SessionState
from ordo.archive.control.settings import ControlSettings
from ordo.archive.control.storage_requests import StorageRequests
from ordo.archive.protocol import codecs, own_codecs
from ordo.archive.protocol.codes import ErrorCode
from ordo.archive.protocol.driver_requests import DriverRequests
from ordo.runtime.agents.agent import Agent
from ordo.runtime.errors import ArchiveError, Category, DecodeError, OrdoError
from ordo.runtime.sbe import Message, decode_one_of
from ordo.runtime.security.authentication import key_name_of
from ordo.transport.client.client import TransportClient
from ordo.transport.streams.image import Header, Image
from ordo.transport.streams.subscription import Subscription

if TYPE_CHECKING:
    from random import Random

    from ordo.archive.protocol import records

CONTROL_SESSION_ID_MAX = (1 << 31) - 1
ENDED_SESSIONS_MAX = 64
PROXY_ID_MAX = 1 << 62
SESSION_MESSAGES = (codecs.KEEP_ALIVE_REQUEST, codecs.CLOSE_SESSION_REQUEST, codecs.CHALLENGE_RESPONSE)
REPLAYS = (codecs.REPLAY_REQUEST, codecs.BOUNDED_REPLAY_REQUEST)


class ControlConductor(Agent):
    """The agent that serves one archive's clients; the archive itself is worked separately, on the same thread.

    `client`: the one that the archive publishes through. `on_error(error)` hears of requests that could not be served,
    and of sessions that ended badly. Raises RegistrationError at its start when a control channel is taken.
    """

    def __init__(
        self,
        archive: Archive,
        client: TransportClient,
        random: Random,
        config: ControlSettings | None = None,
        *,
        access: AccessPolicy | None = None,
        on_error: Callable[[Exception], object] = lambda _: None,
    ) -> None:
        self.config = config or ControlSettings()
        self.sessions: dict[int, ControlSession] = {}
        self._ended: deque[tuple[int, int]] = deque(maxlen=ENDED_SESSIONS_MAX)
        """Sessions and images of clients that are gone: their remaining messages are no intrusion."""
        self._client = client
        self._access = access or full_access()
        self._on_error = on_error
        self._random = random
        self._next_session_id = random.randrange(CONTROL_SESSION_ID_MAX)
        self._driver = DriverRequests(client)
        self._subscriptions: list[Subscription] = []
        self._now_ns = 0
        self.recordings = RecordingRequests(archive, self._driver, self.config)
        self.replays = ReplayRequests(archive, self._driver, client.counters, self.config, self._access)
        self.replications = ReplicationRequests(archive, client, self._driver, self.config, self.recordings)
        self._tokens = ReplayTokens(random, self.config)
        self._queries = QueryRequests(archive, self.recordings, self._access)
        self._handlers: Mapping[int, Callable[[ControlSession, Any], None]] = {
            **self.recordings.handlers,
            **self.replays.handlers,
            **self.replications.handlers,
            **self._tokens.handlers,
            **self._queries.handlers,
            **StorageRequests(archive).handlers,
        }

    @property
    def role_name(self) -> str:
        return "archive-conductor"

    def on_start(self) -> None:
        config = self.config
        channels = (
            (config.control_channel, config.control_stream_id),
            (config.local_control_channel, config.local_control_stream_id),
        )
        for channel, stream_id in channels:
            if channel is not None:
                self._subscriptions.append(
                    self._client.add_subscription(channel, stream_id, on_unavailable_image=self._on_image_gone)
                )

    def do_work(self, now_ns: int) -> int:
        self._now_ns = now_ns
        work_count = self._driver.work() + self.replications.work(now_ns)
        self.replays.live.work(now_ns)
        work_count += self.recordings.work()
        self._tokens.work(now_ns)
        for subscription in self._subscriptions:
            work_count += subscription.poll_messages(self._on_message, self.config.requests_per_cycle_max)
        work_count += self._queries.work()
        for session in list(self.sessions.values()):
            work_count += self._work_session(session, now_ns)
        return work_count

    def _work_session(self, session: ControlSession, now_ns: int) -> int:
        before = session.state
        try:
            work_count = session.work(now_ns, 0 if session.is_admitted else self._now_ms())
        except Exception as error:  # an authenticator's mistake must not end the archive
            session.abort("its credentials could not be checked")
            self._on_error(error)
            work_count = 1
        if session.state is SessionState.REJECTED and before is not SessionState.REJECTED:
            self._warn(f"{_who(session)}: authentication rejected", ErrorCode.AUTHENTICATION_REJECTED)
        if session.is_done:
            self._remove(session)
        return work_count

    def on_close(self) -> None:
        for session in self.sessions.values():
            session.abort("the archive ends")
        self.sessions.clear()
        self.replications.close()
        self.recordings.close()
        for subscription in self._subscriptions:
            subscription.close()

    # --- sessions -----------------------------------------------------------------------------------------------------

    def _on_image_gone(self, image: Image) -> None:
        for session in self.sessions.values():
            if session.image.correlation_id == image.correlation_id:
                session.abort("its client is gone")

    def _remove(self, session: ControlSession) -> None:
        del self.sessions[session.session_id]
        self.replays.forget(session)
        self._ended.append((session.session_id, session.image.correlation_id))
        if session.reason not in ("", "its client is gone"):
            self._warn(f"control session {session.session_id} of {session.client_info!r}: {session.reason}")

    def _warn(self, text: str, code: int = ErrorCode.GENERIC) -> None:
        self._on_error(ArchiveError(text, category=Category.WARN, code=code))

    def _now_ms(self) -> int:
        return self._client.epoch_ms

    def _connect(self, request: records.AuthConnectRequest, image: Image) -> None:
        if len(self.sessions) >= self.config.sessions_max:
            self._warn(f"a client was turned away: {len(self.sessions)} control sessions are open, the most allowed")
            return
        host = _host_of_image(image)
        knocking = sum(not one.is_admitted and _host_of_image(one.image) == host for one in self.sessions.values())
        if knocking >= max(1, self.config.sessions_max // 2):
            self._warn(f"a client of {host} was turned away: {knocking} others of this host are not let in yet")
            return
        channel = self._access.channels.response_channel(
            request.response_channel, request.response_stream_id, image.session_id
        )
        session_id = self._next_session_id
        self._next_session_id = (session_id + 1) & CONTROL_SESSION_ID_MAX
        if session_id in self.sessions:
            return
        authenticator, credentials = self._access.rights.authenticator, request.encoded_credentials
        proxy_id, key_name = self._random.randint(1, PROXY_ID_MAX), key_name_of(image.source_identity)
        admission = Admission(authenticator, proxy_id, key_name, credentials, self._now_ms())
        self.sessions[session_id] = ControlSession(
            session_id, image, request, channel, admission, self.config, self._driver, self._now_ns
        )

    # --- requests -----------------------------------------------------------------------------------------------------

    def _on_message(self, payload: bytes, header: Header) -> None:
        """Carry out one request; nothing that a stranger sends can end the agent."""
        try:
            if len(payload) > self.config.request_length_bytes_max:
                raise DecodeError(f"a request of {len(payload)} bytes, at most {self.config.request_length_bytes_max}")
            found = decode_one_of(own_codecs.REQUEST_SCHEMAS, payload)
            if found is not None:
                self._on_request(*found, header.image)
        except OrdoError as error:
            self._on_error(error)

    def _session_of(self, session_id: int, image: Image) -> ControlSession | None:
        session = self.sessions.get(session_id)
        is_senders = session is not None and session.image.correlation_id == image.correlation_id
        if session is not None and is_senders and not session.is_done:
            return session
        if not is_senders and (session_id, image.correlation_id) not in self._ended:
            self._warn(f"a request of control session {session_id}, which its sender has not")
        return None

    def _requester(self, message: Message, request: Any, image: Image) -> ControlSession | None:
        """Return the session that a request came from; for a replay by token, the session that was given the token.

        The replay then goes back to the publisher of this stream, if its channel says so.
        """
        if message not in REPLAYS or request.replay_token in NO_TOKEN:
            return self._session_of(request.control_session_id, image)
        session = self._tokens.session_of(request)
        if session is None:
            self._warn(f"Unknown session or token timeout: a replay of recording {request.recording_id} is not made")
        elif answers_requester(request.replay_channel):
            self._carry_out(partial(self.replays.answer, image), session, message, request)
            return None
        return session

    def _on_request(self, message: Message, request: Any, image: Image) -> None:
        if message is codecs.AUTH_CONNECT_REQUEST:
            self._connect(request, image)
            return
        handler = self._handlers.get(message.template_id)
        is_session_message = message in SESSION_MESSAGES
        if handler is None and not is_session_message:
            return
        session = self._requester(message, request, image)
        if session is None:
            return
        if message is codecs.CLOSE_SESSION_REQUEST:
            session.abort("")
        elif message is codecs.CHALLENGE_RESPONSE:
            session.on_challenge_response(request.correlation_id, request.encoded_credentials, self._now_ms())
        elif session.activate() and handler is not None:
            self._carry_out(handler, session, message, request)

    def _carry_out(
        self, handler: Callable[[ControlSession, Any], None], session: ControlSession, message: Message, request: Any
    ) -> None:
        try:
            self._access.rights.check_request(message, session.admission.principal)
            handler(session, request)
        except OrdoError as error:
            session.responses.send_error(request.correlation_id, error)
            if getattr(error, "code", None) == ErrorCode.UNAUTHORISED_ACTION:
                self._warn(f"{_who(session)}: {error.message}", ErrorCode.UNAUTHORISED_ACTION)
        except Exception as error:  # a mistake of ours must not end the archive
            session.responses.send_error(request.correlation_id, error)
            self._on_error(error)


def _host_of_image(image: Image) -> str:
    return image.source_identity.rpartition(":")[0]


def _who(session: ControlSession) -> str:
    principal = session.admission.principal
    named = f", principal {principal.decode(errors='backslashreplace')[:100]!r}" if principal else ""
    return f"client of {_host_of_image(session.image)}{named}"
