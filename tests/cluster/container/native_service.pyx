"""A service in Cython, for tests: answers every message, and raises when told to."""

from libc.stdint cimport int64_t, uint8_t
from ordo.service_api.native cimport NativeClusteredService, NativeSession


cdef class NativeEcho(NativeClusteredService):
    cdef readonly list calls
    cdef readonly int64_t last_result

    def __init__(self):
        self.calls = []

    def on_session_open(self, session, timestamp):
        self.calls.append(("open", session.id))

    def on_query(self, payload):
        return payload[::-1]

    cdef int on_message(self, NativeSession session, int64_t timestamp, const uint8_t* payload, int64_t length_bytes,
                        int64_t position) except -1:
        if length_bytes == 5 and payload[:5] == b"raise":
            raise ValueError("told to")
        if session is None:
            self.calls.append(("service message", length_bytes, position))
            return 0
        self.last_result = session.offer_native(payload, length_bytes)
        return 0


cdef class NativeReply(NativeClusteredService):
    """Answers every message with itself."""

    cdef int on_message(self, NativeSession session, int64_t timestamp, const uint8_t* payload, int64_t length_bytes,
                        int64_t position) except -1:
        session.reply_native(payload, length_bytes)
        return 0
