"""Simulated storage: a disk that loses what was not synced, tears, rots, fails and fills up.

One SimulatedDisk a node. It outlives the node's process; `crash` decides what survives of each write that no sync had
covered: pages of 4096 bytes, each kept or lost by the seed, so that a long write can be torn in the middle.
"""

import errno
from bisect import bisect_left
from contextlib import contextmanager

cimport cython
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from ordo.runtime.native.clock cimport Clock
from ordo.runtime.native.memory cimport Memory, allocate
from ordo.runtime.native.native_vector cimport NativeVector
from ordo.runtime.errors import StorageError, StorageInUseError
from ordo.runtime.io.storage import DirectoryLock, MetadataStore, Storage, Transaction, storage_error
from ordo.runtime.io.storage cimport SegmentFile, SyncQueue

cdef enum:
    PAGE = 4096
    EIO = 5
    ENOSPC = 28


cdef struct Undo:
    int64_t offset
    int64_t length
    uint8_t* before


cdef int64_t NEVER = 0x7FFFFFFFFFFFFFFFLL


@cython.no_gc_clear      # what it frees at its end is in a vector, which must be there still
cdef class SimulatedFile:
    """The bytes of a file, and what they were before each write that is not durable yet."""
    cdef uint8_t* data
    cdef readonly int64_t length_bytes
    cdef readonly int64_t taken_bytes            # of room on the disk: the end of what was written so far
    cdef NativeVector undo                       # of Undo
    cdef int64_t durable_count                   # writes that became durable so far
    cdef SimulatedDisk disk
    cdef readonly str path
    cdef public bint name_durable
    cdef int64_t unreadable_from                 # a page that the device gives back to nobody; both 0: there is none
    cdef int64_t unreadable_to
    cdef int64_t stale_from                      # a page that reads as it was before it was written; both 0: none
    cdef int64_t stale_to
    cdef Memory memory                           # owns the bytes once the file was mapped

    def __cinit__(self, SimulatedDisk disk, str path, int64_t length_bytes):
        self.disk = disk
        self.path = path
        self.length_bytes = length_bytes
        self.undo = NativeVector(sizeof(Undo))
        self.data = <uint8_t*> calloc(length_bytes, 1)
        if self.data == NULL:
            raise MemoryError(f"no memory for the simulated file {path}")

    def __dealloc__(self):
        self._forget(self.undo.count)
        if self.memory is None:
            free(self.data)

    cdef Memory map(self):
        """The bytes as memory. Stores into it are no writes of the process: a loss of power leaves all of them or none."""
        if self.memory is None:
            self.memory = allocate(self.length_bytes)
            memcpy(self.memory.data, self.data, self.length_bytes)
            free(self.data)
            self.data = self.memory.data
        self._remember(0, self.length_bytes)
        return self.memory.slice(0, self.length_bytes)

    cdef int write(self, const uint8_t* data, int64_t length, int64_t offset) noexcept nogil:
        if offset < 0 or offset + length > self.length_bytes:
            return -EIO
        if self.disk.next_write_fails() or not self._is_writable(offset, length):
            return -EIO
        if not self._take_space(offset, length):
            return -ENOSPC
        if not self._remember(offset, length):
            return -EIO
        if offset < self.stale_to and offset + length > self.stale_from:
            self.stale_from = self.stale_to = 0
        memcpy(self.data + offset, data, length)
        return 0

    cdef bint _is_writable(self, int64_t offset, int64_t length) noexcept nogil:
        """A page that cannot be read is whole again when all of it is written; a part of it cannot be, since the system
        reads the page first."""
        if not self.is_unreadable(offset, length):
            return True
        if offset > self.unreadable_from or offset + length < self.unreadable_to:
            return False
        self.unreadable_from = self.unreadable_to = 0
        return True

    cdef bint is_unreadable(self, int64_t offset, int64_t length) noexcept nogil:
        return offset < self.unreadable_to and offset + length > self.unreadable_from

    cdef bint _take_space(self, int64_t offset, int64_t length) noexcept nogil:
        """Room for a write; none is needed below what was written before."""
        cdef int64_t needed = offset + length - self.taken_bytes
        if needed > 0:
            if not self.disk.take_space(needed):
                return False
            self.taken_bytes += needed
        return True

    cdef bint _remember(self, int64_t offset, int64_t length) noexcept nogil:
        cdef Undo* entry
        cdef uint8_t* before
        if not self.disk.remembers:
            return True
        before = <uint8_t*> malloc(length if length else 1)
        entry = <Undo*> self.undo.try_append() if before != NULL else NULL
        if entry == NULL:
            free(before)
            return False
        memcpy(before, self.data + offset, length)
        entry.offset = offset
        entry.length = length
        entry.before = before
        return True

    cdef void _forget(self, int64_t count) noexcept nogil:
        """The first `count` writes are durable."""
        cdef Undo* undo = <Undo*> self.undo.items
        cdef int64_t index
        self.durable_count += count
        for index in range(count):
            free(undo[index].before)
        for index in range(count, self.undo.count):
            undo[index - count] = undo[index]
        self.undo.truncate(self.undo.count - count)

    def crash(self, random):
        """Takes back pages of writes that were not synced, newest first; each page survives with a chance of half."""
        cdef int64_t index, start, end
        cdef Undo* entry
        for index in range(self.undo.count - 1, -1, -1):
            entry = &(<Undo*> self.undo.items)[index]
            start = entry.offset
            while start < entry.offset + entry.length:
                end = min((start // PAGE + 1) * PAGE, entry.offset + entry.length)
                if random.random() < 0.5:
                    memcpy(self.data + start, entry.before + (start - entry.offset), end - start)
                start = end
        self._forget(self.undo.count)

    def first_volatile(self):
        """The lowest offset that a power loss may take back, or None when all of the file is durable."""
        cdef int64_t index, lowest = self.length_bytes
        for index in range(self.undo.count):
            lowest = min(lowest, (<Undo*> self.undo.items)[index].offset)
        return None if self.undo.count == 0 else lowest

    def flip_bit(self, int64_t offset, int bit):
        """Rot: one bit changes, unnoticed."""
        self.data[offset] ^= 1 << bit

    def break_page(self, int64_t offset):
        """The device cannot read the page there any more."""
        self.unreadable_from = offset // PAGE * PAGE
        self.unreadable_to = self.unreadable_from + PAGE

    def lose_write(self, int64_t offset):
        """The device said yes to what was written into the page there, and wrote nothing."""
        memset(self.data + offset // PAGE * PAGE, 0, PAGE)

    def misdirect(self, int64_t offset, int64_t target):
        """The device wrote what belongs into the page of one offset into that of another."""
        memcpy(self.data + target // PAGE * PAGE, self.data + offset // PAGE * PAGE, PAGE)
        self.lose_write(offset)

    def make_stale(self, int64_t offset):
        """The device reads the page there as it was before anything was written, until it is written again."""
        self.stale_from = offset // PAGE * PAGE
        self.stale_to = self.stale_from + PAGE

    cdef void hide_stale(self, uint8_t* data, int64_t length, int64_t offset) noexcept nogil:
        """Put into bytes that were read at an offset what the device gives back of a stale page."""
        cdef int64_t start = max(offset, self.stale_from)
        cdef int64_t end = min(offset + length, self.stale_to)
        if start < end:
            memset(data + (start - offset), 0, end - start)

    def is_zero(self, int64_t offset):
        return self.data[offset] == 0

    def contents(self):
        return self.data[:self.length_bytes]

    def fill(self, bytes contents, int64_t taken_bytes):
        """What a copy of it had; all of it is durable."""
        memcpy(self.data, <const char*> contents, min(len(contents), self.length_bytes))
        self.taken_bytes = taken_bytes
        self.name_durable = True


cdef class SimulatedSegment(SegmentFile):
    """An open handle of a SimulatedFile."""
    cdef SimulatedFile file

    def __cinit__(self, SimulatedFile file):
        self.file = file
        self.path = file.path
        self.length_bytes = file.length_bytes

    cdef int write(self, const uint8_t* data, int64_t length_bytes, int64_t offset) noexcept nogil:
        return self.file.write(data, length_bytes, offset)

    cdef int64_t read(self, uint8_t* data, int64_t length_bytes, int64_t offset) noexcept nogil:
        cdef int64_t count = min(length_bytes, self.file.length_bytes - offset)
        if offset < 0 or count <= 0:
            return 0
        if self.file.disk.next_read_fails() or self.file.is_unreadable(offset, count):
            return -EIO
        memcpy(data, self.file.data + offset, count)
        self.file.hide_stale(data, count, offset)
        return count

    cdef int sync(self) noexcept nogil:
        if self.file.disk.next_sync_fails():
            return -EIO
        self.file._forget(self.file.undo.count)
        return 0

    cpdef Memory map(self):
        return self.file.map()

    def close(self):
        pass


cdef class SimulatedFolder(SegmentFile):
    """A folder opened for its sync: the names in it become durable."""
    cdef SimulatedDisk disk

    def __cinit__(self, SimulatedDisk disk, str path):
        self.disk = disk
        self.path = path

    cdef int sync(self) noexcept nogil:
        if self.disk.next_sync_fails():
            return -EIO
        with gil:
            self.disk.names_durable(self.path)
        return 0

    def close(self):
        pass


cdef void settle(SimulatedFile file, int64_t covered) noexcept:
    """Every write of the file up to the `covered`th is durable."""
    if covered > file.durable_count:
        file._forget(covered - file.durable_count)


cdef class SimulatedSyncQueue(SyncQueue):
    """Syncs that complete in order, each after the disk's sync delay; what was written after the request is not in."""

    def __init__(self, Clock clock, SimulatedDisk disk):
        self.clock = clock
        self.disk = disk
        self.files = [None] * SYNCS_MAX

    cdef int64_t request(self, SegmentFile file):
        cdef int64_t ticket = self.requested + 1
        cdef int64_t slot = ticket % SYNCS_MAX
        assert self.requested - self.done < SYNCS_MAX - 1, "too many syncs in flight"
        self.files[slot] = file
        self.last_due_ns = max(self.last_due_ns, self.clock.nano_time() + (<SimulatedDisk> self.disk).draw_sync_delay())
        self.pending[slot].due_ns = self.last_due_ns
        self.pending[slot].covered = 0
        if isinstance(file, SimulatedSegment):
            written = (<SimulatedSegment> file).file
            self.pending[slot].covered = (<SimulatedFile> written).durable_count + (<SimulatedFile> written).undo.count
        self.requested = ticket
        return ticket

    cdef int64_t completed(self) noexcept nogil:
        cdef int64_t now_ns = self.clock.nano_time()
        cdef int64_t slot
        while self.done < self.requested and not self.failure:
            slot = (self.done + 1) % SYNCS_MAX
            if self.pending[slot].due_ns > now_ns:
                break
            if (<SimulatedDisk> self.disk).next_sync_fails():
                self.failure = -EIO
                break
            self._complete(slot)
            self.done += 1
        return self.done

    cdef void _complete(self, int64_t slot) noexcept nogil:
        with gil:
            handle = self.files[slot]
            self.files[slot] = None
            if isinstance(handle, SimulatedFolder):
                self.disk.names_durable((<SimulatedFolder> handle).path)
            else:
                settle((<SimulatedSegment> handle).file, self.pending[slot].covered)

    cdef int error(self) noexcept nogil:
        return self.failure

    def close(self):
        """Nothing to give back."""

    cdef int64_t due_after(self, int64_t after_ns) noexcept nogil:
        """When the next sync completes after a time."""
        cdef int64_t ticket
        if self.last_due_ns <= after_ns:
            return NEVER
        for ticket in range(self.done + 1, self.requested + 1):
            if self.pending[ticket % SYNCS_MAX].due_ns > after_ns:
                return self.pending[ticket % SYNCS_MAX].due_ns
        return NEVER


class PowerLoss(BaseException):
    """The machine lost power inside a metadata transaction; whoever drives the node lets its process go."""


cdef class SimulatedDisk:
    """Every file of one node, and the faults it is to meet.

    `*_until_failure`: the count of calls until every further one fails, -1: none does. `transactions_until_loss`: the
    same for a PowerLoss, raised once before or (`loss_follows_commit`) after the transaction became durable.
    `remembers` False: no power is ever lost, so that what a write replaced need not be kept.
    """
    cdef readonly dict files                     # path -> SimulatedFile
    cdef readonly dict stores                    # path -> dict of committed metadata
    cdef set directories
    cdef dict locks
    cdef object random
    cdef public int64_t free_bytes
    cdef public int64_t writes_until_failure     # -1: none
    cdef public int64_t syncs_until_failure
    cdef public int64_t reads_until_failure
    cdef public int64_t metadata_until_failure   # calls about names and folders, and metadata transactions
    cdef public int64_t sync_delay_ns_min
    cdef public int64_t sync_delay_ns_max
    cdef public int64_t slowness                 # so many times as long as usual each sync takes, and each commit
    cdef public object on_stall                  # of metadata: called with the time for which that holds up its process
    cdef public int64_t transactions_until_loss
    cdef public bint loss_follows_commit
    cdef public bint remembers
    cdef list removed

    def __init__(self, random, int64_t capacity_bytes=1 << 40):
        self.files = {}
        self.stores = {}
        self.directories = set()
        self.locks = {}
        self.random = random
        self.free_bytes = capacity_bytes
        self.writes_until_failure = self.syncs_until_failure = self.reads_until_failure = -1
        self.metadata_until_failure = self.transactions_until_loss = -1
        self.slowness = 1
        self.on_stall = None
        self.remembers = True
        self.removed = []

    def next_transaction_loses_power(self):
        """True once, at the transaction that was chosen."""
        if self.transactions_until_loss < 0:
            return False
        self.transactions_until_loss -= 1
        return self.transactions_until_loss < 0

    def volatile_from(self, str prefix):
        """(path, offset) of the lowest byte in each file below `prefix` that a power loss may take back."""
        found = []
        for path, file in self.files.items():
            if path.startswith(prefix):
                offset = file.first_volatile()
                if offset is not None:
                    found.append((path, offset))
        return found

    cdef bint next_write_fails(self) noexcept nogil:
        if self.writes_until_failure > 0:
            self.writes_until_failure -= 1
        return self.writes_until_failure == 0

    cdef bint next_sync_fails(self) noexcept nogil:
        if self.syncs_until_failure > 0:
            self.syncs_until_failure -= 1
        return self.syncs_until_failure == 0

    cdef bint next_read_fails(self) noexcept nogil:
        if self.reads_until_failure > 0:
            self.reads_until_failure -= 1
        return self.reads_until_failure == 0

    def call_metadata(self, doing, path):
        """A call about names or metadata begins: raises StorageError where it is to fail, with nothing done."""
        if self.metadata_until_failure > 0:
            self.metadata_until_failure -= 1
        if self.metadata_until_failure == 0:
            raise storage_error(errno.EIO, doing, path)

    def is_drawn(self):
        """One of two outcomes that an error leaves open."""
        return self.random.random() < 0.5

    cdef bint take_space(self, int64_t length) noexcept nogil:
        if self.free_bytes < length:
            return False
        self.free_bytes -= length
        return True

    cdef int64_t draw_sync_delay(self):
        return self.slowness * (self.sync_delay_ns_min + <int64_t> (
            self.random.random() * (self.sync_delay_ns_max - self.sync_delay_ns_min + 1)))

    def stall(self):
        """A commit of metadata, or the sync of a folder, holds up the process of a disk that is slower than usual."""
        if self.slowness > 1 and self.on_stall is not None:
            self.on_stall(self.draw_sync_delay())

    def heal(self):
        """No more faults from here on."""
        self.writes_until_failure = self.syncs_until_failure = self.reads_until_failure = -1
        self.metadata_until_failure = self.transactions_until_loss = -1
        self.free_bytes = 1 << 40
        self.slowness = 1

    def crash(self):
        """The machine lost power: unsynced writes, names and removals are decided by the seed."""
        self.locks.clear()
        for path, file in self.removed:
            if path not in self.files and self.random.random() < 0.5:
                self.files[path] = file
                self.free_bytes -= file.taken_bytes
        self.removed.clear()
        for path in sorted(self.files):
            file = self.files[path]
            if not file.name_durable and self.random.random() < 0.5:
                del self.files[path]
                self.free_bytes += file.taken_bytes
            else:
                file.name_durable = True
                file.crash(self.random)

    def kill(self):
        """The process died: what it wrote is in the page cache still."""
        self.locks.clear()

    def wipe(self):
        """An empty disk."""
        self.free_bytes += sum(file.taken_bytes for file in self.files.values())
        self.files.clear()
        self.stores.clear()
        self.locks.clear()
        self.removed.clear()

    def image(self):
        """What a copy of the volume has, while no process uses it."""
        files = {path: (file.contents(), file.taken_bytes) for path, file in self.files.items()}
        return files, {path: dict(store) for path, store in self.stores.items()}

    def restore(self, image, str former="", str folder=""):
        """The volume becomes a copy, whose paths begin with `folder` instead of `former`."""
        self.wipe()
        files, stores = image
        for path, (contents, taken_bytes) in files.items():
            path = folder + path[len(former):]
            file = self.files[path] = SimulatedFile(self, path, len(contents))
            file.fill(contents, taken_bytes)
            self.free_bytes -= taken_bytes
        self.stores.update({folder + path[len(former):]: dict(store) for path, store in stores.items()})

    def note_removed(self, path, file):
        self.removed.append((path, file))

    def names_durable(self, directory):
        prefix = directory.rstrip("/") + "/"
        for path, file in self.files.items():
            if path.startswith(prefix):
                file.name_durable = True
        self.removed = [(path, file) for path, file in self.removed if not path.startswith(prefix)]


class SimulatedTransaction(Transaction):
    def __init__(self, committed):
        self._committed = committed
        self.changes = {}

    def get(self, key):
        return self.changes[key] if key in self.changes else self._committed.get(key)

    def put(self, key, value):
        self.changes[bytes(key)] = bytes(value)

    def delete(self, key):
        self.changes[bytes(key)] = None


class SimulatedMetadataStore(MetadataStore):
    """Atomic and durable at once, as LMDB is. One that fails is whole or nothing, on the disk; the process that asked
    does not know which."""

    def __init__(self, disk, path):
        self._disk = disk
        self._committed = disk.stores.setdefault(path, {})
        self._path = path

    def get(self, key):
        return self._committed.get(key)

    def items(self, prefix=b""):
        keys = sorted(self._committed)
        first = bisect_left(keys, prefix)
        found = []
        for key in keys[first:]:
            if not key.startswith(prefix):
                break
            found.append((key, self._committed[key]))
        return found

    @contextmanager
    def transaction(self):
        txn = SimulatedTransaction(self._committed)
        yield txn
        if (<SimulatedDisk> self._disk).next_write_fails():
            raise storage_error(errno.EIO, "commit", self._path)
        if (<SimulatedDisk> self._disk).free_bytes <= 0:
            raise storage_error(errno.ENOSPC, "commit", self._path)
        try:
            self._disk.call_metadata("commit", self._path)
        except StorageError:
            if self._disk.is_drawn():
                self._commit(txn)
            raise
        loses_power = (<SimulatedDisk> self._disk).next_transaction_loses_power()
        if loses_power and not (<SimulatedDisk> self._disk).loss_follows_commit:
            raise PowerLoss(self._path)
        self._commit(txn)
        self._disk.stall()
        if loses_power:
            raise PowerLoss(self._path)

    def _commit(self, txn):
        for key, value in txn.changes.items():
            if value is None:
                self._committed.pop(key, None)
            else:
                self._committed[key] = value

    def close(self):
        pass


class SimulatedLock(DirectoryLock):
    def __init__(self, locks, directory):
        self._locks = locks
        self._directory = directory

    def close(self):
        self._locks.pop(self._directory, None)


class SimulatedStorage(Storage):
    """The storage of one run of a node's process, on a SimulatedDisk."""

    sync_queue_class = SimulatedSyncQueue

    def __init__(self, SimulatedDisk disk not None, Clock clock not None):
        self._disk = disk
        self._clock = clock
        self.queues = []

    def open_segment(self, path, length_bytes, create=False, writable=True):
        files = self._disk.files
        self._disk.call_metadata("create the segment" if create else "open", path)
        if create:
            if path in files:
                raise storage_error(errno.EEXIST, "create the segment", path)
            files[path] = SimulatedFile(self._disk, path, length_bytes)
        if path not in files and length_bytes == 0:
            return SimulatedFolder(self._disk, path)
        if path not in files:
            raise storage_error(errno.ENOENT, "open the segment", path)
        return SimulatedSegment(files[path])

    def open_metadata(self, path, read_only=False):
        self._disk.call_metadata("open", path)
        return SimulatedMetadataStore(self._disk, path)

    def list_files(self, directory):
        self._disk.call_metadata("list", directory)
        prefix = directory.rstrip("/") + "/"
        paths = [*self._disk.files, *self._disk.stores]
        return sorted(path[len(prefix):] for path in paths if path.startswith(prefix) and "/" not in path[len(prefix):])

    def exists(self, path):
        self._disk.call_metadata("look for", path)
        return path in self._disk.files or path in self._disk.stores

    def remove(self, path):
        self._disk.call_metadata("remove", path)
        file = self._disk.files.pop(path, None)
        if file is not None:
            self._disk.free_bytes += file.taken_bytes
        if file is not None and file.name_durable:
            self._disk.note_removed(path, file)

    def rename(self, source, target):
        if source not in self._disk.files:
            raise storage_error(errno.ENOENT, "rename", source)
        self._disk.call_metadata("rename", source)
        self._disk.files[target] = self._disk.files.pop(source)

    def sync_directory(self, directory):
        self._disk.call_metadata("sync the folder", directory)
        self._disk.names_durable(directory)
        self._disk.stall()

    def usable_bytes(self, directory):
        return self._disk.free_bytes

    def make_directory(self, directory):
        pass

    def remove_directory(self, directory):
        for path in self.list_files(directory):
            self.remove(f"{directory.rstrip('/')}/{path}")

    def lock_directory(self, directory):
        self._disk.call_metadata("lock", directory)
        if directory in self._disk_locks():
            raise StorageInUseError(f"folder is in use: {directory}")
        self._disk_locks()[directory] = True
        return SimulatedLock(self._disk_locks(), directory)

    def _disk_locks(self):
        return (<SimulatedDisk> self._disk).locks

    def sync_queue(self, flag=None, wake_descriptor=-1):
        queue = self.sync_queue_class(self._clock, self._disk)
        self.queues.append(queue)
        return queue
