"""Open sessions, by id. See session_table.pxd."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from ordo.sequencer.quotas cimport UNASKED
from ordo.transport.streams.image cimport Image

cdef enum:
    EMPTY_SLOT = -1
    REMOVED_SLOT = -2
    FIRST_CAPACITY = 1024


cdef class SessionTable:
    def __cinit__(self):
        self._allocate(FIRST_CAPACITY)

    def __dealloc__(self):
        free(self.ids)
        free(self.activity)
        free(self.owners)
        free(self.accounts)

    def _allocate(self, int64_t capacity):
        cdef int64_t slot
        self.ids = <int64_t*> calloc(capacity, sizeof(int64_t))
        self.activity = <int64_t*> calloc(capacity, sizeof(int64_t))
        self.owners = <int64_t*> calloc(capacity, sizeof(int64_t))
        self.accounts = <int32_t*> calloc(capacity, sizeof(int32_t))
        if self.ids == NULL or self.activity == NULL or self.owners == NULL or self.accounts == NULL:
            raise MemoryError("no memory for the session table")
        for slot in range(capacity):
            self.ids[slot] = EMPTY_SLOT
        self.mask = capacity - 1

    cdef int64_t find(self, int64_t session_id) noexcept nogil:
        cdef int64_t slot = session_id & self.mask
        cdef int64_t probes = 0
        if session_id < 0:             # no session's: a message from outside may name one all the same
            return -1
        while probes <= self.mask:
            if self.ids[slot] == session_id:
                return slot
            if self.ids[slot] == EMPTY_SLOT:
                return -1
            slot = (slot + 1) & self.mask
            probes += 1
        return -1

    cpdef void put(self, int64_t session_id, int64_t activity):
        cdef int64_t slot = self.find(session_id)
        if slot < 0:
            if (self.used + 1) * 2 > self.mask:
                self._rebuild()
            slot = session_id & self.mask
            while self.ids[slot] >= 0:
                slot = (slot + 1) & self.mask
            self.used += self.ids[slot] == EMPTY_SLOT
            self.ids[slot] = session_id
            self.owners[slot] = UNCLAIMED
            self.accounts[slot] = UNASKED
            self.count += 1
        self.activity[slot] = activity

    cpdef void remove(self, int64_t session_id):
        cdef int64_t slot = self.find(session_id)
        if slot >= 0:
            self.ids[slot] = REMOVED_SLOT
            self.count -= 1

    def _rebuild(self):
        """Room for more, and no removed slots, which every search would have to pass."""
        cdef int64_t* ids = self.ids
        cdef int64_t* activity = self.activity
        cdef int64_t* owners = self.owners
        cdef int32_t* accounts = self.accounts
        cdef int64_t slot
        cdef int64_t capacity = self.mask + 1
        self._allocate(capacity * 2 if (self.count + 1) * 4 > self.mask else capacity)
        self.count = 0
        self.used = 0
        for slot in range(capacity):
            if ids[slot] >= 0:
                self.put(ids[slot], activity[slot])
                self.owners[self.find(ids[slot])] = owners[slot]
                self.accounts[self.find(ids[slot])] = accounts[slot]
        free(ids)
        free(activity)
        free(owners)
        free(accounts)

    def claim(self, int64_t session_id, Image image not None):
        """From now on messages of this session are taken from this image only."""
        cdef int64_t slot = self.find(session_id)
        if slot >= 0 and self.owners[slot] != MUTE:
            if self.owners[slot] != image.correlation_id:
                self.accounts[slot] = UNASKED       # the image has the weight of its sessions
            self.owners[slot] = image.correlation_id

    def mute(self, int64_t session_id):
        """No message of this session is taken from now on; its client may still keep it alive, ask and close it."""
        cdef int64_t slot = self.find(session_id)
        if slot >= 0:
            self.owners[slot] = MUTE

    def is_owner(self, int64_t session_id, Image image not None):
        """True when the session's messages are taken from this image, or nobody has claimed it yet."""
        cdef int64_t slot = self.find(session_id)
        return slot >= 0 and self.owners[slot] in (UNCLAIMED, image.correlation_id)

    def get_account(self, int64_t session_id):
        """The account of a session's quota; a negative number where there is none."""
        cdef int64_t slot = self.find(session_id)
        return UNASKED if slot < 0 else self.accounts[slot]

    def get_activity(self, int64_t session_id):
        """Cluster time of the last ingress of a session, or None when it is not in the table."""
        cdef int64_t slot = self.find(session_id)
        return None if slot < 0 else self.activity[slot]

    def find_silent(self, int64_t before):
        """Ids of the sessions whose last activity was before a time, in ascending order."""
        cdef int64_t slot
        cdef list found = []
        for slot in range(self.mask + 1):
            if self.ids[slot] >= 0 and self.activity[slot] < before:
                found.append(self.ids[slot])
        found.sort()
        return found

    def clear(self):
        cdef int64_t slot
        for slot in range(self.mask + 1):
            self.ids[slot] = EMPTY_SLOT
        self.count = 0
        self.used = 0
