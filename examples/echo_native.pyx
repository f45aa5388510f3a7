"""The echo service in Cython: a message crosses it without a Python object."""

from libc.stdint cimport int64_t, uint8_t
from service_api.native cimport ADMIN_ACTION, BACK_PRESSURED, NativeClusteredService, NativeSession

cdef enum:
    OFFER_ATTEMPTS_MAX = 1000


cdef class NativeEcho(NativeClusteredService):
    """Holds no state. A session that does not take an echo in OFFER_ATTEMPTS_MAX attempts loses it."""
    cdef object _cluster

    def on_start(self, cluster, snapshot):
        self._cluster = cluster

    cdef int on_message(self, NativeSession session, int64_t timestamp, const uint8_t* payload, int64_t length_bytes,
                        int64_t position) except -1:
        if session is None:
            return 0
        cdef int64_t result = session.offer_native(payload, length_bytes)
        cdef int attempt
        for attempt in range(OFFER_ATTEMPTS_MAX):
            if result != BACK_PRESSURED and result != ADMIN_ACTION:
                break
            self._cluster.idle()
            result = session.offer_native(payload, length_bytes)
        return 0
