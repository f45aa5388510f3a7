"""The native half of a client's requests: taken, sent, and answered. `ClientRequests` (requests.py) has the rest."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from ordo.cluster.client.requests.answered cimport AnsweredRequests
from ordo.cluster.wire.layout cimport (
    ANSWER_OK,
    REQUEST_BLOCK,
    REQUEST_BY_ID_BLOCK,
    REQUEST_BY_ID_DIGEST,
    REQUEST_BY_ID_LENGTH,
    REQUEST_CONFIRMED,
    REQUEST_DIGEST_LENGTH,
    REQUEST_ID,
    REQUEST_LENGTH,
    REQUEST_NUMBER,
    REQUEST_OPEN_POSITION,
    put_ordo_header,
    put_stamp,
)
from ordo.runtime.native.atomics cimport ordo_put_i64
from ordo.service_api.messages.codec cimport encode_request
from ordo.transport.streams.logbuffer cimport ADMIN_ACTION, MAX_POSITION_EXCEEDED, MESSAGE_TOO_LONG, TERM_LENGTH_MIN
from ordo.transport.streams.publication cimport ExclusivePublication

from types import GenericAlias
from typing import NamedTuple

from ordo.cluster.client.requests.request_sending import offer_to_leader
from ordo.cluster.wire.sessions.message_limit import LENGTH_BYTES_MAX, describe_too_long
from ordo.runtime.errors import ClusterError, MessageError, OrdoError, RequestOutcome, StorageError
from ordo.service_api.messages.request import to_request
from ordo.service_api.request_ids import check_request_id, digest_request_id

REQUEST_LENGTH_BYTES = REQUEST_LENGTH

cdef enum:
    ADMIN_ACTION_ATTEMPTS = 3


class Answer(NamedTuple):
    """What the service answered, the log position at which the request was executed, and its number there.

    `sequence` is what services and readers see as `header.sequence` and `LogEntry.sequence`: None where it is not known,
    as it may be where an answer is given again. So two answers are equal if their payloads and positions are.
    """

    payload: bytes
    log_position: int
    sequence: int | None = None

    def __eq__(self, other):
        return self[:2] == other[:2] if isinstance(other, Answer) else tuple.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash(self[:2])


cdef object new_tuple = tuple.__new__


cdef object _too_long(bytes payload, int64_t length_bytes, int64_t log_bytes_max, int64_t ingress_bytes_max):
    text = describe_too_long("request", len(payload), length_bytes, log_bytes_max, ingress_bytes_max)
    return ClusterError(f"not executed: {text}", outcome=RequestOutcome.NOT_EXECUTED)


cdef bint append_request(session, ingress, uint8_t* header, bytes digest, bytes payload) except -1:
    """See request_window.pxd."""
    cdef int32_t length_bytes = REQUEST_LENGTH
    cdef uint8_t by_id[REQUEST_BY_ID_LENGTH]
    if digest is not None:
        memcpy(by_id, header, REQUEST_LENGTH)
        put_ordo_header(by_id, REQUEST_BY_ID_BLOCK, REQUEST_ID)
        memcpy(by_id + REQUEST_BY_ID_DIGEST, PyBytes_AS_STRING(digest), REQUEST_DIGEST_LENGTH)
        header, length_bytes = by_id, REQUEST_BY_ID_LENGTH
    return _append(session, ingress, header, length_bytes, payload)


cdef bint _append(session, ingress, const uint8_t* header, int32_t length_bytes, bytes payload) except -1:
    cdef ExclusivePublication publication
    cdef int64_t result = ADMIN_ACTION
    cdef int attempt = 0
    if isinstance(ingress, ExclusivePublication):
        publication = ingress
        while result == ADMIN_ACTION and attempt < ADMIN_ACTION_ATTEMPTS:
            result = publication.append(header, length_bytes, <const uint8_t*> PyBytes_AS_STRING(payload),
                                        PyBytes_GET_SIZE(payload))
            attempt += 1
        if result > 0 and publication._waker is not None:
            publication._waker.wake()
        if result == MESSAGE_TOO_LONG:       # of a journal, whose client had another ingress
            raise _too_long(payload, length_bytes, LENGTH_BYTES_MAX, publication.max_message_length)
    else:
        result = ingress.offer(PyBytes_FromStringAndSize(<const char*> header, length_bytes) + payload)
    if result > 0:
        return True
    if not ingress.is_connected or result == MAX_POSITION_EXCEEDED:
        session.note_ingress_lost()
    return False


cdef class PendingRequest:
    """A request on its way. Done with an answer or an error, which is when `on_done(self)` is called.

    `number` is 0 until the cluster has opened the client's identity. `id` is what the caller chose, None without one.
    `was_sent`: the cluster may have it. `answer` is as it came; `value` is what `result` returns, which for a message of a
    class with types is the message that answers it (`PendingRequest[Ack]`). One of another type is an `error`.
    """
    cdef public int64_t number
    cdef public bytes payload
    cdef readonly object answer
    cdef readonly object error
    cdef readonly object value
    cdef readonly bytes id
    cdef readonly bytes digest
    cdef public bint was_sent
    cdef object _on_done
    cdef object _wait
    cdef object _read              # decodes the answer; None: the answer itself is the value

    def __init__(self, bytes payload not None, on_done, wait, id=None):
        self.payload = payload
        self._on_done = on_done
        self._wait = wait
        if id is not None:
            self.id = check_request_id(id)
            self.digest = digest_request_id(self.id)

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)

    @property
    def is_done(self):
        return self.value is not None or self.error is not None

    def result(self, timeout_s=None):
        """Waits for the answer and returns it, or raises what was refused.

        Raises ClusterTimeoutError after `timeout_s` (default: message_timeout_s): the request goes on, and is still
        executed once at most; this can be called again, and the error has the same request as `pending`.
        """
        if self.value is None and self.error is None:
            self._wait(self, timeout_s)
        if self.error is not None:
            raise self.error
        return self.value

    def when_done(self, callback):
        """Calls `callback(self)` in place of `on_done`; at once when it is done."""
        self._on_done = callback
        if self.is_done:
            callback(self)

    def finish(self, answer, error=None):
        """Sets the outcome and runs the callback; for the client that sent the request."""
        self.error = error
        if answer is not None:
            self._take_answer(answer)
        if self._on_done is not None:
            self._on_done(self)

    cdef int _take_answer(self, answer) except -1:
        self.answer = answer
        if self._read is None:
            self.value = answer
            return 0
        try:
            self.value = self._read(answer.payload)
        except MessageError as error:
            self.error = self._misread(error)
        return 0

    cdef object _misread(self, error):
        """The error of a request whose answer cannot be read: it has what the caller needs to read it in another way."""
        failure = MessageError(
            f"executed at log position {self.answer.log_position}, and answered by something else (error.pending.answer "
            f"has it): {error.message}",
            outcome=RequestOutcome.EXECUTED,
        )
        failure.log_position, failure.sequence = self.answer.log_position, self.answer.sequence
        failure.pending = self
        return failure


cdef class RequestWindow:
    """The requests of one identity without an answer, by number: sent in order, answered in any.

    `_encode(request, stamp)` makes the record of a request; None: the usual one.
    """
    cdef public object _session
    cdef public object _journal
    cdef public object _wait
    cdef public object _encode
    cdef AnsweredRequests _answered        # without a journal
    cdef public object _failure
    cdef public object _unnumbered
    cdef public dict _pending
    cdef public int64_t outstanding_max
    cdef public int64_t _open_position
    cdef public int64_t _length_bytes_max
    cdef public int64_t _number            # given last
    cdef public int64_t _sent              # sent last, in this session and term
    cdef public int64_t _confirmed         # all answers up to this number were taken
    cdef public int64_t _owed              # this session and term must have it executed; 0: they have, or nothing is
    cdef public int64_t _retry_ns          # 0: counted from the next call of `work`, for there was progress
    cdef public int64_t _doublings
    cdef public bint _takes_ids            # the cluster has said so

    def __cinit__(self, *args, **kwargs):
        self._answered = AnsweredRequests()

    @property
    def answered(self):
        """The requests that were answered: those that the journal has, if there is one."""
        return self._answered if self._journal is None else self._journal.answered

    def __len__(self):
        """The number of requests without an answer."""
        return len(self._pending) + len(self._unnumbered)

    @property
    def has_room(self):
        return len(self._pending) + <int64_t> len(self._unnumbered) < self.outstanding_max

    @property
    def has_unsent(self):
        return self._sent < self._number or len(self._unnumbered) > 0

    def take(self, bytes payload not None, on_done, id, read):
        """Takes a request as `submit` does; the next `work` sends it, together with those that are taken until then."""
        return self._take(payload, on_done, id, read)

    def submit(self, bytes payload not None, on_done=None, id=None, read=None):
        """Takes a request, and sends it at once where nothing stands in front of it.

        Raises ClusterError for one that is too long, IdentityError when the identity is lost.
        `read` decodes its answer.
        """
        cdef PendingRequest pending = self._take(payload, on_done, id, read)
        if pending.number > 0 and self._sent == pending.number - 1 and self._can_send_at_once():
            self._send_from(pending.number)
        return pending

    def submit_many(self, payloads, ids=None):
        """Takes requests and returns them, as `submit` does each. They are sent together; one that cannot be taken is done
        at once, with its error. `ids`: as many as payloads, or None."""
        cdef list found = []
        cdef int64_t first = self._number + 1
        ids = None if ids is None else iter(ids)
        for payload in payloads:
            found.append(self._take_or_refuse(payload, None if ids is None else next(ids)))
        if self._number >= first and self._sent == first - 1 and self._can_send_at_once():
            self._send_from(first)
        return found

    cdef PendingRequest _take(self, bytes payload, on_done, id, read):
        cdef PendingRequest pending
        if self._failure is not None:
            raise self._failure.for_request(RequestOutcome.NOT_EXECUTED)
        if id is None:
            pending = PendingRequest(payload, on_done, self._wait)
        else:
            pending = PendingRequest(payload, on_done, self._wait, id)
        pending._read = read
        if self._length_bytes_max == 0 or self._unnumbered or (id is not None and not self._takes_ids):
            self._unnumbered.append(pending)
        else:
            if not self._fits_anywhere(payload):
                self._check_length(payload, id is not None)
            self._take_number(pending)
        return pending

    cdef bint _fits_anywhere(self, bytes payload) noexcept:
        """Whether a request is short enough for the log, and for the smallest ingress that there can be."""
        return PyBytes_GET_SIZE(payload) + REQUEST_BY_ID_LENGTH <= min(
            self._length_bytes_max + REQUEST_LENGTH, <int64_t> TERM_LENGTH_MIN // 8)

    cdef PendingRequest _take_or_refuse(self, payload, id):
        cdef PendingRequest pending
        try:
            if PyBytes_CheckExact(payload):
                return self._take(payload, None, id, None)
            found = encode_request(payload)
            data, read = to_request(payload) if found is None else found
            return self._take(data, None, id, read)
        except OrdoError as error:
            pending = PendingRequest(payload if isinstance(payload, bytes) else b"", None, self._wait)
            pending.error = error if error.outcome is not None else error.for_request(RequestOutcome.NOT_EXECUTED)
            return pending

    cpdef int _check_length(self, bytes payload, bint has_id=False) except -1:
        cdef int64_t length_bytes = REQUEST_BY_ID_LENGTH if has_id else REQUEST_LENGTH
        cdef int64_t log_bytes_max = self._length_bytes_max + REQUEST_LENGTH
        cdef int64_t ingress_bytes_max = log_bytes_max
        ingress = self._session.leader_ingress
        if ingress is not None:
            ingress_bytes_max = ingress.max_message_length
        if PyBytes_GET_SIZE(payload) + length_bytes > min(log_bytes_max, ingress_bytes_max):
            raise _too_long(payload, length_bytes, log_bytes_max, ingress_bytes_max)
        return 0

    cpdef int _take_number(self, PendingRequest pending) except -1:
        if self._journal is not None:                  # one that it refuses is not sent, and its number is free
            try:
                self._journal.add_request(self._number + 1, pending.payload, pending.id)
            except StorageError as error:
                raise error.for_request(RequestOutcome.NOT_EXECUTED) from error
        self._number += 1
        pending.number = self._number
        self._pending[self._number] = pending
        return 0

    def _owe(self):
        """Another session or term has begun: the cluster must have executed what was answered until now."""
        self._owed = max(self._confirmed, <int64_t> self.answered.newest)

    def _settle(self):
        """Returns up to which number the cluster must have executed this client's, and does not ask for it any more."""
        owed, self._owed = self._owed, 0
        return owed

    cpdef int _note_answer(self, int64_t number, int64_t log_position) except -1:
        if self._journal is None:
            self._answered.note(number, log_position)
        else:
            self._journal.note_answer(number, log_position)
        return 0

    cdef bint _can_send_at_once(self) except -1:
        return self._open_position != -1 and self._journal is None and self._session.takes_messages

    cpdef int _send_from(self, int64_t number) except -1:
        """Sends requests for as long as the ingress accepts them."""
        cdef uint8_t header[REQUEST_LENGTH]
        cdef int64_t count = 0
        cdef PendingRequest request
        session = self._session
        if self._journal is not None:
            self._journal.sync()
        ingress = session.leader_ingress
        if ingress is None:
            return 0
        stamp = session.leadership_term_id, session.session_id, 0, self._open_position
        put_ordo_header(header, REQUEST_BLOCK, REQUEST_ID)
        put_stamp(header, stamp[0], stamp[1], 0)
        ordo_put_i64(header + REQUEST_OPEN_POSITION, self._open_position)
        ordo_put_i64(header + REQUEST_CONFIRMED, self._confirmed)
        for number in range(number, self._number + 1):
            request = self._pending.get(number)
            if request is not None:
                ordo_put_i64(header + REQUEST_NUMBER, number)
                if self._encode is not None:
                    if not offer_to_leader(session, self._encode(request, stamp)):
                        break
                elif not append_request(session, ingress, header, request.digest, request.payload):
                    break
                else:
                    count += 1
                request.was_sent = True
            self._sent = number
        if count:
            session.note_sent(count)
        return 0

    def on_answer(self, int64_t open_position, int64_t number, int64_t log_position, int32_t status,
                  bytes payload not None, int64_t sequence=0):
        """An Answer of this session."""
        cdef PendingRequest pending
        if open_position != self._open_position:
            return
        if status != ANSWER_OK:
            self._on_other_answer(number, log_position, status, payload, sequence if sequence > 0 else None)
            return
        pending = self._pending.get(number)
        if pending is None:
            return
        self._note_answer(number, log_position)
        del self._pending[number]
        self._doublings = self._retry_ns = 0
        pending._take_answer(new_tuple(Answer, (payload, log_position, sequence if sequence > 0 else None)))
        if pending._on_done is not None:
            pending._on_done(pending)
