"""The native half of relayed requests: taken, sent, and answered. `RelayedRequests` (relay.py) has the rest."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from ordo.cluster.client.requests.request_window cimport append_request
from ordo.cluster.wire.layout cimport (
    ANSWER_FORGOTTEN,
    ANSWER_ID_CONFLICT,
    ANSWER_OK,
    ANSWER_REJECTED,
    ANSWER_UNKNOWN,
    ANSWER_WAIT,
    REQUEST_BLOCK,
    REQUEST_DIGEST_LENGTH,
    REQUEST_CONFIRMED,
    REQUEST_ID,
    REQUEST_LENGTH,
    REQUEST_NUMBER,
    REQUEST_OPEN_POSITION,
    put_ordo_header,
    put_stamp,
)
from ordo.runtime.native.atomics cimport ordo_put_i64
from ordo.runtime.native.sentinels cimport NULL_POSITION

from bisect import insort
from collections import deque
from typing import NamedTuple

from ordo.cluster.client.requests.relay_outcome import Outcome
from ordo.cluster.wire.levels import describe_want_of_request_ids

cdef object EXECUTED = Outcome.EXECUTED
cdef object REJECTED = Outcome.REJECTED
cdef object ANSWER_TOO_LONG = Outcome.ANSWER_TOO_LONG
cdef dict OUTCOMES = {
    ANSWER_OK: EXECUTED,
    ANSWER_REJECTED: REJECTED,
    ANSWER_ID_CONFLICT: Outcome.ID_CONFLICT,
    ANSWER_FORGOTTEN: Outcome.FORGOTTEN,
}
cdef object ANSWERED = frozenset((*OUTCOMES.values(), ANSWER_TOO_LONG))
cdef object KEPT_TOO_MUCH = Outcome.KEPT_TOO_MUCH
cdef object UNKNOWN = Outcome.UNKNOWN
IDS_NOT_TAKEN = f"not executed: {describe_want_of_request_ids()}"
EXPIRED = "the cluster does not know this identity any more, or not of that position: begin with a new one"


class AnswerRun(NamedTuple):
    """Answers to requests with consecutive numbers."""

    number: int
    payloads: list
    log_positions: list
    sequences: list
    outcomes: list
    identity_position: int
    request_bytes: int


cdef class IdentityLine:
    """One identity: how far the cluster is known to be with it, and its requests under way, by number."""
    cdef readonly bytes identity
    cdef public int64_t incarnation
    cdef public int64_t open_position
    cdef public int64_t known_position     # what a caller says; believed once the cluster says the same
    cdef public int64_t length_bytes_max
    cdef public int64_t executed
    cdef public int64_t owed               # `executed` when this session and term began: the cluster must have it
    cdef public int64_t confirmed
    cdef public int64_t sent               # all numbers up to this one were sent, in this session and term
    cdef readonly dict pending             # by number, the requests that have it
    cdef public object unsent              # deque of numbers, ascending
    cdef public list openers
    cdef public bint is_asking
    cdef public int64_t retry_ns
    cdef public int doublings
    cdef public object trouble
    cdef public bint takes_ids             # the cluster has said so

    def __init__(self, bytes identity not None, int64_t incarnation):
        self.identity = identity
        self.incarnation = incarnation
        self.open_position = NULL_POSITION
        self.pending = {}
        self.unsent = deque()
        self.openers = []
        self.is_asking = True
        self.trouble = UNKNOWN

    def begin_epoch(self):
        """Another session or leadership term has begun."""
        self.owed = self.executed

    def recede(self, int64_t executed, int64_t confirmed):
        """Takes back what is known: the cluster lacks the numbers from here on, as a standby does that was promoted."""
        self.executed = self.owed = executed
        self.confirmed = confirmed
        self.rewind()

    @property
    def is_idle(self):
        return not self.pending and not self.openers

    def rewind(self):
        """Marks everything without an answer to be sent again."""
        self.unsent = deque(sorted(self.pending))
        self.sent = self.executed
        self.retry_ns = 0

    def take_all(self):
        """Returns what is under way, which is then under way no more."""
        found = [*self.openers, *(request for number in sorted(self.pending) for request in self.pending[number])]
        self.pending.clear()
        self.openers.clear()
        self.unsent.clear()
        return found

    cdef int confirm(self, int64_t confirmed) except -1:
        """Notes that the caller has all answers up to this number, short of what is under way."""
        cdef int64_t number = self.confirmed
        if confirmed - number > <int64_t> len(self.pending):
            number = max(number, min(confirmed + 1, min(self.pending, default=confirmed + 1)) - 1)
        else:
            while number < confirmed and (number + 1) not in self.pending:
                number += 1
        self.confirmed = number
        if self.trouble is KEPT_TOO_MUCH:
            self.rewind()
        return 0

    cdef int add(self, RelayedRequest request) except -1:
        cdef int64_t number = request.number
        cdef list same = self.pending.get(number)
        if same is not None:
            request.is_sent = (<RelayedRequest> same[0]).is_sent
            same.append(request)
            return 0
        self.pending[number] = [request]
        if not self.unsent or number > <int64_t> self.unsent[len(self.unsent) - 1]:
            self.unsent.append(number)
        else:
            insort(self.unsent, number)
        return 0


cdef class RelayedRequest:
    """A request on its way, or with number 0 the question how far an identity is.

    When it is done, `on_done(self)` is called once, or the RelayedStream in its place is told.
    """
    cdef readonly IdentityLine line
    cdef readonly int64_t number
    cdef readonly bytes payload            # once it is done, the answer's
    cdef readonly int64_t open_position    # what the caller says
    cdef readonly object outcome           # None: under way
    cdef readonly int64_t log_position
    cdef readonly int64_t sequence         # among the messages of the log; 0: not known
    cdef readonly Py_ssize_t length_bytes  # of the payload that is sent
    cdef readonly bytes digest             # of the id that its caller chose, or None
    cdef public bint is_sent
    cdef object _on_done

    def __init__(self, IdentityLine line not None, int64_t number, bytes payload not None, on_done,
                 int64_t open_position=0, bytes digest=None):
        self.line = line
        self.number = number
        self.payload = payload
        self.length_bytes = len(payload)
        self.open_position = open_position
        self.digest = digest
        self.log_position = NULL_POSITION
        self._on_done = on_done

    cpdef int finish(self, outcome, bytes payload, int64_t log_position=NULL_POSITION, int64_t sequence=0) except -1:
        """Sets the outcome, and tells who waits for it."""
        self.outcome, self.payload, self.log_position, self.sequence = outcome, payload, log_position, sequence
        if type(self._on_done) is RelayedStream:
            (<RelayedStream> self._on_done).note_answer()
        else:
            self._on_done(self)
        return 0


cdef class RelayedStream:
    """Requests that are answered in the order in which they were taken.

    `on_change()` is called when the first of them is done, and not again before `take` was called.
    """
    cdef object _requests
    cdef object _on_change
    cdef bint _is_told

    def __init__(self, on_change):
        self._requests = deque()
        self._on_change = on_change

    def __len__(self):
        return len(self._requests)

    @property
    def first(self):
        """The request that is answered next; None without any."""
        return self._requests[0] if self._requests else None

    @property
    def last(self):
        """The request that is answered after all others; None without any."""
        return self._requests[len(self._requests) - 1] if self._requests else None

    cdef int note_answer(self) except -1:
        if not self._is_told and self._requests and (<RelayedRequest> self._requests[0]).outcome is not None:
            self._is_told = True
            self._on_change()
        return 0

    def take(self, int count_max, Py_ssize_t length_bytes_max):
        """Returns the answers that come next, as an AnswerRun; None without any.

        It ends before a request that was not executed, or whose number does not follow.
        """
        cdef list payloads = [], log_positions = [], sequences = [], outcomes = []
        cdef int64_t first = 0
        cdef Py_ssize_t length_bytes = 0, request_bytes = 0
        cdef bint all_executed = True
        cdef RelayedRequest request = None
        requests = self._requests
        self._is_told = False
        while requests and len(payloads) < count_max and length_bytes < length_bytes_max:
            request = requests[0]
            outcome = request.outcome
            if outcome is not EXECUTED:
                if outcome not in ANSWERED:
                    break
                all_executed = False
            if not payloads:
                first = request.number
            elif request.number != first + <int64_t> len(payloads):
                break
            requests.popleft()
            payloads.append(request.payload)
            log_positions.append(request.log_position)
            sequences.append(request.sequence)
            outcomes.append(outcome)
            length_bytes += len(request.payload)
            request_bytes += request.length_bytes
            position = request.line.open_position
        if not payloads:
            return None
        return AnswerRun(first, payloads, log_positions, sequences, [] if all_executed else outcomes, position, request_bytes)

    def take_all(self):
        """Returns the requests without an answer that was taken, which nobody waits for any more."""
        found = list(self._requests)
        self._requests.clear()
        return found


cdef class RelayWindow:
    """The requests of a session, of many identities: sent in the order of their numbers, answered in any."""
    cdef public object _session
    cdef public dict _lines                # by identity; those without anything under way in the order of their use
    cdef public dict _by_incarnation
    cdef public dict _by_position
    cdef public dict _active               # with something under way
    cdef public dict _dirty                # with something to send
    cdef public Py_ssize_t _count

    def submit(self, bytes identity not None, int64_t number, bytes payload not None, on_done, *, int64_t confirmed=0,
               int64_t open_position=0, bytes digest=None):
        """Takes a request. `confirmed`: the caller has all answers up to this number. `open_position` is where the
        caller knows its identity to be opened, 0 where it does not know. `digest`: of the id that it chose."""
        cdef IdentityLine line = self._find_line(identity, confirmed, open_position)
        cdef RelayedRequest request = RelayedRequest(line, number, payload, on_done, open_position, digest)
        self._take(line, request, self._payload_bytes_max(line))
        return request

    def submit_many(self, RelayedStream stream not None, bytes identity not None, int64_t number, payloads, *,
                    int64_t confirmed=0, int64_t open_position=0, digests=None):
        """Takes requests into a stream: `number` is the first one's, the others follow on it. `digests`: of their ids,
        as many as payloads, or None."""
        cdef IdentityLine line = self._find_line(identity, confirmed, open_position)
        cdef RelayedRequest request
        cdef int64_t length_bytes_max = self._payload_bytes_max(line)
        digests = None if digests is None else iter(digests)
        for payload in payloads:
            request = RelayedRequest(
                line, number, payload, stream, open_position, None if digests is None else next(digests))
            stream._requests.append(request)
            self._take(line, request, length_bytes_max)
            number += 1

    cdef IdentityLine _find_line(self, bytes identity, int64_t confirmed, int64_t open_position):
        cdef IdentityLine line = self._line_of(identity)
        if line.open_position == NULL_POSITION and open_position > 0:
            line.known_position = open_position
        if confirmed > line.confirmed:
            line.confirm(confirmed)
        return line

    cpdef IdentityLine _line_of(self, bytes identity):
        cdef IdentityLine line = self._lines.get(identity)
        if line is None:
            line = self._make_line(identity)
        elif not line.pending and not line.openers:
            self._lines[identity] = self._lines.pop(identity)  # used last
        return line

    cdef int _take(self, IdentityLine line, RelayedRequest request, int64_t length_bytes_max) except -1:
        self._count += 1
        if not self._refuse_early(line, request, length_bytes_max):
            line.add(request)
            self._active[line.identity] = self._dirty[line.identity] = line
        return 0

    cpdef int64_t _payload_bytes_max(self, IdentityLine line) except -1:
        """0 while it is not known."""
        if line.length_bytes_max == 0:
            return 0
        ingress = self._session.leader_ingress
        if ingress is None:
            return line.length_bytes_max
        return min(line.length_bytes_max, <int64_t> ingress.max_message_length - REQUEST_LENGTH)

    cpdef bint _refuse_early(self, IdentityLine line, RelayedRequest request, int64_t length_bytes_max) except -1:
        """Ends a request that need not be sent."""
        if request.open_position > 0 and line.open_position not in (NULL_POSITION, request.open_position):
            self._end(request, Outcome.IDENTITY_EXPIRED, EXPIRED)
        elif request.number <= line.confirmed and (
                request.number <= line.executed or line.open_position == NULL_POSITION):
            text = f"number {request.number} was executed, and its answer confirmed: answers are kept from " \
                   f"{line.confirmed + 1} on"
            self._end(request, Outcome.CONFIRMED_BEFORE, text)
        elif 0 < length_bytes_max < request.length_bytes + (0 if request.digest is None else REQUEST_DIGEST_LENGTH):
            text = f"not executed: payload of {request.length_bytes} bytes: the cluster takes at most {length_bytes_max}"
            self._end(request, Outcome.PAYLOAD_TOO_LONG, text)
        elif request.digest is not None and line.open_position != NULL_POSITION and not line.takes_ids:
            line.is_asking = True
            self._end(request, Outcome.IDS_NOT_TAKEN, IDS_NOT_TAKEN)
        else:
            return False
        return True

    def _end(self, RelayedRequest request not None, outcome, str text not None):
        self._count -= 1
        request.finish(outcome, text.encode())

    def _send_requests(self, IdentityLine line not None):
        """Sends those whose predecessors were sent. False: the ingress takes no more."""
        cdef uint8_t header[REQUEST_LENGTH]
        cdef int64_t number, count = 0
        cdef bint has_room = True
        cdef list same
        session, unsent = self._session, line.unsent
        ingress = session.leader_ingress if session.takes_messages else None
        put_ordo_header(header, REQUEST_BLOCK, REQUEST_ID)
        put_stamp(header, session.leadership_term_id, session.session_id, 0)
        ordo_put_i64(header + REQUEST_OPEN_POSITION, line.open_position)
        while unsent:
            number = unsent[0]
            if number > line.sent + 1:
                break
            same = line.pending.get(number)
            if same is not None:
                ordo_put_i64(header + REQUEST_NUMBER, number)
                ordo_put_i64(header + REQUEST_CONFIRMED, min(line.confirmed, number - 1))
                if ingress is None or not append_request(
                        session, ingress, header, (<RelayedRequest> same[0]).digest, (<RelayedRequest> same[0]).payload):
                    has_room = False
                    break
                count += 1
                for request in same:
                    (<RelayedRequest> request).is_sent = True
                line.sent = max(line.sent, number)
            unsent.popleft()
        if count:
            session.note_sent(count)
        return has_room

    def on_answer(self, int64_t open_position, int64_t number, int64_t log_position, int32_t status,
                  bytes payload not None, int64_t sequence=0):
        """An Answer of this session."""
        cdef IdentityLine line = self._by_position.get(open_position)
        cdef list same
        if line is None:
            return
        if status == ANSWER_WAIT:
            line.trouble = KEPT_TOO_MUCH
            return
        if status == ANSWER_UNKNOWN:
            line.is_asking = True
            line.rewind()
            self._dirty[line.identity] = self._active[line.identity] = line
            return
        if number > line.executed:
            line.executed = number
            line.sent = max(line.sent, number)
        line.doublings = 0
        line.retry_ns = 0
        line.trouble = UNKNOWN
        same = line.pending.pop(number, None)
        if same is None:
            return
        self._count -= len(same)
        outcome = OUTCOMES.get(status, ANSWER_TOO_LONG)
        for request in same:
            (<RelayedRequest> request).finish(outcome, payload, log_position, sequence)
        if not line.pending and not line.openers:
            self._retire(line)
