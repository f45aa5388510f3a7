"""The newest requests of a client that were answered, and where: so it can say which of them a cluster has not.

A cluster that went on without the end of another one's log, as a standby that was promoted, lacks what that one
acknowledged behind a position. Whoever has the answers knows which requests these are.
"""

from libc.stdint cimport int64_t
from libc.string cimport memmove

from ordo.runtime.native.native_vector cimport NativeVector

ANSWERED_KEPT = 65_536
"""At least this many of the newest are known, as many as a cluster keeps answers of one identity."""

cdef enum:
    ROWS_MAX = 131_072                     # twice as many: the older half is dropped then


cdef class AnsweredRequests:
    """Requests that were answered, in the order in which their answers came."""

    def __cinit__(self):
        self._rows = NativeVector(sizeof(AnsweredRow))

    def __len__(self):
        return self._rows.count

    cpdef int note(self, int64_t number, int64_t log_position) except -1:
        cdef AnsweredRow* row
        if self._rows.count == ROWS_MAX:
            row = <AnsweredRow*> self._rows.items
            memmove(row, row + ROWS_MAX // 2, (ROWS_MAX // 2) * sizeof(AnsweredRow))
            self._rows.truncate(ROWS_MAX // 2)
        row = <AnsweredRow*> self._rows.append()
        row.number, row.log_position = number, log_position
        self.newest = max(self.newest, number)
        return 0

    def clear(self):
        """Forget all of them: the client begins with another identity, whose numbers are others."""
        self._rows.truncate(0)
        self.newest = self.begins_after = 0

    def rows(self):
        """The number of each, and where it was executed."""
        cdef AnsweredRow* rows = <AnsweredRow*> self._rows.items
        return [(rows[index].number, rows[index].log_position) for index in range(self._rows.count)]

    def behind(self, int64_t position):
        """The numbers of those that were executed behind a position of the log."""
        return sorted({number for number, log_position in self.rows() if log_position > position})

    def above(self, int64_t number, int64_t confirmed):
        """The numbers of those above a number. All up to `confirmed` were answered, known here or not; those of others
        who had the identity before are left out."""
        first = max(number, self.begins_after, confirmed - ANSWERED_KEPT) + 1
        return sorted({*range(first, confirmed + 1), *(one for one, _ in self.rows() if one > number)})
