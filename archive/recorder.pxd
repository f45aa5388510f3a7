"""The recorder of one image into segment files."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from ordo.archive.segments.frames cimport Layout
from ordo.archive.segments.tail cimport RecordedTail
from ordo.runtime.native.counters cimport Counter
from ordo.runtime.io.storage cimport SegmentFile, SyncQueue
from ordo.transport.streams.image cimport Block, Image

cdef class Recording:
    """A recorder that writes one image into the segment files of one recording.

    Invariants: start <= durable_position <= written_position; a byte below written_position is in its file (page
    cache), one below durable_position on the device (`sync = "commit"`) or written (`sync = "none"`); neither ever
    goes back. The `rec-pos` counter holds durable_position. In the log of a cluster a PAD becomes durable with the frame
    after it: it may belong to the first record of a leadership term, and without that nobody could tell whose it is.
    With `counts_padding` it counts at once: a publisher's position is after it, and programs wait for that.
    """
    cdef readonly int64_t recording_id
    cdef readonly int64_t start_position           # of this session: where it began to record
    cdef readonly int64_t written_position
    cdef readonly int64_t durable_position
    cdef readonly Image image
    cdef readonly Counter counter                  # rec-pos, None without a client
    cdef public int64_t limit_position             # nothing is recorded beyond it; INT64_MAX: no bound
    cdef public int64_t source_limit_position      # the same, for whom its room is of no account: whose log it is
    cdef public object on_stop                     # called once: on_stop(recording, error or None)
    cdef readonly object error                     # why it stopped, None when in order
    cdef readonly bint is_active
    cdef readonly bint counts_padding              # a PAD counts before a frame follows it
    cdef readonly bint needs_attention             # the image closed or something failed: the archive must act
    cdef int failure                               # -errno of a failed write or sync, 0: none
    cdef object _storage
    cdef str _directory
    cdef Layout _layout
    cdef SegmentFile _file
    cdef SegmentFile _previous                     # the segment before, until its sync is behind
    cdef SegmentFile _folder                       # its sync makes the names of new files durable
    cdef int64_t _segment_base
    cdef int64_t _last_padding                     # of the PAD before written_position that does not count, 0: none
    cdef SyncQueue _queue                          # None: sync = "none"
    cdef int64_t _flight_ticket                    # last sync asked for, 0: none under way
    cdef int64_t _flight_position                  # durable when it completes
    cdef uint8_t* _staging                         # where blocks get their checksums, unless readers follow
    cdef RecordedTail _tail                        # where they get them then; None: nobody follows
    cdef int work(self) noexcept nogil             # blocks recorded
    cdef void _harvest(self) noexcept nogil
    cdef int64_t _counted_position(self) noexcept nogil
    cdef int _record_block(self, const Block* block) noexcept nogil
    cdef bint _peek(self, Block* block) noexcept nogil
    cdef int _stage(self, const Block* block, uint8_t* staging) noexcept nogil
    cdef void _advance(self) noexcept nogil
    cdef int _roll(self) noexcept with gil
    cdef void _request(self, SegmentFile file) noexcept with gil
