"""The replay of a stretch of a recording, at its own positions."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from ordo.archive.segments.cursor cimport SegmentCursor
from ordo.archive.segments.record_filter cimport RecordFilter
from ordo.archive.recorder cimport Recording
from ordo.runtime.native.counters cimport Counter
from ordo.transport.streams.publication cimport ExclusivePublication

cdef class Replay:
    """One replay: blocks of whole frames from the segment files into an exclusive publication.

    Frames keep position, term, flags and reserved value; session and stream id become the publication's. Messages that
    its filter does not want become padding, of which a driver sends the header only: positions stay. Nothing at
    or above a limit counter, or above what a live recording has written, is ever published.
    """
    cdef readonly int64_t replay_id
    cdef readonly int64_t recording_id
    cdef readonly int64_t start_position
    cdef readonly int64_t position                 # of the next byte to publish
    cdef readonly int64_t end_position             # where it ends by itself; INT64_MAX: follows while it lives
    cdef readonly ExclusivePublication publication
    cdef readonly bint is_active
    cdef readonly bint is_connected                # a subscriber has been there
    cdef readonly bint needs_attention             # over: the archive must close it
    cdef readonly object error                     # why it ended, None when in order
    cdef public object on_end                      # called once: on_end(replay, error or None)
    cdef public bint revokes                       # ended before its time: revokes the publication
    cdef SegmentCursor _cursor
    cdef Recording _live                           # None: the recording was stopped when the replay began
    cdef Counter _limit                            # None: no other bound
    cdef public RecordFilter filter                # None: all messages; set before the first `work`
    cdef int64_t _stop_position
    cdef int64_t _connect_timeout_ns
    cdef int64_t _connect_deadline_ns              # 0: not set yet
    cdef int _fault
    cdef int64_t _refusal                          # result code of the publication that ended the replay, 0: none
    cdef uint8_t* _block
    cdef int32_t _block_length_max                 # of one read
    cdef int32_t _ready_length                     # checked data frames from `position` on, in the block
    cdef int32_t _padding_length                   # of PADs from `position` on, 0: none
    cdef int32_t _padding_offset                   # in the block, of the first of them that was not published
    cdef readonly int64_t read_count               # blocks read so far
    cdef int work(self, int64_t now_ns) noexcept nogil
    cdef bint _has_subscriber(self, int64_t now_ns) noexcept nogil
    cdef int64_t _bound(self) noexcept nogil
    cdef bint _is_done(self) noexcept nogil
    cdef void _prepare(self, int64_t bound) noexcept nogil
    cdef int32_t _pass_over(self, uint8_t* frame, int32_t offset, int32_t aligned, int32_t pad) noexcept nogil
    cdef int32_t _next_padding(self) noexcept nogil
    cdef bint _offer(self, int32_t length) noexcept nogil
    cdef bint _publish(self) noexcept nogil
