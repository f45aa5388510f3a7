"""The commit position that a leader puts into the reserved value of a record's frame (docs/ARCHITECTURE.md)."""

from libc.stdint cimport int64_t


cdef int64_t commit_hint(int64_t position, int64_t commit_position) noexcept nogil
cdef int64_t hinted_commit(int64_t value, int64_t position) noexcept nogil
