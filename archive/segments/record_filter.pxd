"""The choice of messages of a recording that a replay sends (docs/LOG.md)."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t

cdef enum:
    TEMPLATES_MAX = 32
    SESSIONS_MAX = 64

cdef class RecordFilter:
    """A filter that chooses whole messages by their SBE header and a field after it; its only state is the message
    whose fragments are under way."""
    cdef int32_t _template_count
    cdef int32_t _session_count                    # 0: sessions do not matter
    cdef uint16_t[TEMPLATES_MAX] _schema_ids
    cdef uint16_t[TEMPLATES_MAX] _template_ids
    cdef int32_t[TEMPLATES_MAX] _session_offsets   # from the message's start, in bytes; -1: it has no session
    cdef int64_t[SESSIONS_MAX] _session_ids
    cdef bint _wants_rest                          # of the message whose first fragment came last
    cdef bint wants(self, const uint8_t* frame, int32_t length) noexcept nogil
    cdef bint _wants_message(self, const uint8_t* message, int32_t length) noexcept nogil
    cdef bint _wants_session(self, int64_t session_id) noexcept nogil
