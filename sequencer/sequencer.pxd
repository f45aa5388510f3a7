"""The native half of the consensus module: what happens once a message or once a duty cycle."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from ordo.archive.segments.reader cimport RecordingReader
from ordo.archive.recorder cimport Recording
from ordo.consensus.state.progress cimport Progress
from ordo.sequencer.arrivals cimport HEAD_LENGTH_MAX
from ordo.sequencer.commit_slots cimport CommitSlots
from ordo.sequencer.hosts cimport ConsensusHost, IngressHost, LogHost, ServiceHost, SessionHost
from ordo.sequencer.quotas cimport Quotas
from ordo.sequencer.session_table cimport SessionTable
from ordo.sequencer.sources cimport Allowance, ConsensusSource, IngressSource, Sources
from ordo.cluster.wire.counters.traces cimport FollowerTraces, LogTraces
from ordo.runtime.native.counters cimport Counter
from ordo.runtime.agents.wake cimport ParkFlag
from ordo.transport.streams.image cimport Assembler, Fragment, Image
from ordo.transport.streams.publication cimport ExclusivePublication

cdef class Sequencer:
    """Takes ingress into the log, reads what was appended, and turns durable positions into the commit position.

    One object for leader and follower; `lead`, `follow` and `stand_by` switch it. Rare messages and records are handed
    to the hosts that `attach` names (sequencer/hosts.pxd).
    """
    cdef readonly SessionTable sessions
    cdef LogHost _log_host
    cdef IngressHost _ingress_host
    cdef SessionHost _session_host
    cdef ConsensusHost _consensus_host
    cdef ServiceHost _service_host
    cdef Progress progress
    cdef Sources _ingress                 # of IngressSource
    cdef Sources _consensus               # of ConsensusSource
    cdef IngressSource _polled            # that messages are taken from now, or None
    cdef Allowance _ingress_allowance
    cdef Allowance _consensus_allowance
    cdef list _service                    # [(Image, Assembler, service id)]
    cdef dict _member_publications        # member id -> ExclusivePublication
    cdef int32_t _ingress_limit           # messages of a source in one turn, times its weight
    cdef readonly Quotas quotas
    # role
    cdef int _mode                        # STAND_BY, LEADING, FOLLOWING
    cdef readonly bint takes_ingress
    cdef readonly bint answers_backups      # what is no message is handed on, though no leader is known
    cdef readonly bint holds_for_room       # clients' messages stay in their ingress: the disk has no room for them
    cdef readonly bint is_steady            # no election is running: positions go past Python
    cdef readonly bint wants_tick           # a request came that the slow tick goes on with
    cdef readonly int32_t held_services   # a bit for each service that is ahead of the module: its requests wait
    cdef int64_t _leadership_term_id
    cdef int32_t _leader_id
    cdef int32_t _member_id
    cdef ExclusivePublication _log
    cdef uint8_t _header[HEAD_LENGTH_MAX]   # as much of a message as is written anew
    # the log of this member
    cdef RecordingReader _reader
    cdef Recording _recording             # of the log while it grows, or None
    cdef int64_t* _durable_address        # its rec-pos counter, or NULL
    cdef int64_t _stopped_position        # end of the log while none is
    cdef readonly int64_t append_position # durable and scanned
    cdef readonly int64_t commit_position
    cdef readonly int64_t last_timestamp  # newest of a message in the scanned log
    cdef int64_t _next_record_position   # where the next record ends that is executed in Python
    cdef bint _takes_differences          # the log's protocol level has them
    cdef bint _takes_request_ids          # the same
    cdef bint _takes_output_ids           # the same, and long reports
    cdef bint _takes_arrivals             # the same: when messages arrived
    cdef Counter _commit_counter
    cdef CommitSlots _committed           # that outlive the process, or None
    cdef list _container_flags            # of ParkFlag, by service id
    cdef bint _is_commit_new              # the containers have not been woken for the commit position
    cdef int64_t _heartbeat_interval_ns
    cdef uint8_t _append_flags
    cdef uint8_t _room_flags              # FLAG_NO_ROOM while this member's disk is short of room, or 0
    cdef uint8_t _reader_flags            # FLAG_READERS while somebody follows the log at this member, or 0
    cdef readonly LogTraces traces          # of sampled requests; None: nobody traces
    cdef readonly FollowerTraces follower_traces
    cdef int64_t appended_position       # leader: of the last message that was taken, or 0
    cdef set _told_members                # leader: of those with readers, which have been told the commit position
    cdef int64_t _unsent_since_ns         # leader: since when the followers do not know the commit position, or 0

    cdef int64_t leading_term(self) noexcept nogil
    cdef int poll_consensus(self, int64_t now_ns) except -1
    cpdef int poll_ingress(self, int64_t now_ns, int64_t cluster_time) except -1
    cdef int poll_service(self) except -1
    cdef int update_positions(self, int64_t now_ns) except -1
    cdef int _poll_member(self, ConsensusSource source, int64_t now_ns) except -1
    cdef int _poll_ingress_source(self, IngressSource source, int64_t now_ns, int64_t cluster_time) except -1
    cdef int _take(self, Image image, const Fragment* fragment, int64_t cluster_time) except -1
    cdef int _sequence_own(self, Image image, const Fragment* fragment, int64_t cluster_time) except -1
    cdef int _sequence(self, Image image, const Fragment* fragment, int64_t cluster_time,
                       bint was_admitted=*) except -1
    cdef bint _is_over_quota(self, Image image, int64_t session_id, int64_t slot) except -1
    cdef bint _take_positions(self, const Fragment* fragment, ConsensusSource source, int64_t now_ns) noexcept nogil
    cpdef void request_tick(self) noexcept
    cdef void take_tick_request(self) noexcept
    cdef bint _is_admitted(self, Image image, const Fragment* fragment, int template,
                           int64_t cluster_time) except -1
    cpdef int tell_commit(self, int64_t now_ns) except -1
    cpdef int commit_to(self, int64_t position, int64_t now_ns) except -1
    cdef int _trace(self, const uint8_t* data, const Fragment* fragment) except -1
    cdef int note_traces(self, int64_t cycle_ns) except -1
    cdef int _scan(self, int64_t limit_position) except -1
    cdef void _publish_commit(self, int64_t position) noexcept
    cdef void wake_containers(self) noexcept
    cdef int _tell_readers(self, int64_t now_ns) except -1
    cdef int _send_position(self, int64_t now_ns) except -1
    cdef int64_t _send_position_to(self, member_id) except? -1
    cdef int64_t told_position(self) noexcept nogil      # what a record that is appended now says is committed
    cdef void _take_hint(self, int64_t value, int64_t position) noexcept nogil
    cdef int64_t due_ns(self) noexcept nogil       # when a commit position is to be told that no record has taken along
