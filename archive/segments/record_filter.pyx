"""The choice of messages of a recording that a replay sends (docs/LOG.md)."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t
from ordo.runtime.native.atomics cimport ordo_get_i64, ordo_get_u16
from ordo.transport.streams.logbuffer cimport FLAG_BEGIN, FRAME_FLAGS_OFFSET, HEADER_LENGTH

from ordo.runtime.errors import ArchiveError

cdef enum:
    TEMPLATE_ID_OFFSET = 2
    SCHEMA_ID_OFFSET = 4
    SBE_HEADER_LENGTH = 8


cdef class RecordFilter:
    """A filter of messages. See record_filter.pxd."""

    def __init__(self, list templates not None, list session_ids not None):
        """Choose messages; `templates`: (schema id, template id, offset of the session id from the message's start, -1
        for none).

        Raises ArchiveError for too many of either, or none, and for a number outside its type.
        """
        if not 0 < len(templates) <= TEMPLATES_MAX or len(session_ids) > SESSIONS_MAX:
            raise ArchiveError(f"a replay's filter has 1 to {TEMPLATES_MAX} records, here {len(templates)}, and at most "
                               f"{SESSIONS_MAX} sessions, here {len(session_ids)}")
        try:
            for index, (schema_id, template_id, session_offset) in enumerate(templates):
                self._schema_ids[index] = schema_id
                self._template_ids[index] = template_id
                self._session_offsets[index] = session_offset
            for index, session_id in enumerate(session_ids):
                self._session_ids[index] = session_id
        except OverflowError as error:
            raise ArchiveError(f"records={templates} sessions={session_ids}: {error}") from None
        self._template_count = len(templates)
        self._session_count = len(session_ids)
        self._wants_rest = True

    @staticmethod
    def of_channel(channel):
        """Return the filter in a replay channel, or None without one: `records=<schema>:<template>[:<session
        offset>],...` and `sessions=<id>,...`. Raises ArchiveError."""
        records, sessions = channel.get("records"), channel.get("sessions")
        if not records:
            return None
        try:
            templates = [tuple(int(part) for part in record.split(":")) for record in records.split(",")]
            if any(len(one) not in (2, 3) for one in templates):
                raise ValueError(records)
            session_ids = [int(part) for part in sessions.split(",")] if sessions else []
        except ValueError:
            raise ArchiveError(f"records={records} sessions={sessions}: must be <schema>:<template>[:<session offset>],"
                               "... and session ids, with commas between") from None
        return RecordFilter([one if len(one) == 3 else (*one, -1) for one in templates], session_ids)

    cdef bint wants(self, const uint8_t* frame, int32_t length) noexcept nogil:
        """Return whether a data frame of `length` bytes is sent; call it for each frame in order, and repeat it only
        for the last one. The middle of a message whose beginning was not seen is sent."""
        if frame[FRAME_FLAGS_OFFSET] & FLAG_BEGIN:
            self._wants_rest = self._wants_message(frame + HEADER_LENGTH, length - HEADER_LENGTH)
        return self._wants_rest

    cdef bint _wants_message(self, const uint8_t* message, int32_t length) noexcept nogil:
        """Return whether a message is wanted; one that is too short to tell is left to the reader."""
        cdef int index
        cdef int32_t offset
        if length < SBE_HEADER_LENGTH:
            return True
        for index in range(self._template_count):
            if (self._template_ids[index] != ordo_get_u16(message + TEMPLATE_ID_OFFSET)
                    or self._schema_ids[index] != ordo_get_u16(message + SCHEMA_ID_OFFSET)):
                continue
            offset = self._session_offsets[index]
            if self._session_count == 0 or offset < 0 or length - 8 < offset:
                return True
            return self._wants_session(ordo_get_i64(message + offset))
        return False

    cdef bint _wants_session(self, int64_t session_id) noexcept nogil:
        cdef int index
        for index in range(self._session_count):
            if self._session_ids[index] == session_id:
                return True
        return False
