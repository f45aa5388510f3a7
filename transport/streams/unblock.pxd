"""Getting a concurrent publication going again after a writer died in the middle of an append (log-buffer.md §9)."""

from libc.stdint cimport int64_t
from ordo.transport.streams.logbuffer cimport LogBuffers

# the driver calls it for a position that stood still too long; true when something was unblocked
cdef bint unblock_log(LogBuffers log, int64_t blocked_position) noexcept nogil
