"""Streams that messages come from. See sources.pxd."""

from libc.stdint cimport int64_t, uint8_t

from ordo.cluster.wire.layout cimport REQUEST_BLOCK, SESSION_MESSAGE_HEADER_ID, is_request, template_id
from ordo.runtime.native.atomics cimport ordo_get_u16
from ordo.runtime.native.time_units cimport SECOND_NS

cdef enum:
    STRANGERS_PER_TURN = 8
    MANY_STRANGERS_NS = 100000         # between looks at more than fit into one turn

cdef int32_t UNPROVEN = -1
cdef int64_t READERS_HEARD_NS = SECOND_NS      # a member that says for so long no more that its log is followed has no readers


cdef class Source:
    def __init__(self, Image image not None):
        self.image = image
        self.weight = 1


cdef class ConsensusSource(Source):
    def __init__(self, Image image not None):
        super().__init__(image)
        self.member_id = UNPROVEN
        self.readers_heard_ns = -READERS_HEARD_NS

    def prove(self, int32_t member_id):
        """The stream is this member's."""
        self.member_id = member_id

    def disprove(self):
        """The stream has to prove anew whose it is."""
        self.member_id = UNPROVEN

    cdef bint has_readers(self, int64_t now_ns) noexcept nogil:
        return now_ns - self.readers_heard_ns < READERS_HEARD_NS


cdef class IngressSource(Source):
    def __init__(self, Image image not None, bint is_timed=False):
        super().__init__(image)
        self.assembler = Assembler()
        self.is_timed = is_timed


cdef class Sources:
    def __init__(self):
        self.proven = []
        self._strangers = []

    cpdef void add(self, Source source) noexcept:
        self._strangers.append(source)

    cpdef void remove(self, Image image) noexcept:
        self.proven = [source for source in self.proven if (<Source> source).image is not image]
        self._strangers = [source for source in self._strangers if (<Source> source).image is not image]
        self._count_first()

    cpdef void promote(self, Source source) noexcept:
        self.remove(source.image)
        self.proven = [source, *self.proven] if source.is_first else [*self.proven, source]
        self._count_first()

    def _count_first(self):
        self.first_count = sum([(<Source> source).is_first for source in self.proven])

    cpdef void set_lane(self, Source source, int weight, bint is_first) noexcept:
        """Give a source its share of each round, and its lane."""
        source.weight = weight
        if source.is_first != is_first:
            source.is_first = is_first
            if source in self.proven:
                self.promote(source)

    cdef Py_ssize_t place(self, Py_ssize_t number, Py_ssize_t count) noexcept:
        cdef Py_ssize_t others = count - self.first_count
        if number < self.first_count:
            return (number + self._first_turn) % self.first_count
        return self.first_count + (number - self.first_count + self._turn) % others

    cdef void end_turn(self, Py_ssize_t cut) noexcept:
        cdef Py_ssize_t others = len(self.proven) - self.first_count
        self._first_turn += cut if 0 <= cut < self.first_count else 1
        self._first_turn = self._first_turn % self.first_count if self.first_count > 0 else 0
        if cut < 0:
            self._turn += 1
        elif cut > self.first_count:
            self._turn += cut - self.first_count
        self._turn = self._turn % others if others > 0 else 0

    cdef Source stranger_of(self, Image image):
        for source in self._strangers:
            if (<Source> source).image is image:
                return source
        return None

    cdef int stranger_count(self, int64_t now_ns) noexcept:
        cdef Py_ssize_t count = len(self._strangers)
        if count <= STRANGERS_PER_TURN:
            return <int> count
        if now_ns - self._looked_ns < MANY_STRANGERS_NS:
            return 0
        self._looked_ns = now_ns
        return STRANGERS_PER_TURN

    cdef Source next_stranger(self):
        if self._next >= len(self._strangers):
            self._next = 0
        if not self._strangers:
            return None
        self._next += 1
        return <Source> self._strangers[self._next - 1]

    # --- for tests ------------------------------------------------------------------------------------------------

    def turn(self, int64_t now_ns):
        """The sources that one turn looks at."""
        return [*self.proven, *[self.next_stranger() for _ in range(self.stranger_count(now_ns))]]

    def end_round(self, int cut=-1):
        """The proven ones in the order of this turn, which ends: one of that number found no room, or -1."""
        cdef Py_ssize_t count = len(self.proven)
        found = [self.proven[self.place(number, count)] for number in range(count)]
        self.end_turn(cut)
        return found


cdef class Allowance:
    def __init__(self, int per_second, int burst):
        self._interval_ns = SECOND_NS // per_second
        self._burst_ns = self._interval_ns * burst

    cdef bint take(self, int64_t now_ns) noexcept nogil:
        if self._paid_until_ns < now_ns:
            self._paid_until_ns = now_ns
        if self._paid_until_ns + self._interval_ns > now_ns + self._burst_ns:
            return False
        self._paid_until_ns += self._interval_ns
        return True

    cdef void give_back(self) noexcept nogil:
        self._paid_until_ns -= self._interval_ns

    # --- for tests ------------------------------------------------------------------------------------------------

    def ask(self, int64_t now_ns):
        """Like `take`, callable from Python."""
        return self.take(now_ns)


cdef bint takes_interpreter(const uint8_t* message, int64_t length_bytes) noexcept nogil:
    """Whether a message is dealt with in Python, whatever becomes of it: any but those of the steady state."""
    if template_id(message, length_bytes) == SESSION_MESSAGE_HEADER_ID:
        return False
    return not is_request(message, length_bytes) or ordo_get_u16(message) > REQUEST_BLOCK
