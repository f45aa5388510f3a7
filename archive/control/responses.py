"""The responses of one control session, sent in order, however slowly the client reads."""

from __future__ import annotations

import struct
from collections import deque

from ordo.archive.protocol import codecs, own_codecs
from ordo.archive.protocol.codes import PROTOCOL_VERSION, RecordingSignal, ResponseCode
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.runtime.errors import ArchiveError, OrdoError, StorageFullError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.transport.streams.publication import (
    RESULT_ADMIN_ACTION,
    RESULT_BACK_PRESSURED,
    RESULT_NOT_CONNECTED,
    ExclusivePublication,
)

ATTEMPTS = 3
ERROR_LENGTH_MAX = 512
ERROR_STORAGE_SPACE = 11


def error_code(error: Exception) -> int:
    """Return the error code by which a client is told of an exception."""
    if isinstance(error, ArchiveError):
        return error.code
    return ERROR_STORAGE_SPACE if isinstance(error, StorageFullError) else 0


def error_text(error: Exception) -> str:
    """Return the text of an exception as one ASCII line of bounded length."""
    text = error.message if isinstance(error, OrdoError) else f"{type(error).__name__}: {error}"
    return text.encode("ascii", "replace").decode()[:ERROR_LENGTH_MAX]


class ResponsePublisher:
    """A sender to one client, with a queue for messages without room. `failure` says why it cannot continue."""

    def __init__(self, control_session_id: int, queued_max: int) -> None:
        self.control_session_id = control_session_id
        self.failure: str | None = None
        self.blocked_since_ns: int | None = None
        self._queued_max = queued_max
        self._queue: deque[bytes] = deque()
        self._publication: ExclusivePublication | None = None

    @property
    def is_free(self) -> bool:
        """Whether no message is waiting to be sent."""
        return not self._queue

    @property
    def is_connected(self) -> bool:
        return self._publication is not None and self._publication.is_connected

    def attach(self, publication: ExclusivePublication) -> None:
        self._publication = publication

    def work(self, now_ns: int) -> int:
        """Send what waits, as far as there is room; return the count."""
        count = 0
        while self._queue and self._try_send(self._queue[0]):
            self._queue.popleft()
            count += 1
        if not self._queue:
            self.blocked_since_ns = None
        elif count or self.blocked_since_ns is None:
            self.blocked_since_ns = now_ns
        return count

    def send(self, message: bytes) -> None:
        """Send a message after all those that wait."""
        if self._queue or not self._try_send(message):
            if len(self._queue) >= self._queued_max:
                self.failure = f"takes no responses: {len(self._queue)} are waiting"
            else:
                self._queue.append(message)

    def try_send(self, message: bytes) -> bool:
        """Send a message now or not at all."""
        return not self._queue and self._try_send(message)

    def _try_send(self, message: bytes) -> bool:
        if self._publication is None or self.failure is not None:
            return False
        result = RESULT_ADMIN_ACTION
        for _ in range(ATTEMPTS):
            result = self._publication.offer(message)
            if result > 0:
                return True
        if result not in (RESULT_BACK_PRESSURED, RESULT_ADMIN_ACTION, RESULT_NOT_CONNECTED):
            self.failure = f"its response publication ended with result={result}"
        return False

    def close(self) -> None:
        self._queue.clear()
        if self._publication is not None:
            self._publication.revoke()
            self._publication = None

    # --- messages -----------------------------------------------------------------------------------------------------

    def control_response(
        self, correlation_id: int, relevant_id: int = 0, code: ResponseCode = ResponseCode.OK, error: str = ""
    ) -> bytes:
        """Return an encoded ControlResponse."""
        return codecs.CONTROL_RESPONSE.encode(
            control_session_id=self.control_session_id,
            correlation_id=correlation_id,
            relevant_id=relevant_id,
            code=code,
            version=PROTOCOL_VERSION,
            error_message=error,
        )

    def challenge(self, correlation_id: int, encoded_challenge: bytes) -> bytes:
        """Return an encoded Challenge."""
        return codecs.CHALLENGE.encode(
            control_session_id=self.control_session_id,
            correlation_id=correlation_id,
            version=PROTOCOL_VERSION,
            encoded_challenge=encoded_challenge,
        )

    def send_ok(self, correlation_id: int, relevant_id: int = 0) -> None:
        self.send(self.control_response(correlation_id, relevant_id))

    def send_error(self, correlation_id: int, error: Exception) -> None:
        self.send(self.control_response(correlation_id, error_code(error), ResponseCode.ERROR, error_text(error)))

    def recording_unknown(self, correlation_id: int, recording_id: int) -> bytes:
        return self.control_response(correlation_id, recording_id, ResponseCode.RECORDING_UNKNOWN)

    def recording_descriptor(self, correlation_id: int, descriptor: RecordingDescriptor) -> bytes:
        """Return an encoded RecordingDescriptor."""
        fields = descriptor._asdict()
        del fields["state"]
        return codecs.RECORDING_DESCRIPTOR.encode(
            control_session_id=self.control_session_id, correlation_id=correlation_id, **fields
        )

    def log_identity(self, correlation_id: int, told: own_codecs.ToldIdentity) -> bytes:
        """Return an encoded LogIdentity."""
        return own_codecs.LOG_IDENTITY.encode(
            session_id=self.control_session_id, correlation_id=correlation_id, **told._asdict()
        )

    def log_place(self, correlation_id: int, told: own_codecs.ToldPlace | None) -> bytes:
        """Return an encoded LogPlace."""
        place = told or own_codecs.ToldPlace(-1, 0, 0, False)
        return own_codecs.LOG_PLACE.encode(
            control_session_id=self.control_session_id, correlation_id=correlation_id, **place._asdict()
        )

    def past_identity(self, correlation_id: int, identity: bytes) -> bytes:
        """Return an encoded PastIdentity; an empty identity is not known."""
        high, low = struct.unpack("<qq", identity) if identity else (0, 0)
        return own_codecs.PAST_IDENTITY.encode(
            control_session_id=self.control_session_id,
            correlation_id=correlation_id,
            identity_high=high,
            identity_low=low,
        )

    def send_signal(
        self,
        correlation_id: int,
        recording_id: int,
        subscription_id: int,
        position: int,
        signal: RecordingSignal,
    ) -> None:
        self.send(
            codecs.RECORDING_SIGNAL_EVENT.encode(
                control_session_id=self.control_session_id,
                correlation_id=correlation_id,
                recording_id=recording_id,
                subscription_id=subscription_id,
                position=position,
                signal=signal,
            )
        )

    def try_ping(self) -> bool:
        return self.try_send(codecs.PING.encode(control_session_id=self.control_session_id))

    def send_delete(self, correlation_id: int, recording_id: int) -> None:
        """Tell the client that everything its request deletes is deleted."""
        self.send_signal(correlation_id, recording_id, NULL_VALUE, NULL_VALUE, RecordingSignal.DELETE)
