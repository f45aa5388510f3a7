"""Checks every frame and record of one segment, and compares the same segment of two nodes byte for byte.

A reader stops at the first damaged frame; the audit goes on behind it: at the next frame if the damaged one's length
still leads to one, otherwise at the next 32-byte step that holds a whole, correct frame.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memset

from ordo.archive.segments.frames cimport (
    CHECKSUM_LENGTH,
    CHECKSUM_OFFSET,
    FAULT_ABSENT,
    FAULT_FLAGS,
    FAULT_LENGTH,
    FAULT_NONE,
    FAULT_READ,
    FAULT_TERM_OFFSET,
    FAULT_TRUNCATED,
    Layout,
    body_needed,
    check_body,
    check_header,
)
from ordo.cluster.wire.commit_hint cimport hinted_commit
from ordo.cluster.wire.layout cimport (CLOCK_EVENT_ERROR_BOUND, CLOCK_EVENT_ERROR_ESTIMATE, CLOCK_EVENT_INTERVAL,
                              CLOCK_EVENT_IS_SYNCHRONIZED, CLOCK_EVENT_LENGTH, CLOCK_EVENT_MEMBER_ID, CLOCK_EVENT_OFFSET,
                              CLOCK_EVENT_SOURCE, CLOCK_EVENT_WALL_CLOCK_AHEAD, NEW_LEADERSHIP_TERM_EVENT_BASE_POSITION,
                              NEW_LEADERSHIP_TERM_EVENT_LEADER_ID, NEW_LEADERSHIP_TERM_EVENT_LOG_POSITION)
from ordo.pipeline.decoding.cursor cimport MessageCursor
from ordo.pipeline.decoding.records cimport KIND_CLOCK, KIND_CLUSTER_ACTION, KIND_COUNT, KIND_NEW_TERM, Record, classify
from ordo.runtime.native.atomics cimport ordo_get_i32, ordo_get_i64, ordo_get_u16
from ordo.runtime.native.spread cimport SPREAD_BUCKETS, Spread, note_spread
from ordo.runtime.native.time_units cimport MICROSECOND_NS, MILLISECOND_NS, cluster_time_unit
from ordo.transport.streams.logbuffer cimport (
    FLAG_BEGIN,
    FLAG_END,
    FRAME_FLAGS_OFFSET,
    FRAME_TYPE_OFFSET,
    HEADER_LENGTH,
    RESERVED_VALUE_OFFSET,
    TYPE_PAD,
    align_frame,
)

from ordo.pipeline.decoding.batches import KIND_NAMES
from ordo.pipeline.decoding.cursor import FAULT_NAMES

cdef enum:
    FINDINGS_MAX = 256
    TERM_RUNS_MAX = 1024
    CLOCK_RUNS_MAX = 1024
    UNITS = 3                           # of cluster time: ms, us, ns
    REPORT_INTERVALS = 2                # this many of its intervals a report of the clock holds, before and after it
    COMPARE_LENGTH = 65536
    # beside the faults of archive/segments/frames.pxd
    FINDING_RESERVED = 100
    FINDING_TIME_ORDER = 102
    FINDING_RECORD_POSITION = 103
    FINDING_LOST = 104
    FINDING_INCOMPLETE = 105
    FINDING_DUPLICATE = 106
    FINDING_GAP = 107

FINDING_NAMES = {
    **FAULT_NAMES,
    FINDING_RESERVED: "reserved value",
    FINDING_TIME_ORDER: "time goes back",
    FINDING_RECORD_POSITION: "position inside the record",
    FINDING_LOST: "bytes that cannot be read",
    FINDING_INCOMPLETE: "message without its end",
    FINDING_DUPLICATE: "frame of an earlier position (duplicate)",
    FINDING_GAP: "frame of a later position (gap)",
}

cdef struct Finding:
    int code
    int64_t position
    int64_t expected
    int64_t actual

cdef struct TermRun:
    # Records one after the other that name the same leadership term.
    int64_t leadership_term
    int64_t position                    # of the first
    int64_t position_last
    int64_t records
    bint begins                         # the first is a new-term record; then also:
    int64_t cluster_time
    int64_t leader

cdef struct ClockRun:
    # Reports of one leader, one after the other, that say the same of its clock; or records that none of them is near.
    int64_t reports                     # 0: the records have none near; then only the next four are set. -1: too many
                                        # runs in the segment, this one stands for all that follows
    int64_t leadership_term
    int64_t position                    # of the first
    int64_t time_first
    int64_t time_last
    int64_t member
    int64_t source
    int64_t is_synchronized
    int64_t reach                       # of the last report, in units of cluster time
    int64_t reach_first                 # of the first
    int64_t offset                      # the worst of each, without its sign
    int64_t error_estimate
    int64_t error_bound
    int64_t wall_clock_ahead
    int64_t error                       # the worst sum of the last two

cdef struct Tally:
    int64_t frames
    int64_t messages
    int64_t payload_bytes
    int64_t padding_bytes
    int64_t kinds[KIND_COUNT]
    int64_t timed_records
    int64_t time_first                  # of the first record
    int64_t time_first_position
    int64_t time_before                 # of the last but one
    int64_t time_last
    int64_t time_last_position
    int64_t finding_count
    int64_t term_run_count
    int64_t clock_run_count
    int64_t fragment_position           # where the message in progress began, or -1


cdef int64_t time_after(int64_t time, int64_t reach) noexcept nogil:
    """The end of what is that near, for any bytes that a log may have."""
    return INT64_MAX if time > INT64_MAX - reach else time + reach


cdef int64_t unit_ns(int64_t time) noexcept nogil:
    """The unit of a time of a log, which its size tells."""
    cdef int unit = cluster_time_unit(time)
    return MILLISECOND_NS if unit == 0 else MICROSECOND_NS if unit == 1 else 1


cdef int64_t wait_ns(int64_t time, int64_t arrival) noexcept nogil:
    """How long at most a message that arrived then took up to its timestamp: up to the end of the unit of that time."""
    cdef int64_t unit = unit_ns(time)
    cdef int64_t begin = max(INT64_MIN // unit + 1, min(INT64_MAX // unit - 1, time)) * unit
    return INT64_MIN + 1 if begin <= INT64_MIN + arrival else begin - arrival + unit - 1


cdef int64_t without_sign(int64_t value) noexcept nogil:
    return INT64_MAX if value == INT64_MIN else value if value >= 0 else -value


cdef class SegmentAudit:
    """The findings and counts of one segment. Call `run`, then `result`."""

    cdef MessageCursor cursor
    cdef Tally tally
    cdef Finding findings[FINDINGS_MAX]
    cdef TermRun term_runs[TERM_RUNS_MAX]
    cdef ClockRun clock_runs[CLOCK_RUNS_MAX]
    cdef Spread waits[UNITS]            # of messages from their arrival on, by the unit of their timestamps
    cdef bint is_log

    def __cinit__(self, MessageCursor cursor, bint is_log):
        self.cursor = cursor
        self.is_log = is_log
        memset(&self.tally, 0, sizeof(Tally))
        self.tally.fragment_position = -1
        memset(&self.waits[0], 0, UNITS * sizeof(Spread))
        for unit in range(UNITS):
            self.waits[unit].longest = INT64_MIN

    def run(self):
        """Go through the segment."""
        with nogil:
            self._run()
        return self

    def result(self):
        """Counts and findings as a dict of plain values."""
        tally = self.tally
        return {
            "frames": tally.frames, "messages": tally.messages, "payload_bytes": tally.payload_bytes,
            "padding_bytes": tally.padding_bytes,
            "kinds": {name: tally.kinds[index] for index, name in enumerate(KIND_NAMES) if tally.kinds[index]},
            "times": self._times() if tally.timed_records else None,
            "term_runs": [dict(self.term_runs[index]) for index in range(min(tally.term_run_count, TERM_RUNS_MAX))],
            "clock_runs": [dict(self.clock_runs[index]) for index in range(tally.clock_run_count)],
            "waits": [self._waits(unit) for unit in range(UNITS) if self.waits[unit].longest != INT64_MIN],
            "finding_count": tally.finding_count,
            "findings": [
                self._described(&self.findings[index]) for index in range(min(tally.finding_count, FINDINGS_MAX))
            ],
        }

    cdef dict _times(self):
        tally = self.tally
        return {
            "first": tally.time_first, "first_position": tally.time_first_position, "last": tally.time_last,
            "last_position": tally.time_last_position, "before": tally.time_before if tally.timed_records > 1 else None,
        }

    cdef dict _waits(self, int unit):
        spread = &self.waits[unit]
        counts = [(bucket, spread.counts[bucket]) for bucket in range(SPREAD_BUCKETS) if spread.counts[bucket]]
        return {"unit": unit, "longest": spread.longest, "counts": counts}

    cdef dict _described(self, const Finding* found):
        return {"fault": FINDING_NAMES[found.code], "position": found.position, "expected": found.expected,
                "actual": found.actual}

    cdef void add(self, int code, int64_t position, int64_t expected, int64_t actual) noexcept nogil:
        cdef Finding* finding
        if self.tally.finding_count < FINDINGS_MAX:
            finding = &self.findings[self.tally.finding_count]
            finding.code = code
            finding.position = position
            finding.expected = expected
            finding.actual = actual
        self.tally.finding_count += 1

    cdef void _run(self) noexcept nogil:
        cdef const uint8_t* frame
        cdef int64_t aligned = 0
        if self.cursor.fault != FAULT_NONE:
            self.add(self.cursor.fault, self.cursor.fault_position, 0, 0)
            return
        while True:
            frame = self.cursor.frame_at(self.cursor.position, &aligned)
            if frame != NULL:
                self._frame(frame, aligned)
                self.cursor.position += aligned
            elif self.cursor.fault == FAULT_NONE:
                break
            else:
                self._add_fault()
                if not self._resume():
                    break
        if self.tally.fragment_position >= 0 and self.cursor.exact and self.cursor.position == self.cursor.limit:
            if self.cursor.limit == self.cursor.segment_base + self.cursor.layout.segment_length:
                self.add(FINDING_INCOMPLETE, self.tally.fragment_position, 0, 0)

    cdef void _add_fault(self) noexcept nogil:
        cdef int code = self.cursor.fault
        if code == FAULT_TERM_OFFSET and self.cursor.actual >= 0 and self.cursor.actual & 31 == 0:
            code = FINDING_DUPLICATE if self.cursor.actual < self.cursor.expected else FINDING_GAP
        self.add(code, self.cursor.fault_position, self.cursor.expected, self.cursor.actual)

    cdef bint _resume(self) noexcept nogil:
        """Stand on the next good frame behind a fault; False when there is none."""
        cdef int64_t damaged = self.cursor.fault_position
        cdef int64_t position, length
        cdef int fault = self.cursor.fault
        cdef const uint8_t* frame
        self.tally.fragment_position = -1
        if fault == FAULT_READ:
            return False
        self.cursor.fault = FAULT_NONE
        if fault not in (FAULT_LENGTH, FAULT_ABSENT, FAULT_TRUNCATED):
            frame = self.cursor.view(damaged, HEADER_LENGTH)
            length = align_frame(ordo_get_i32(frame)) if frame != NULL else 0
            if length >= HEADER_LENGTH and self._is_good(damaged + length):
                self.cursor.position = damaged + length
                return True
        position = damaged + HEADER_LENGTH
        while position + HEADER_LENGTH <= self.cursor.limit and not self._is_good(position):
            if self.cursor.fault == FAULT_TRUNCATED or self.cursor.fault == FAULT_READ:
                position = self.cursor.limit
                break
            self.cursor.fault = FAULT_NONE
            position += HEADER_LENGTH
        self.cursor.fault = FAULT_NONE
        if position + HEADER_LENGTH > self.cursor.limit:
            position = self.cursor.limit
        if position - damaged > HEADER_LENGTH:
            self.add(FINDING_LOST, damaged, 0, position - damaged)
        self.cursor.position = position
        return position < self.cursor.limit

    cdef bint _is_good(self, int64_t position) noexcept nogil:
        """A whole frame with a matching checksum, or the end. Quiet."""
        cdef const uint8_t* frame
        if position == self.cursor.limit:
            return True
        if position + HEADER_LENGTH > self.cursor.limit:
            return False
        frame = self.cursor.view(position, HEADER_LENGTH)
        if frame == NULL or frame[FRAME_FLAGS_OFFSET] & ~(FLAG_BEGIN | FLAG_END):
            return False
        if check_header(frame, position, &self.cursor.layout) != FAULT_NONE:
            return False
        if position + align_frame(ordo_get_i32(frame)) > self.cursor.limit:
            return False
        frame = self.cursor.view(position, body_needed(frame, &self.cursor.layout))
        return frame != NULL and check_body(frame, &self.cursor.layout) == FAULT_NONE

    cdef void _frame(self, const uint8_t* frame, int64_t aligned) noexcept nogil:
        cdef Record record
        cdef int64_t position = self.cursor.position
        cdef int64_t length = ordo_get_i32(frame) - HEADER_LENGTH
        cdef bint begins = frame[FRAME_FLAGS_OFFSET] & FLAG_BEGIN != 0
        cdef bint in_message = self.tally.fragment_position >= 0
        cdef int64_t reserved
        self.tally.frames += 1
        if ordo_get_u16(frame + FRAME_TYPE_OFFSET) == TYPE_PAD:
            self.tally.padding_bytes += aligned
            if in_message:
                self.add(FINDING_INCOMPLETE, self.tally.fragment_position, 0, 0)
                self.tally.fragment_position = -1
            return
        reserved = ordo_get_i64(frame + RESERVED_VALUE_OFFSET)
        if self.is_log and reserved != 0 and hinted_commit(reserved, position) < 0:
            self.add(FINDING_RESERVED, position, 0, reserved)
        if begins == in_message:
            self.add(FAULT_FLAGS, position, 0, frame[FRAME_FLAGS_OFFSET])
        self.tally.payload_bytes += length
        if begins:
            self.tally.messages += 1
            classify(frame + HEADER_LENGTH, length, self.is_log, &record)
            self._record(&record, frame + HEADER_LENGTH, position, aligned)
            if self.tally.clock_run_count == CLOCK_RUNS_MAX and self.clock_runs[CLOCK_RUNS_MAX - 1].reports < 0:
                pass
            elif record.kind == KIND_CLOCK and length >= CLOCK_EVENT_LENGTH:
                self._report(&record, frame + HEADER_LENGTH, position)
            elif record.has_term:
                self._cover(&record, position)
        self.tally.fragment_position = -1 if frame[FRAME_FLAGS_OFFSET] & FLAG_END else (position if begins else
                                                                        self.tally.fragment_position)

    cdef void _record(self, const Record* record, const uint8_t* message, int64_t position,
                      int64_t aligned) noexcept nogil:
        cdef Tally* tally = &self.tally
        cdef int64_t said
        tally.kinds[record.kind] += 1
        if not record.has_term:
            return
        self._time(record.cluster_time, position)
        if record.has_arrival:
            note_spread(&self.waits[cluster_time_unit(record.cluster_time)], wait_ns(record.cluster_time, record.arrival))
        self._term(record, message, position)
        if record.kind == KIND_NEW_TERM or record.kind == KIND_CLUSTER_ACTION:
            said = ordo_get_i64(message + NEW_LEADERSHIP_TERM_EVENT_LOG_POSITION)   # a ClusterAction has it there, too
            if said != position + aligned:
                self.add(FINDING_RECORD_POSITION, position, position + aligned, said)
        if record.kind == KIND_NEW_TERM:
            said = ordo_get_i64(message + NEW_LEADERSHIP_TERM_EVENT_BASE_POSITION)
            if said != position:
                self.add(FINDING_RECORD_POSITION, position, position, said)

    cdef void _time(self, int64_t time, int64_t position) noexcept nogil:
        """Of two neighbours that go back, the odd one is that which does not fit the record before both."""
        cdef Tally* tally = &self.tally
        cdef bint goes_back = tally.timed_records > 0 and time < tally.time_last
        if tally.timed_records == 0:
            tally.time_first = time
            tally.time_first_position = position
        if goes_back and tally.timed_records > 1 and time >= tally.time_before:
            self.add(FINDING_TIME_ORDER, tally.time_last_position, time, tally.time_last)
        elif goes_back:
            self.add(FINDING_TIME_ORDER, position, tally.time_last, time)
        tally.time_before = time if goes_back else tally.time_last
        tally.time_last = time
        tally.time_last_position = position
        tally.timed_records += 1

    cdef void _term(self, const Record* record, const uint8_t* message, int64_t position) noexcept nogil:
        cdef TermRun* run
        cdef int64_t count = self.tally.term_run_count
        cdef bint begins = record.kind == KIND_NEW_TERM
        if count > TERM_RUNS_MAX:
            return
        if count and not begins and self.term_runs[count - 1].leadership_term == record.leadership_term:
            self.term_runs[count - 1].records += 1
            self.term_runs[count - 1].position_last = position
            return
        self.tally.term_run_count += 1
        if count == TERM_RUNS_MAX:
            return
        run = &self.term_runs[count]
        run.leadership_term = record.leadership_term
        run.position = run.position_last = position
        run.records = 1
        run.begins = begins
        run.cluster_time = record.cluster_time
        run.leader = ordo_get_i32(message + NEW_LEADERSHIP_TERM_EVENT_LEADER_ID) if begins else -1

    cdef void _cover(self, const Record* record, int64_t position) noexcept nogil:
        """Note a record that is not near the report before it; the next report may be near, which `_report` sees to."""
        cdef int64_t count = self.tally.clock_run_count
        cdef ClockRun* last = &self.clock_runs[count - 1] if count else NULL
        if last != NULL and last.leadership_term == record.leadership_term:
            if not last.reports:
                last.time_last = record.cluster_time
                return
            if record.cluster_time <= time_after(last.time_last, last.reach):
                return
        self._add_run(record, position)

    cdef ClockRun* _add_run(self, const Record* record, int64_t position) noexcept nogil:
        """Begin a run without reports; NULL where there are too many."""
        cdef int64_t count = self.tally.clock_run_count
        cdef ClockRun* run = &self.clock_runs[min(count, CLOCK_RUNS_MAX - 1)]
        if count == CLOCK_RUNS_MAX:
            run.reports = -1
            return NULL
        memset(run, 0, sizeof(ClockRun))
        run.leadership_term = record.leadership_term
        run.position = position
        run.time_first = run.time_last = record.cluster_time
        self.tally.clock_run_count += 1
        return run

    cdef void _report(self, const Record* record, const uint8_t* message, int64_t position) noexcept nogil:
        cdef int64_t count = self.tally.clock_run_count
        cdef int64_t interval = ordo_get_i64(message + CLOCK_EVENT_INTERVAL)
        cdef int64_t reach = max(0, min(interval, INT64_MAX // 4)) * REPORT_INTERVALS // unit_ns(record.cluster_time)
        cdef ClockRun* last = &self.clock_runs[count - 1] if count else NULL
        cdef ClockRun* run
        if count > 1 and not last.reports and last.leadership_term == record.leadership_term:
            if time_after(last.time_first, reach) >= record.cluster_time and self._says_same(last - 1, record, message):
                self.tally.clock_run_count -= 1
                last -= 1
        if last != NULL and self._says_same(last, record, message):
            run = last
        else:
            run = self._add_run(record, position)
            if run == NULL:
                return
            run.member = ordo_get_i32(message + CLOCK_EVENT_MEMBER_ID)
            run.source = ordo_get_i32(message + CLOCK_EVENT_SOURCE)
            run.is_synchronized = ordo_get_i32(message + CLOCK_EVENT_IS_SYNCHRONIZED)
            run.reach_first = reach
        run.reports += 1
        run.time_last = record.cluster_time
        run.reach = reach
        self._take_figures(run, message)

    cdef bint _says_same(self, const ClockRun* run, const Record* record, const uint8_t* message) noexcept nogil:
        return (
            run.reports > 0
            and run.leadership_term == record.leadership_term
            and run.member == ordo_get_i32(message + CLOCK_EVENT_MEMBER_ID)
            and run.source == ordo_get_i32(message + CLOCK_EVENT_SOURCE)
            and run.is_synchronized == ordo_get_i32(message + CLOCK_EVENT_IS_SYNCHRONIZED)
        )

    cdef void _take_figures(self, ClockRun* run, const uint8_t* message) noexcept nogil:
        cdef int64_t bound = without_sign(ordo_get_i64(message + CLOCK_EVENT_ERROR_BOUND))
        cdef int64_t ahead = without_sign(ordo_get_i64(message + CLOCK_EVENT_WALL_CLOCK_AHEAD))
        run.offset = max(run.offset, without_sign(ordo_get_i64(message + CLOCK_EVENT_OFFSET)))
        run.error_estimate = max(run.error_estimate, without_sign(ordo_get_i64(message + CLOCK_EVENT_ERROR_ESTIMATE)))
        run.error_bound = max(run.error_bound, bound)
        run.wall_clock_ahead = max(run.wall_clock_ahead, ahead)
        run.error = max(run.error, time_after(bound, ahead))


cdef struct Difference:
    int64_t frame_position
    int64_t byte_position               # -1: one file ends
    int left
    int right


cdef int64_t frame_around(MessageCursor cursor, int64_t from_position, int64_t byte_position,
                          int64_t* aligned) noexcept nogil:
    """Position of the frame that holds a byte, walking headers from a known one; -1 when the chain breaks before it."""
    cdef int64_t position = from_position
    cdef const uint8_t* frame
    while True:
        frame = cursor.view(position, HEADER_LENGTH)
        if frame == NULL or check_header(frame, position, &cursor.layout) != FAULT_NONE:
            cursor.fault = FAULT_NONE
            aligned[0] = HEADER_LENGTH
            return position
        aligned[0] = align_frame(ordo_get_i32(frame))
        if position + aligned[0] > byte_position:
            return position
        position += aligned[0]


cdef int64_t first_different_byte(MessageCursor left, MessageCursor right, int64_t position,
                                  int64_t end) noexcept nogil:
    """Position of the first byte that differs in [position, end), or `end`; where one file ends it differs."""
    cdef const uint8_t* a
    cdef const uint8_t* b
    cdef int64_t length, index
    while position < end:
        length = min(<int64_t> COMPARE_LENGTH, end - position)
        a = left.view(position, length)
        b = right.view(position, length)
        if a == NULL or b == NULL:
            left.fault = right.fault = FAULT_NONE
            length = min(length, <int64_t> HEADER_LENGTH)
            a = left.view(position, length)
            b = right.view(position, length)
            if a == NULL or b == NULL:
                left.fault = right.fault = FAULT_NONE
                return position
        if memcmp(a, b, length):
            for index in range(length):
                if a[index] != b[index]:
                    return position + index
        position += length
    return end


cdef bint describe(MessageCursor left, MessageCursor right, int64_t byte_position, Difference* out) noexcept nogil:
    """The two bytes at a place that differs; False when a file ends there."""
    cdef const uint8_t* a = left.view(byte_position, 1)
    cdef const uint8_t* b = right.view(byte_position, 1)
    left.fault = right.fault = FAULT_NONE
    out.byte_position = byte_position
    out.left = a[0] if a != NULL else -1
    out.right = b[0] if b != NULL else -1
    return a != NULL and b != NULL


cdef bint differ_in_checksums(MessageCursor left, MessageCursor right, int64_t position) noexcept nogil:
    """Two whole frames that say the same, one with a checksum of an older version or of Aeron's archive."""
    cdef const uint8_t* a = left.view(position, HEADER_LENGTH)
    cdef const uint8_t* b = NULL
    cdef int64_t needed, compared, behind
    cdef int32_t place
    if a == NULL or check_header(a, position, &left.layout) != FAULT_NONE:
        left.fault = FAULT_NONE
        return False
    needed = compared = body_needed(a, &left.layout)
    place, behind = CHECKSUM_OFFSET, CHECKSUM_OFFSET + CHECKSUM_LENGTH
    if ordo_get_u16(a + FRAME_TYPE_OFFSET) == TYPE_PAD:
        place, behind, compared = RESERVED_VALUE_OFFSET, HEADER_LENGTH, HEADER_LENGTH
    a = left.view(position, needed)
    b = right.view(position, needed)
    left.fault = right.fault = FAULT_NONE
    if a == NULL or b == NULL or memcmp(a, b, place) or memcmp(a + behind, b + behind, compared - behind):
        return False
    return check_body(a, &left.layout) == FAULT_NONE and check_body(b, &right.layout) == FAULT_NONE


def compare_segments(MessageCursor left, MessageCursor right, int64_t start, int64_t end, int64_t differences_max=64):
    """Frames of [start, end) that differ, at most `differences_max`: list of (frame position, byte position, left byte,
    right byte, is the left frame padding); a byte of -1 is beyond the end of its file. What lies in the hole of a
    padding frame does not count, nor the kind of a checksum.

    `start` is where a frame begins on both sides.
    """
    cdef int64_t position = start
    cdef int64_t different, frame_position, aligned = 0
    cdef const uint8_t* frame
    cdef Difference found
    cdef bint both, padding, same
    differences = []
    frame_position = start
    while position < end and len(differences) < differences_max:
        with nogil:
            different = first_different_byte(left, right, position, end)
        if different >= end:
            break
        with nogil:
            frame_position = frame_around(left, frame_position, different, &aligned)
            frame = left.view(frame_position, HEADER_LENGTH)
            padding = frame != NULL and ordo_get_u16(frame + FRAME_TYPE_OFFSET) == TYPE_PAD and ordo_get_i32(frame) > 0
            left.fault = FAULT_NONE
            both = describe(left, right, different, &found)
            same = both and differ_in_checksums(left, right, frame_position)
        if not same and (not padding or different - frame_position < HEADER_LENGTH):
            differences.append((frame_position, found.byte_position, found.left, found.right, bool(padding)))
        if not both:
            break
        position = max(different + 1, frame_position + aligned)
    return differences
