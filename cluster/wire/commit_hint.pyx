"""The commit position in the reserved value of a record's frame. See commit_hint.pxd."""

from libc.stdint cimport int64_t, uint64_t

from ordo.runtime.native.atomics cimport ordo_crc32c
from ordo.runtime.native.sentinels cimport NULL_POSITION

cdef enum:
    HINT_UNIT_SHIFT = 5                # positions are multiples of 32



cdef int64_t commit_hint(int64_t position, int64_t commit_position) noexcept nogil:
    """Reserved value of the record at `position`: how far behind it the commit position is, in units of 32 bytes (low
    half), and a checksum of that and of the position (high half). 0: none.

    Frames of earlier versions have no checksum over their header, so what is read of this must prove itself.
    """
    cdef uint64_t words[2]
    words[0] = <uint64_t> (position - commit_position) >> HINT_UNIT_SHIFT
    words[1] = <uint64_t> position
    if commit_position < 0 or position < commit_position or words[0] > 0xFFFFFFFFu:
        return 0
    return <int64_t> (words[0] | <uint64_t> ordo_crc32c(0, words, sizeof(words)) << 32)


cdef int64_t hinted_commit(int64_t value, int64_t position) noexcept nogil:
    """The commit position that a record's reserved value tells of, or NULL_POSITION (-1)."""
    cdef int64_t commit_position = position - (<int64_t> (<uint64_t> value & 0xFFFFFFFFu) << HINT_UNIT_SHIFT)
    return commit_position if commit_position >= 0 and commit_hint(position, commit_position) == value else NULL_POSITION


def make_commit_hint(int64_t position, int64_t commit_position):
    """`commit_hint` for Python."""
    return commit_hint(position, commit_position)


def read_commit_hint(int64_t value, int64_t position):
    """`hinted_commit` for Python."""
    return hinted_commit(value, position)
