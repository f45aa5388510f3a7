"""The part of consensus that the steady state needs; see progress.pxd."""

from libc.stdint cimport int32_t, int64_t
from ordo.runtime.native.sentinels cimport NULL_VALUE



cdef class Progress:

    def __cinit__(self, member_id, voter_ids, activity_timeout_ns):
        self.member_id = member_id
        self.activity_timeout_ns = activity_timeout_ns
        self.configure(voter_ids, ())
        self.leadership_term_id = NULL_VALUE
        self.last_leader_activity_ns = NULL_VALUE
        self.stop()

    # -- set by the core at each change of configuration or leadership -------------------------------------------

    def configure(self, voter_ids, learner_ids):
        """Count for these members from now on; what is known of those that stay is kept."""
        voters = set(voter_ids)
        ids = sorted([*voters, *learner_ids])
        if not (voters and len(ids) <= MEMBERS_MAX and len(set(ids)) == len(ids)):
            raise ValueError(f"{voter_ids=} {learner_ids=} must be 1 to {MEMBERS_MAX} different ids, one a voter")
        known = {self._member_ids[index]: (self._positions[index], self._activity_ns[index])
                 for index in range(self.member_count)}
        for index, each in enumerate(ids):
            self._member_ids[index] = each
            self._is_voter[index] = each in voters
            self._positions[index], self._activity_ns[index] = known.get(each, (NULL_VALUE, NULL_VALUE))
        self.member_count = <int32_t> len(ids)
        self.voter_count = <int32_t> len(voters)
        self.quorum_threshold = (self.voter_count >> 1) + 1
        self._own_index = self.index_of(self.member_id)

    def stop(self):
        """Stop counting: this member neither leads nor follows; commit and own position stay."""
        self.is_leader = False
        self.is_following = False
        self.leader_member_id = <int32_t> NULL_VALUE
        self.first_record_end = NULL_VALUE
        self.notified_position = NULL_VALUE
        self.higher_term_seen = NULL_VALUE
        self.last_sent_ns = NULL_VALUE
        self.last_sent_position = NULL_VALUE
        for index in range(self.member_count):
            self._positions[index] = NULL_VALUE
            self._activity_ns[index] = NULL_VALUE

    def lead(self, int64_t leadership_term_id, int64_t now_ns):
        """Count for a new term of this member; every member counts as heard now, with nothing acknowledged."""
        self.stop()
        self.leadership_term_id = leadership_term_id
        self.leader_member_id = self.member_id
        self.is_leader = True
        for index in range(self.member_count):
            self._activity_ns[index] = now_ns

    def follow(self, int64_t leadership_term_id, int32_t leader_member_id, int64_t now_ns):
        """Take commit positions from the leader of a term whose log begins with this member's log."""
        self.stop()
        self.leadership_term_id = leadership_term_id
        self.leader_member_id = leader_member_id
        self.is_following = True
        self.last_leader_activity_ns = now_ns

    # -- native ---------------------------------------------------------------------------------------------------

    cdef bint active_at(self, int32_t index, int64_t now_ns) noexcept nogil:
        """Return whether the member at an index is this one, or was heard within the activity timeout."""
        if index == self._own_index:
            return True
        return self._activity_ns[index] >= 0 and self._activity_ns[index] + self.activity_timeout_ns > now_ns

    cdef int32_t index_of(self, int32_t member_id) noexcept nogil:
        """Return the index of a member, or -1."""
        cdef int32_t index
        for index in range(self.member_count):
            if self._member_ids[index] == member_id:
                return index
        return -1

    cdef void on_append_position(self, int32_t member_id, int64_t term, int64_t position, int64_t now_ns) noexcept nogil:
        """Count, as the leader, a follower's acknowledgement of `position`. Only acknowledgements of the own term count
        (Raft §5.3)."""
        cdef int32_t index = self.index_of(member_id)
        if index < 0 or index == self._own_index:
            return
        if term > self.leadership_term_id:
            if term > self.higher_term_seen:
                self.higher_term_seen = term
            return
        if term != self.leadership_term_id or not self.is_leader:
            return
        self._activity_ns[index] = now_ns
        if position > self._positions[index]:
            self._positions[index] = position

    cdef int64_t quorum_position(self, int64_t now_ns) noexcept nogil:
        """Return the highest position that a quorum of voters heard lately has durably, not beyond this member's log."""
        cdef int64_t sorted_positions[MEMBERS_MAX]
        cdef int64_t position
        cdef int32_t index, slot
        cdef int32_t count = 0
        for index in range(self.member_count):
            if not self._is_voter[index]:
                continue
            if index == self._own_index:
                position = self.own_position
            elif self._positions[index] > 0 and self.active_at(index, now_ns):
                position = self._positions[index]
            else:
                position = 0
            slot = count
            count += 1
            while slot > 0 and sorted_positions[slot - 1] < position:
                sorted_positions[slot] = sorted_positions[slot - 1]
                slot -= 1
            sorted_positions[slot] = position
        position = sorted_positions[self.quorum_threshold - 1]
        return position if position < self.own_position else self.own_position

    cdef int64_t advance_commit(self, int64_t own_position, int64_t now_ns) noexcept nogil:
        """Return, for a leader, the commit position after this member's log grew to `own_position` (Raft §5.3, §5.4.2)."""
        cdef int64_t quorum
        if own_position > self.own_position:
            self.own_position = own_position
        if not self.is_leader or self.first_record_end < 0:
            return self.commit_position
        quorum = self.quorum_position(now_ns)
        if quorum >= self.first_record_end and quorum > self.commit_position:
            self.commit_position = quorum
        return self.commit_position

    cdef void on_commit_notified(self, int64_t term, int64_t position, int32_t leader, int64_t now_ns) noexcept nogil:
        """Take, as a follower, the commit position of the leader of `term`; it is a sign of life as well."""
        if term > self.leadership_term_id:
            if term > self.higher_term_seen:
                self.higher_term_seen = term
            return
        if term != self.leadership_term_id or not self.is_following or leader != self.leader_member_id:
            return
        if now_ns > self.last_leader_activity_ns:
            self.last_leader_activity_ns = now_ns
        if position > self.notified_position:
            self.notified_position = position

    cdef void on_commit_hint(self, int64_t position) noexcept nogil:
        """Take, as a follower, the commit position that a record of this member's log states. It is no sign of life: the
        record may be old."""
        if self.is_following and position > self.notified_position:
            self.notified_position = position

    cdef int64_t follower_commit(self, int64_t own_position) noexcept nogil:
        """Return, for a follower, the commit position after this member's log grew to `own_position`: never beyond either."""
        cdef int64_t position
        if own_position > self.own_position:
            self.own_position = own_position
        if not self.is_following:
            return self.commit_position
        position = self.notified_position if self.notified_position < self.own_position else self.own_position
        if position > self.commit_position:
            self.commit_position = position
        return self.commit_position

    cdef bint has_active_quorum(self, int64_t now_ns) noexcept nogil:
        """Return, for a leader, whether a quorum of voters, itself included, was heard within the activity timeout."""
        cdef int32_t index
        cdef int32_t active = 0
        for index in range(self.member_count):
            if self._is_voter[index] and self.active_at(index, now_ns):
                active += 1
        return active >= self.quorum_threshold

    cdef void note_sent(self, int64_t position, int64_t now_ns) noexcept nogil:
        """Note that a CommitPosition (leader) or AppendPosition (follower) with `position` was sent to everyone it
        concerns."""
        self.last_sent_position = position
        self.last_sent_ns = now_ns

    # -- the same for Python --------------------------------------------------------------------------------------

    def touch(self, int32_t member_id, int64_t now_ns):
        """Note, as the leader, that a member was heard which acknowledges nothing: it is joining again, so its old
        position is void."""
        index = self.index_of(member_id)
        if index >= 0 and index != self._own_index:
            self._activity_ns[index] = now_ns
            self._positions[index] = NULL_VALUE

    def member_position(self, int32_t member_id):
        """Return the position that a member acknowledged in this term, or -1."""
        index = self.index_of(member_id)
        return NULL_VALUE if index < 0 else self._positions[index]

    def is_active(self, int32_t member_id, int64_t now_ns):
        """Return whether a member was heard within the activity timeout."""
        index = self.index_of(member_id)
        return index >= 0 and self.active_at(index, now_ns)

    def append_position_received(self, int32_t member_id, int64_t term, int64_t position, int64_t now_ns):
        """Call `on_append_position` from Python."""
        self.on_append_position(member_id, term, position, now_ns)

    def commit_notified(self, int64_t term, int64_t position, int32_t leader, int64_t now_ns):
        """Call `on_commit_notified` from Python."""
        self.on_commit_notified(term, position, leader, now_ns)

    def compute_quorum_position(self, int64_t now_ns):
        """Call `quorum_position` from Python."""
        return self.quorum_position(now_ns)

    def advance_leader_commit(self, int64_t own_position, int64_t now_ns):
        """Call `advance_commit` from Python."""
        return self.advance_commit(own_position, now_ns)

    def advance_follower_commit(self, int64_t own_position):
        """Call `follower_commit` from Python."""
        return self.follower_commit(own_position)

    def quorum_is_active(self, int64_t now_ns):
        """Call `has_active_quorum` from Python."""
        return self.has_active_quorum(now_ns)

    def sent(self, int64_t position, int64_t now_ns):
        """Call `note_sent` from Python."""
        self.note_sent(position, now_ns)
