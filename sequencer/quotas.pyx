"""Bounds on what a leader takes into its log. See quotas.pxd."""

from libc.stdint cimport int32_t, int64_t

from ordo.runtime.native.counters cimport Counter
from ordo.runtime.native.native_vector cimport NativeVector
from ordo.runtime.native.sentinels cimport NEVER
from ordo.runtime.native.time_units cimport MILLISECOND_NS, SECOND_NS

cdef enum:
    ACCOUNTS_MAX = 1 << 20
    PICOSECONDS = 1000                    # of a nanosecond

cdef int64_t STILL_HELD_NS = SECOND_NS    # an account is said to be held for so long after the newest message that was


cdef class Quotas:
    def __init__(self, int64_t burst_ns=0, int64_t backlog_bytes=0, positions=()):
        """Take the time that an account saves up for, and how far the log may be ahead of the services' `positions`."""
        self._accounts = NativeVector(sizeof(Account), ACCOUNTS_MAX)
        self._free = []
        self._burst_ns = burst_ns
        self._positions = list(positions)
        self.backlog_bytes = backlog_bytes
        self.limit_position = NEVER
        self.due_ns = NEVER

    def count_sessions(self):
        """Ask for the account of each session from now on."""
        self.has_accounts = True

    def open(self, int64_t messages, int64_t size_bytes, int32_t payer=NO_ACCOUNT):
        """Open an account of that number of messages and bytes a second (0: not bounded); return its number.

        Its `payer` is charged for the same messages.
        """
        cdef int32_t number
        if self._free:
            number = self._free.pop()
        else:
            number = <int32_t> self._accounts.count
            self._accounts.append()
        self._account(number)[0] = Account(message_ns=SECOND_NS // messages if messages else 0,
                             byte_ps=<int64_t> SECOND_NS * PICOSECONDS // size_bytes if size_bytes else 0,
                             messages_paid_ns=0, bytes_paid_ns=0, held_since_ns=0,
                             held_until_ns=-STILL_HELD_NS, held_count=0, payer=payer, is_open=True)
        return number

    def close(self, int32_t number):
        """Close an account; its number may be another's from now on."""
        self._account(number).is_open = False
        self._free.append(number)

    def is_settled(self, int32_t number, int64_t now_ns):
        """Whether an account has as much quota again as a new one."""
        cdef Account* account = self._account(number)
        return account.messages_paid_ns <= now_ns and account.bytes_paid_ns <= now_ns

    cdef Account* _account(self, int32_t number) except NULL:
        if not 0 <= number < self._accounts.count:
            raise ValueError(f"account {number}: there are {self._accounts.count}")
        return <Account*> self._accounts.items + number

    def is_held(self, int32_t number):
        """Whether messages of an account have to wait."""
        return number >= 0 and self.now_ns < self._account(number).held_until_ns + STILL_HELD_NS

    def list_held(self, int64_t now_ns):
        """The open accounts whose messages have to wait: (number, since when)."""
        cdef Account* account = <Account*> self._accounts.items
        cdef int64_t number
        cdef list found = []
        for number in range(self._accounts.count):
            if account[number].is_open and now_ns < account[number].held_until_ns + STILL_HELD_NS:
                found.append((number, account[number].held_since_ns))
        return found

    cdef void begin_turn(self, int64_t now_ns) noexcept:
        cdef Counter position
        cdef int64_t executed = NEVER
        self.now_ns = now_ns
        self.is_full = False
        self.due_ns = NEVER
        if self._positions:
            for position in self._positions:
                executed = min(executed, position.get())
            self.limit_position = executed + self.backlog_bytes

    cdef int64_t ready_ns(self, int32_t number) noexcept nogil:
        cdef Account* account
        cdef int64_t paid_ns = 0
        while number >= 0:
            account = <Account*> self._accounts.items + number
            paid_ns = max(paid_ns, account.messages_paid_ns, account.bytes_paid_ns)
            number = account.payer
        return paid_ns - self._burst_ns

    cdef void hold(self, int32_t number, int64_t ready_ns) noexcept nogil:
        """A message waits for its quota until then. So does its session; of a principal where that has used its own."""
        cdef Account* account
        cdef int64_t latest_ns = self.now_ns + self._burst_ns
        cdef int32_t session = number
        self.held_count += 1
        self.note_due(ready_ns)
        while number >= 0:
            account = <Account*> self._accounts.items + number
            if number == session or account.messages_paid_ns > latest_ns or account.bytes_paid_ns > latest_ns:
                account.held_count += 1
                if self.now_ns >= account.held_until_ns + STILL_HELD_NS:
                    account.held_since_ns = self.now_ns
                account.held_until_ns = ready_ns
            number = account.payer

    cdef void note_due(self, int64_t ready_ns) noexcept nogil:
        self.due_ns = min(self.due_ns, ready_ns)

    cdef bint is_behind(self, int64_t log_position, bint is_first) noexcept nogil:
        if log_position <= self.limit_position or is_first and log_position - self.limit_position <= self.backlog_bytes:
            return False
        self.is_full = True
        self.note_due(self.now_ns + MILLISECOND_NS)
        return True

    cdef void charge(self, int32_t number, int64_t length_bytes) noexcept nogil:
        cdef Account* account
        while number >= 0:
            account = <Account*> self._accounts.items + number
            if account.message_ns:
                account.messages_paid_ns = max(account.messages_paid_ns, self.now_ns) + account.message_ns
            if account.byte_ps:
                account.bytes_paid_ns = \
                    max(account.bytes_paid_ns, self.now_ns) + length_bytes * account.byte_ps // PICOSECONDS
            number = account.payer

    # --- for tests ------------------------------------------------------------------------------------------------

    def take(self, int32_t number, int64_t length_bytes, int64_t now_ns):
        """Whether a message is taken at a time, as the Sequencer does it."""
        cdef int64_t ready_ns
        self.begin_turn(now_ns)
        ready_ns = self.ready_ns(number)
        if ready_ns > now_ns:
            self.hold(number, ready_ns)
            return False
        self.charge(number, length_bytes)
        return True
