"""The echo service in Cython: a message crosses it without a Python object."""

from libc.stdint cimport int64_t, uint8_t
from ordo.service_api.native cimport NativeClusteredService, NativeSession


cdef class NativeEcho(NativeClusteredService):
    """Holds no state."""

    def on_take_snapshot(self, writer):
        """Writes nothing: the service has no state."""

    cdef int on_message(self, NativeSession session, int64_t timestamp, const uint8_t* payload, int64_t length_bytes,
                        int64_t position) except -1:
        if session is not None:
            session.offer_native(payload, length_bytes)
        return 0
