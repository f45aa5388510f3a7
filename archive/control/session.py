"""One client's session with the archive (archive.md A3)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING

from ordo.archive.channels import answering_channel, answers_requester, bounded_channel, strip_channel
from ordo.archive.control.admission import Admission, Verdict
from ordo.archive.control.responses import ResponsePublisher, error_text
from ordo.archive.control.settings import ControlSettings
from ordo.archive.protocol import own_codecs
from ordo.archive.protocol.codes import PROTOCOL_MAJOR_VERSION, ErrorCode, ResponseCode
from ordo.archive.protocol.driver_requests import DriverRequest, DriverRequests
from ordo.runtime.errors import ArchiveError
from ordo.transport.streams.image import Image
from ordo.transport.streams.publication import ExclusivePublication
from ordo.transport.uri import ChannelUri

if TYPE_CHECKING:
    from ordo.archive.protocol import records

RESEND_INTERVAL_NS = 200_000_000
TERM_LENGTH_DEFAULT = 64 * 1024
LISTING_STEPS_PER_CYCLE_MAX = 64
REJECTED = "authentication rejected: the archive does not know these credentials"
CONNECT_LENGTH_MIN = 32
"""The bytes of a connect request without its texts."""

Listing = Iterator[bytes | None]
"""An iterator of steps: a message to send, or None for a step that found nothing. Ends after its last message."""


class SessionState(Enum):
    """The state of a control session, seen from the archive."""

    INIT = "the driver is asked for the response publication"
    CONNECTING = "the client's response subscription is waited for"
    CONNECTED = "the client's version and credentials are checked, and perhaps the answer to a challenge"
    REJECTED = "the client is told that it was rejected"
    AUTHENTICATED = "the client is told its session until it is heard"
    ACTIVE = "requests are served"
    DONE = "over; is removed"


def response_channel(text: str, config: ControlSettings) -> str:
    """Return the channel of the response publication for what a client asks for. Raises ChannelError."""
    given = ChannelUri.parse(text)
    uri = ChannelUri.parse(strip_channel(text))
    term_length = min(given.integer("term-length", TERM_LENGTH_DEFAULT), config.response_term_length_max)
    uri = uri.with_params(term_length=term_length, sparse=given.get("sparse", "true"), mtu=given.get("mtu"))
    return str(uri.check_publication())


def _answering(channel: str, image: Image) -> str:
    return answering_channel(channel, image.correlation_id) if answers_requester(channel) else channel


def host_of(channel: str) -> str:
    """Return the host that a channel publishes to, as it is written; empty when it names none. Raises ChannelError."""
    endpoint = ChannelUri.parse(channel).address("endpoint")
    return endpoint.host if endpoint is not None else ""


class ControlSession:
    """The session of one client, made for its AuthConnectRequest and bound to the image that brought it."""

    def __init__(
        self,
        session_id: int,
        image: Image,
        request: records.AuthConnectRequest,
        channel: str,
        admission: Admission,
        config: ControlSettings,
        driver: DriverRequests,
        now_ns: int,
    ) -> None:
        """Open a session; `channel` is the response channel, as far as clients may choose it.

        Raises ChannelError when it cannot be used, TransportError.
        """
        self.session_id = session_id
        self.image = image
        self.client_info: str = request.client_info
        self.host = host_of(channel)
        """Where the client receives its responses, which it has shown by the session id that it was sent there."""
        self.admission = admission
        self.state = SessionState.INIT
        self.reason = ""
        self.response_registration_id: int | None = None
        """The registration id of the response publication; None until it exists."""
        self.responses = ResponsePublisher(session_id, config.queued_responses_max)
        self._config = config
        self._correlation_id: int = request.correlation_id
        self._major_version: int = (request.version >> 16) & 0xFF
        self._deadline_ns: int | None = now_ns + config.connect_timeout_ns
        self._next_resend_ns = now_ns
        self._next_ping_ns = now_ns
        self._listing: Listing | None = None
        self._publication_request: DriverRequest | None = driver.add_exclusive_publication(
            bounded_channel(
                response_channel(_answering(channel, image), config), CONNECT_LENGTH_MIN + len(request.response_channel)
            ),
            request.response_stream_id,
            self._on_publication,
            lambda error: self.abort(f"the driver refused its response channel: {error_text(error)}"),
        )

    def is_at(self, channel: str) -> bool:
        """Return whether a channel publishes to where the client has shown that it receives.

        A name shows nothing: it may be another host's by now. Raises ChannelError.
        """
        endpoint = ChannelUri.parse(channel).address("endpoint")
        return endpoint is not None and endpoint.is_numeric and endpoint.host == self.host

    # --- state --------------------------------------------------------------------------------------------------------

    def _on_publication(self, publication: ExclusivePublication) -> None:
        self._publication_request = None
        self.responses.attach(publication)
        self.response_registration_id = publication.registration_id
        self.state = SessionState.CONNECTING

    @property
    def is_done(self) -> bool:
        return self.state is SessionState.DONE

    @property
    def is_of_ordo(self) -> bool:
        """Whether the client understands messages of Ordo's own schema."""
        return own_codecs.is_of_ordo(self.client_info)

    def activate(self) -> bool:
        """Note that the client was heard; return whether its requests are served."""
        if self.state is SessionState.AUTHENTICATED:
            self.state = SessionState.ACTIVE
        return self.state is SessionState.ACTIVE

    def abort(self, reason: str) -> None:
        """End the session and its listing. Recordings and replays that it started continue. Idempotent."""
        if self.is_done:
            return
        self.state = SessionState.DONE
        self.reason = reason
        self._listing = None
        if self._publication_request is not None:
            self._publication_request.abandon()
            self._publication_request = None
        self.responses.close()

    @property
    def is_admitted(self) -> bool:
        """Whether the client is known, and not merely asking to be let in."""
        return self.state in (SessionState.AUTHENTICATED, SessionState.ACTIVE)

    def on_challenge_response(self, correlation_id: int, credentials: bytes, now_ms: int) -> None:
        """Take the answer to a challenge; the session is answered under this message's correlation id from here on."""
        if self.state is SessionState.CONNECTED and self.admission.on_challenge_response(credentials, now_ms):
            self._correlation_id = correlation_id
            self._next_resend_ns = 0

    def work(self, now_ns: int, now_ms: int) -> int:
        """Run one duty cycle and return the number of things done."""
        work_count = 0
        if self.state is SessionState.CONNECTING and self.responses.is_connected:
            self.state = SessionState.CONNECTED
            self._deadline_ns = now_ns + self._config.connect_timeout_ns
        if self.state is SessionState.CONNECTED:
            work_count += self._check_client(now_ns, now_ms)
        elif self.state is SessionState.REJECTED:
            work_count += self._resend_rejected(now_ns)
        elif self.state is SessionState.AUTHENTICATED:
            work_count += self._resend_connected(now_ns)
        elif self.state is SessionState.ACTIVE:
            work_count += self._serve(now_ns)
        self._check_end(now_ns)
        return work_count

    def _check_client(self, now_ns: int, now_ms: int) -> int:
        """Check the client, and let it in or not.

        One of another major version is refused, repeatedly until its time is up.
        """
        if self._major_version != PROTOCOL_MAJOR_VERSION:
            text = f"client version {self._major_version} is not supported, this archive has {PROTOCOL_MAJOR_VERSION}"
            return self._resend(now_ns, self._error(self.session_id, text))
        work_count = int(self.admission.work(now_ns, now_ms))
        if self.admission.verdict is Verdict.ADMITTED:
            self.state = SessionState.AUTHENTICATED
            self._deadline_ns = now_ns + self._config.connect_timeout_ns
            return self._resend_connected(now_ns)
        if self.admission.verdict is Verdict.REJECTED:
            self.state = SessionState.REJECTED
            self._next_resend_ns = now_ns
            return self._resend_rejected(now_ns)
        if self.admission.encoded_challenge:
            challenge = self.responses.challenge(self._correlation_id, self.admission.encoded_challenge)
            work_count += self._resend(now_ns, challenge)
        return work_count

    def _error(self, relevant_id: int, text: str) -> bytes:
        return self.responses.control_response(self._correlation_id, relevant_id, ResponseCode.ERROR, text)

    def _resend(self, now_ns: int, message: bytes) -> int:
        """Send a message repeatedly until the client is heard.

        The first one may be lost while the client has no image yet.
        """
        if now_ns < self._next_resend_ns:
            return 0
        self._next_resend_ns = now_ns + RESEND_INTERVAL_NS
        return int(self.responses.try_send(message))

    def _resend_rejected(self, now_ns: int) -> int:
        return self._resend(now_ns, self._error(ErrorCode.AUTHENTICATION_REJECTED, REJECTED))

    def _resend_connected(self, now_ns: int) -> int:
        return self._resend(now_ns, self.responses.control_response(self._correlation_id, self.session_id))

    def _serve(self, now_ns: int) -> int:
        work_count = self.responses.work(now_ns)
        blocked_since_ns = self.responses.blocked_since_ns
        self._deadline_ns = None if blocked_since_ns is None else blocked_since_ns + self._config.connect_timeout_ns
        if now_ns >= self._next_ping_ns:
            self._next_ping_ns = now_ns + self._config.ping_interval_ns
            self.responses.try_ping()
        if self._listing is not None:
            work_count += self._list()
        return work_count

    def _check_end(self, now_ns: int) -> None:
        if self.is_done:
            return
        if self.responses.failure is not None:
            self.abort(self.responses.failure)
        elif self.state is SessionState.REJECTED and not self.responses.is_connected:
            self.abort("its client is gone")
        elif self._deadline_ns is not None and now_ns >= self._deadline_ns:
            self.abort(f"was given up in state {self.state.name}: the client did not take part in time")
        elif self.state is SessionState.ACTIVE and not self.responses.is_connected:
            self.abort("its client is gone")

    # --- listings -----------------------------------------------------------------------------------------------------

    def begin_listing(self, listing: Listing) -> None:
        """Run a listing, a few steps a duty cycle. Raises ArchiveError while another one runs."""
        self.check_no_listing()
        self._listing = listing

    def check_no_listing(self) -> None:
        """Raise ArchiveError while a listing runs."""
        if self._listing is not None:
            raise ArchiveError(
                "active listing already in progress in this session: wait for its end", code=ErrorCode.ACTIVE_LISTING
            )

    def _list(self) -> int:
        for step in range(LISTING_STEPS_PER_CYCLE_MAX):
            if not self.responses.is_free or self._listing is None:
                return step
            message = next(self._listing, b"")
            if message == b"":
                self._listing = None
            elif message is not None:
                self.responses.send(message)
        return LISTING_STEPS_PER_CYCLE_MAX
