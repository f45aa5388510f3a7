"""The echo service in Cython: a message crosses it without a Python object."""

import time

from libc.stdint cimport int64_t, uint8_t
from runtime.atomics cimport ordo_monotonic_ns
from service_api.native cimport ADMIN_ACTION, BACK_PRESSURED, NativeClusteredService, NativeSession

cdef int64_t OFFER_TIMEOUT_NS = 1000000000
cdef double OFFER_PAUSE_S = 0.00005


cdef class NativeEcho(NativeClusteredService):
    """Holds no state. A session that does not take an echo within OFFER_TIMEOUT_NS loses it."""
    cdef object _cluster

    def on_start(self, cluster, snapshot):
        self._cluster = cluster

    def on_take_snapshot(self, writer):
        """There is nothing to keep."""

    cdef int on_message(self, NativeSession session, int64_t timestamp, const uint8_t* payload, int64_t length_bytes,
                        int64_t position) except -1:
        if session is None:
            return 0
        cdef int64_t result = session.offer_native(payload, length_bytes)
        if result == BACK_PRESSURED or result == ADMIN_ACTION:
            self._offer_again(session, payload, length_bytes)
        return 0

    cdef int _offer_again(self, NativeSession session, const uint8_t* payload, int64_t length_bytes) except -1:
        cdef int64_t deadline_ns = ordo_monotonic_ns() + OFFER_TIMEOUT_NS
        cdef int64_t result = BACK_PRESSURED
        while (result == BACK_PRESSURED or result == ADMIN_ACTION) and ordo_monotonic_ns() < deadline_ns:
            self._cluster.idle()
            result = session.offer_native(payload, length_bytes)
            if result == BACK_PRESSURED:
                time.sleep(OFFER_PAUSE_S)
        return 0
