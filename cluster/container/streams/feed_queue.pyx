"""What was published to topics and waits for their streams, in order: see feeds.py.

A message of a topic is a header of FEED_MESSAGE and the payload. The two come together in the topic's stream: what is
published at once waits as it was handed over, with what the header of its next message says.
"""

from collections import deque

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from ordo.transport.streams.publication cimport ExclusivePublication

from ordo.cluster.wire import ordo_codecs
from ordo.runtime.payloads import to_bytes
from ordo.service_api.service import OfferResult

cdef enum:
    HEADER_LENGTH = 48
    SEQUENCE_AT = 8
    LOG_POSITION_AT = 16
    PREVIOUS_AT = 24
    TIMESTAMP_AT = 32
    INDEX_AT = 40

cdef int64_t ADMIN_ACTION = OfferResult.ADMIN_ACTION


cdef bytes _header(int64_t sequence, int64_t log_position, int64_t previous, int64_t timestamp, int32_t index):
    return ordo_codecs.FEED_MESSAGE.encode(
        sequence=sequence, log_position=log_position, previous_log_position=previous, timestamp=timestamp,
        message_index=index)


cdef bytes _BLANK = _header(0, 0, 0, 0, 0)
assert PyBytes_GET_SIZE(_BLANK) == HEADER_LENGTH


cdef void _fill(uint8_t* at, int64_t sequence, int64_t log_position, int64_t previous, int64_t timestamp,
                int32_t index) noexcept nogil:
    """Write the fields over those of a blank header. All machines that Ordo runs on are little-endian, as SBE is."""
    memcpy(at + SEQUENCE_AT, &sequence, 8)
    memcpy(at + LOG_POSITION_AT, &log_position, 8)
    memcpy(at + PREVIOUS_AT, &previous, 8)
    memcpy(at + TIMESTAMP_AT, &timestamp, 8)
    memcpy(at + INDEX_AT, &index, 4)


cdef inline void _wake_driver(object publication) noexcept:
    if isinstance(publication, ExclusivePublication) and (<ExclusivePublication> publication)._waker is not None:
        (<ExclusivePublication> publication)._waker.wake()


cdef inline int64_t _append(object publication, const uint8_t* header, bytes payload) except? -1:
    """Append without waking the driver. A replay (ordo.debugging) has a stream of its own, which takes what is offered."""
    if isinstance(publication, ExclusivePublication):
        return (<ExclusivePublication> publication).append(
            header, HEADER_LENGTH, <const uint8_t*> PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload))
    return publication.offer(PyBytes_FromStringAndSize(<const char*> header, HEADER_LENGTH) + payload)


def gather(payload, tuple more not None, str what not None):
    """Return payloads as a list of bytes, the length of the longest one, and of all. Raises PayloadError, saying `what`."""
    cdef list payloads = [payload, *more]
    cdef Py_ssize_t longest = 0, total = 0, length
    cdef Py_ssize_t at
    for at in range(PyList_GET_SIZE(payloads)):
        if not PyBytes_CheckExact(<object> PyList_GET_ITEM(payloads, at)):
            payloads[at] = to_bytes(payloads[at], what)
        length = PyBytes_GET_SIZE(<object> PyList_GET_ITEM(payloads, at))
        longest = max(longest, length)
        total += length
    return payloads, longest, total


cdef class Topic:
    """The state of one topic; `position` in bytes, after what its stream has taken."""
    cdef readonly str name
    cdef public int64_t sequence
    cdef public int64_t position
    cdef public int64_t log_position
    cdef public object publication                     # None: not opened yet

    def __init__(self, str name not None, int64_t sequence=0, int64_t position=0, int64_t log_position=0):
        self.name = name
        self.sequence = sequence
        self.position = position
        self.log_position = log_position


@cython.final
@cython.freelist(16)
cdef class _Published:
    """Messages of one topic that a record has published at once, from the one on that its stream has not taken yet."""
    cdef Topic topic
    cdef list payloads
    cdef Py_ssize_t at                                 # the next one; the numbers are of its header
    cdef int64_t sequence
    cdef int64_t log_position
    cdef int64_t previous                              # the log position of the message before it
    cdef int64_t timestamp
    cdef int32_t index

    cdef void fill(self, uint8_t* header) noexcept:
        """Write the next one's header."""
        memcpy(header, PyBytes_AS_STRING(_BLANK), HEADER_LENGTH)
        _fill(header, self.sequence, self.log_position, self.previous, self.timestamp, self.index)

    cdef void go_on(self) noexcept:
        self.at += 1
        self.sequence += 1
        self.previous = self.log_position
        self.index += 1


cdef class FeedQueue:
    """Messages of all topics of a container that their streams have not taken yet."""
    cdef object _waiting                               # deque of _Published
    cdef Py_ssize_t _count

    def __init__(self):
        self._waiting = deque()

    def __len__(self):
        return self._count

    @property
    def first(self):
        """The topic whose stream is to take a message next."""
        return (<_Published> self._waiting[0]).topic

    def messages(self):
        """Return what waits, as it will be sent."""
        cdef _Published one
        cdef uint8_t header[HEADER_LENGTH]
        cdef list found = []
        for one in self._waiting:
            sent = one.at, one.sequence, one.previous, one.index
            while one.at < PyList_GET_SIZE(one.payloads):
                one.fill(header)
                found.append(PyBytes_FromStringAndSize(<const char*> header, HEADER_LENGTH) + one.payloads[one.at])
                one.go_on()
            one.at, one.sequence, one.previous, one.index = sent
        return found

    def put(self, Topic topic not None, int64_t log_position, int64_t timestamp, int32_t index, bytes payload not None):
        """Take the topic's next message, published as number `index` for a record, and return its sequence number."""
        return self.put_many(topic, log_position, timestamp, index, [payload])

    cpdef int64_t put_many(self, Topic topic, int64_t log_position, int64_t timestamp, int32_t index,
                           list payloads) except -1:
        """Do as `put` does with each payload, from number `index` on, and return the first one's sequence number.

        The list is the queue's from here on.
        """
        cdef _Published one = _Published.__new__(_Published)
        one.topic, one.payloads, one.log_position, one.timestamp, one.index = (
            topic, payloads, log_position, timestamp, index)
        one.sequence, one.previous = topic.sequence + 1, topic.log_position
        topic.sequence += PyList_GET_SIZE(payloads)
        topic.log_position = log_position
        self._waiting.append(one)
        self._count += PyList_GET_SIZE(payloads)
        return one.sequence

    def drop(self, int64_t log_position):
        """Forget what was published last, for the record that ends here."""
        cdef _Published last
        while self._waiting:
            last = self._waiting.pop()
            if last.log_position != log_position:
                self._waiting.append(last)
                return
            self._count -= PyList_GET_SIZE(last.payloads) - last.at

    def send(self):
        """Give messages to their streams, up to a topic without one; return how many, and what refused the next: 0 none.

        The streams' driver is woken once, at the end.
        """
        cdef int64_t result = 0
        cdef Py_ssize_t before = self._count
        cdef _Published one
        cdef object publication, written = None
        while self._waiting and result >= 0:
            one = self._waiting[0]
            publication = one.topic.publication
            if publication is None:
                break
            if written is not None and written is not publication:
                _wake_driver(written)
            written = publication
            result = self._send(one, publication)
            if one.at == PyList_GET_SIZE(one.payloads):
                self._waiting.popleft()
        if written is not None:
            _wake_driver(written)
        return before - self._count, result

    cdef int64_t _send(self, _Published one, object publication) except? -1:
        """Give a topic's messages to its stream; return what refused the next: 0 none."""
        cdef uint8_t header[HEADER_LENGTH]
        cdef int64_t result
        while one.at < PyList_GET_SIZE(one.payloads):
            one.fill(header)
            result = _append(publication, header, <bytes?> <object> PyList_GET_ITEM(one.payloads, one.at))
            if result == ADMIN_ACTION:
                continue
            if result <= 0:
                return result
            one.topic.position = result
            one.go_on()
            self._count -= 1
        return 0


def _check_layout():
    cdef bytearray formed = bytearray(_BLANK)
    cdef uint8_t[::1] view = formed
    _fill(&view[0], 1, 2, 3, 4, 5)
    assert bytes(formed) == _header(1, 2, 3, 4, 5)


_check_layout()
