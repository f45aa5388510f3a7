"""The part of consensus that the steady state needs: positions in, commit position out, without the interpreter.

One Progress belongs to one ConsensusCore. In state CLOSED the shell updates it natively (AppendPosition and
CommitPosition as they arrive, this member's durable position as it grows) and the core reads it at its next tick; in every
other state only the core writes it.
"""

from libc.stdint cimport int32_t, int64_t

cdef enum:
    MEMBERS_MAX = 15             # ordo.consensus.state.configuration: voters and learners

cdef class Progress:
    """Positions of all members in the current leadership term, and the commit position they add up to."""
    # members, in ascending order of id; index 0 .. member_count - 1
    cdef int32_t _member_ids[MEMBERS_MAX]
    cdef bint _is_voter[MEMBERS_MAX]             # counted; a learner is only kept account of
    cdef int64_t _positions[MEMBERS_MAX]         # durable position acknowledged in this term, -1: none yet
    cdef int64_t _activity_ns[MEMBERS_MAX]       # when the member was last heard in this term
    cdef readonly int32_t member_count
    cdef readonly int32_t member_id              # this member
    cdef int32_t _own_index                      # -1: not a member of the configuration in force
    cdef readonly int32_t voter_count
    cdef readonly int32_t quorum_threshold       # voters needed: (n >> 1) + 1
    cdef readonly int64_t activity_timeout_ns    # a member not heard for this long counts as position 0
    # the term and this member's part in it; written by the core
    cdef public int64_t leadership_term_id
    cdef public int32_t leader_member_id
    cdef public bint is_leader                   # quorum counting is on
    cdef public bint is_following                # own log is a prefix of the leader's: notified positions count
    cdef public int64_t first_record_end         # leader: nothing below it is committed by counting; -1: not there yet
    # positions
    cdef public int64_t own_position             # end of this member's durable log
    cdef public int64_t notified_position        # follower: highest commit position heard from the leader
    cdef public int64_t commit_position          # never goes back
    # times and what was sent last, so that shell and core do not send the same twice
    cdef public int64_t last_leader_activity_ns  # follower: when the leader was last heard
    cdef public int64_t last_sent_ns             # last CommitPosition (leader) or AppendPosition (follower)
    cdef public int64_t last_sent_position
    cdef public int64_t higher_term_seen         # highest term above leadership_term_id in a message, or -1

    cdef bint active_at(self, int32_t index, int64_t now_ns) noexcept nogil
    cdef int32_t index_of(self, int32_t member_id) noexcept nogil
    cdef void on_append_position(self, int32_t member_id, int64_t term, int64_t position, int64_t now_ns) noexcept nogil
    cdef int64_t quorum_position(self, int64_t now_ns) noexcept nogil
    cdef int64_t advance_commit(self, int64_t own_position, int64_t now_ns) noexcept nogil
    cdef void on_commit_notified(self, int64_t term, int64_t position, int32_t leader, int64_t now_ns) noexcept nogil
    cdef void on_commit_hint(self, int64_t position) noexcept nogil
    cdef int64_t follower_commit(self, int64_t own_position) noexcept nogil
    cdef bint has_active_quorum(self, int64_t now_ns) noexcept nogil
    cdef void note_sent(self, int64_t position, int64_t now_ns) noexcept nogil
