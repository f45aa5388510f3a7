"""What was published to topics and waits for their streams, in order: see feeds.py.

A message of a topic is a header of FEED_MESSAGE and the payload. It is formed once, when it is published.
"""

from collections import deque

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from ordo.transport.streams.publication cimport ExclusivePublication

from ordo.cluster.wire import ordo_codecs
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


cdef inline int64_t _append(object publication, bytes message) except? -1:
    """Append without waking the driver. A replay (ordo.debugging) has a stream of its own, which takes what is offered."""
    if isinstance(publication, ExclusivePublication):
        return (<ExclusivePublication> publication).append(
            <const uint8_t*> PyBytes_AS_STRING(message), PyBytes_GET_SIZE(message), NULL, 0)
    return publication.offer(message)


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


cdef class FeedQueue:
    """Messages of all topics of a container that their streams have not taken yet."""
    cdef object _waiting                               # deque of (log position, topic, message)

    def __init__(self):
        self._waiting = deque()

    def __len__(self):
        return len(self._waiting)

    @property
    def first(self):
        """The topic whose stream is to take a message next."""
        return self._waiting[0][1]

    def messages(self):
        """Return what waits, as it will be sent."""
        return [message for _, _, message in self._waiting]

    cpdef int64_t put(self, Topic topic, int64_t log_position, int64_t timestamp, int32_t index,
                      bytes payload) except -1:
        """Form the topic's next message, published as number `index` for a record, and return its sequence number."""
        cdef Py_ssize_t length = PyBytes_GET_SIZE(payload)
        cdef bytes message = PyBytes_FromStringAndSize(NULL, HEADER_LENGTH + length)
        cdef uint8_t* at = <uint8_t*> PyBytes_AS_STRING(message)
        topic.sequence += 1
        memcpy(at, PyBytes_AS_STRING(_BLANK), HEADER_LENGTH)
        _fill(at, topic.sequence, log_position, topic.log_position, timestamp, index)
        memcpy(at + HEADER_LENGTH, PyBytes_AS_STRING(payload), length)
        topic.log_position = log_position
        self._waiting.append((log_position, topic, message))
        return topic.sequence

    def put_many(self, Topic topic not None, int64_t log_position, int64_t timestamp, int32_t index,
                 list payloads not None):
        """Do as `put` does with each payload, from number `index` on, and return the first one's sequence number."""
        cdef int64_t first = topic.sequence + 1
        cdef bytes payload
        for payload in payloads:
            self.put(topic, log_position, timestamp, index, payload)
            index += 1
        return first

    def drop(self, int64_t log_position):
        """Forget what was published last, for the record that ends here."""
        while self._waiting:
            last = self._waiting.pop()
            if last[0] != log_position:
                self._waiting.append(last)
                return

    def send(self):
        """Give messages to their streams, up to a topic without one; return how many, and what refused the next: 0 none.

        The streams' driver is woken once, at the end.
        """
        cdef int64_t result = 0
        cdef Py_ssize_t count = 0
        cdef Topic topic
        cdef bytes message
        cdef object publication, written = None
        while self._waiting:
            _, topic, message = self._waiting[0]
            publication = topic.publication
            if publication is None:
                break
            if written is not None and written is not publication:
                _wake_driver(written)
            written = publication
            result = _append(publication, message)
            if result == ADMIN_ACTION:
                continue
            if result <= 0:
                break
            topic.position = result
            self._waiting.popleft()
            result = 0
            count += 1
        if written is not None:
            _wake_driver(written)
        return count, result


def _check_layout():
    cdef bytearray formed = bytearray(_BLANK)
    cdef uint8_t[::1] view = formed
    _fill(&view[0], 1, 2, 3, 4, 5)
    assert bytes(formed) == _header(1, 2, 3, 4, 5)


_check_layout()
