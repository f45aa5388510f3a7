"""The archive of one node: records images, replays recordings, keeps the catalog."""

from libc.stdint cimport int64_t
from ordo.archive.recorder cimport Recording
from ordo.archive.replay cimport Replay
from ordo.runtime.agents.agent cimport Agent
from ordo.runtime.native.clock cimport Clock
from ordo.runtime.io.storage cimport SyncQueue

cdef enum:
    SESSIONS_MAX = 64

cdef class Archive(Agent):
    """See archive.pyx. `record_work` and `replay_work` are cheap: call them every duty cycle; `do_work` does both, and
    the rare work (closing what ended), and may run on a slow tick."""
    cdef readonly str directory
    cdef readonly object storage
    cdef readonly object catalog
    cdef readonly list recovered                   # RecoveredRecording of what a crash had left open
    cdef readonly bint is_closed
    cdef readonly int64_t archive_id
    cdef readonly int64_t segment_length
    cdef readonly str sync
    cdef public object observer                    # told of recordings: on_start(recording), on_stop(recording); or None
    cdef readonly int64_t record_time_ns           # spent with recording in `do_work`, where something was recorded
    cdef readonly int64_t record_time_max_ns       # in one duty cycle
    cdef readonly int64_t replay_time_ns
    cdef readonly int64_t replay_time_max_ns
    cdef int64_t _bytes_recorded                   # of recordings that have ended
    cdef int64_t _bytes_replayed
    cdef object _client
    cdef Clock _clock
    cdef object _lock
    cdef SyncQueue _queue
    cdef bint _owns_queue
    cdef object _checkpoints                       # None: sync = "none"
    cdef int64_t _low_space_bytes
    cdef int64_t _connect_timeout_ns
    cdef int64_t _next_replay_id
    cdef list _recordings
    cdef list _replays
    cdef dict _tails                               # RecordedTail of each recording that is followed, by id
    cdef list _subscriptions
    cdef void* _recording_table[SESSIONS_MAX]      # borrowed from the lists
    cdef void* _replay_table[SESSIONS_MAX]
    cdef int _recording_count
    cdef int _replay_count
    cdef bint needs_attention(self) noexcept nogil # something ended: call do_work soon
    cdef int record_work(self, int64_t now_ns) noexcept nogil
    cdef int replay_work(self, int64_t now_ns) noexcept nogil
    cdef void _index(self)
