"""How many images strangers may cause, each and all together."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from ordo.runtime.io.datagram cimport SocketAddress

cdef enum:
    SOURCES_MAX = 4096                 # hosts that are kept account of; a power of two

cdef struct Source:
    uint64_t key                       # of a host, with a secret mixed in
    int64_t mapped_bytes
    int64_t paid_until_ns              # token bucket: every set-up costs an interval, and a burst may be ahead of the clock
    int32_t images                     # built, or about to be
    int32_t unconfirmed                # of them: whose sender was not heard of since its SETUP

cdef class Admission:
    """Every image that comes of a SETUP is admitted here first, and released when it is gone or was not built.

    A source is a host: what anybody can send from one machine counts together, whatever its ports.
    """
    cdef Source* sources
    cdef uint64_t secret
    cdef readonly int images
    cdef readonly int64_t mapped_bytes
    cdef int images_max
    cdef int images_per_source_max
    cdef int unconfirmed_per_source_max
    cdef int64_t bytes_max
    cdef int64_t bytes_per_source_max
    cdef int64_t interval_ns
    cdef int64_t burst_ns
    cdef int term_length_max
    # 0, or the system counter of the reason against it
    cdef int admit(self, const SocketAddress* source, int32_t term_length, int64_t now_ns) noexcept nogil
    # the sender of an image that was admitted goes on sending: it is none of those that only set up
    cdef void confirm(self, const SocketAddress* source) noexcept nogil
    cdef Source* _known(self, const SocketAddress* source) noexcept nogil
    cdef Source* _find(self, const SocketAddress* source, int64_t now_ns) noexcept nogil
