"""The storage seam: directories, segment files and small atomic metadata (see the .pxd).

`Storage` is the seam itself, `FileStorage` the real one. Native code calls the `cdef` methods of `SegmentFile` and
`SyncQueue`; `write_bytes`, `read_bytes`, `request_sync` are the same for Python.
"""

import errno
import fcntl
import os
import shutil

cimport cython
from libc.errno cimport EBADF, EINTR, EINVAL, ENOSYS, ENXIO, errno as c_errno
from libc.stdlib cimport calloc, free
from posix.unistd cimport close as c_close, fdatasync, lseek, pread, pwrite, write as c_write

from ordo.runtime.native.atomics cimport (
    ordo_cas_i64, ordo_fence_full, ordo_futex_wait, ordo_futex_wake, ordo_load_acquire_i32, ordo_load_acquire_i64,
    ordo_monotonic_ns, ordo_store_release_i32, ordo_store_release_i64)
from ordo.runtime.native.histogram cimport Histogram, note_duration
from ordo.runtime.native.memory cimport Memory, map_file
from ordo.runtime.agents.wake cimport PARK_AWAKE, PARK_FUTEX, PARK_SOCKETS

from ordo.runtime.errors import StorageError, StorageExistsError, StorageFullError, StorageInUseError, StorageMissingError
from ordo.runtime.io.durable_files import sync_folder
from ordo.runtime.native.file_access import file_mode, make_folders
from ordo.runtime.agents.use import watch

cdef extern from "<pthread.h>" nogil:
    ctypedef unsigned long pthread_t
    int pthread_create(pthread_t* thread, const void* attributes, void* (*start)(void*) noexcept nogil, void* argument)
    int pthread_join(pthread_t thread, void** result)

cdef extern from "<unistd.h>" nogil:
    int SEEK_DATA               # Linux: the next offset that is not in a hole

cdef extern from "<signal.h>" nogil:
    ctypedef struct sigset_t:
        pass
    int SIG_SETMASK
    int sigfillset(sigset_t* signals)
    int pthread_sigmask(int how, const sigset_t* signals, sigset_t* old)

cdef enum:
    TRIES_MAX = 64              # of one write interrupted by signals or cut short
    RING_CAPACITY = 4096        # sync requests that are not done

LOCK_FILE_NAME = "LOCK"


cdef class SegmentFile:
    cdef int write(self, const uint8_t* data, int64_t length_bytes, int64_t offset) noexcept nogil:
        return -ENOSYS

    cdef int64_t read(self, uint8_t* data, int64_t length_bytes, int64_t offset) noexcept nogil:
        return -ENOSYS

    cdef int64_t next_data(self, int64_t offset) noexcept nogil:
        return offset

    cdef int sync(self) noexcept nogil:
        return -ENOSYS

    def write_bytes(self, const uint8_t[::1] data, int64_t offset):
        """Write at an offset, as `write` does for native code. Raises StorageError, StorageFullError."""
        cdef int result = 0
        if data.shape[0] > 0:
            result = self.write(&data[0], data.shape[0], offset)
        if result < 0:
            raise storage_error(-result, "write", self.path)

    def read_bytes(self, int64_t length_bytes, int64_t offset):
        """Read up to `length_bytes`, fewer at the end of the file, as `read` does for native code. Raises
        StorageError."""
        buffer = bytearray(length_bytes)
        cdef uint8_t[::1] view = buffer
        cdef int64_t count = 0
        if length_bytes > 0:
            count = self.read(&view[0], length_bytes, offset)
        if count < 0:
            raise storage_error(-count, "read", self.path)
        return bytes(buffer[:count])

    def sync_now(self):
        """Sync the file without the GIL, as `sync` does for native code. Raises StorageError."""
        cdef int result
        with nogil:
            result = self.sync()
        if result < 0:
            raise storage_error(-result, "sync", self.path)

    cpdef Memory map(self):
        """Return the whole file as memory: what is stored in it outlives the process, and a sync makes it durable.

        The file is as long as it says, and has its room on the disk. Raises StorageError, StorageFullError.
        """
        raise NotImplementedError(type(self).__name__)

    def close(self):
        """Close the file. Idempotent."""

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()


cdef class FileSegment(SegmentFile):
    def __cinit__(self, str path, int64_t length_bytes, int descriptor):
        self.path = path
        self.length_bytes = length_bytes
        self._descriptor = descriptor

    def __dealloc__(self):
        self._close_now()

    cdef int write(self, const uint8_t* data, int64_t length_bytes, int64_t offset) noexcept nogil:
        cdef int64_t done = 0, count
        cdef int tries = 0
        if self._close_requested:
            return -EBADF
        if offset < 0 or length_bytes < 0 or offset + length_bytes > self.length_bytes:
            return -EINVAL
        while done < length_bytes and tries < TRIES_MAX:
            count = pwrite(self._descriptor, data + done, length_bytes - done, offset + done)
            if count > 0:
                done += count
            elif count < 0 and c_errno != EINTR:
                return -c_errno
            tries += 1
        return 0 if done == length_bytes else -EINTR

    cdef int64_t read(self, uint8_t* data, int64_t length_bytes, int64_t offset) noexcept nogil:
        cdef int64_t done = 0, count
        cdef int tries = 0
        if self._close_requested:
            return -EBADF
        if offset < 0 or length_bytes < 0:
            return -EINVAL
        while done < length_bytes and tries < TRIES_MAX:
            count = pread(self._descriptor, data + done, length_bytes - done, offset + done)
            if count > 0:
                done += count
            elif count == 0:
                break
            elif c_errno != EINTR:
                return -c_errno
            tries += 1
        return done

    cdef int64_t next_data(self, int64_t offset) noexcept nogil:
        cdef int64_t found
        if self._close_requested:
            return -EBADF
        found = lseek(self._descriptor, offset, SEEK_DATA)
        if found >= 0:
            return found
        return self.length_bytes if c_errno == ENXIO else offset

    cdef int sync(self) noexcept nogil:
        if self._close_requested:
            return -EBADF
        return 0 if fdatasync(self._descriptor) == 0 else -c_errno

    cpdef Memory map(self):
        cdef Memory memory
        if self._close_requested:
            raise storage_error(EBADF, "map", self.path)
        if os.fstat(self._descriptor).st_size < self.length_bytes:
            raise StorageError(f"cannot map: path={self.path}: it is shorter than {self.length_bytes} bytes")
        memory = map_file(self._descriptor, self.path, self.length_bytes, True)
        memory.reserve_range(0, self.length_bytes)
        return memory

    def close(self):
        self._close_requested = True
        if self._pending_syncs == 0:
            self._close_now()

    cdef void _close_now(self) noexcept:
        if self._descriptor >= 0:
            c_close(self._descriptor)
            self._descriptor = -1


cdef class SyncQueue:
    cdef int64_t request(self, SegmentFile file):
        raise NotImplementedError(type(self).__name__)

    cdef int64_t completed(self) noexcept nogil:
        return 0

    cdef int error(self) noexcept nogil:
        return -ENOSYS

    def request_sync(self, SegmentFile file not None):
        """Request a sync, as `request` does for native code."""
        return self.request(file)

    @property
    def last_completed(self):
        """The last ticket that is done, 0 at the start."""
        return self.completed()

    @property
    def sticky_error(self):
        """The -errno of the first sync that failed, 0 while none has."""
        return self.error()

    def measure(self, Histogram durations not None):
        """Record in `durations` how long each sync takes from now on, where syncs take time."""

    def close(self):
        """Finish what was requested and end the thread, if there is one. Idempotent."""


cdef struct SyncThread:
    pthread_t handle
    int64_t requested               # written by the owner, release
    int64_t completed               # written by the thread, release
    int32_t error                   # -errno, sticky
    int32_t sequence                # futex word: moves with every request
    int32_t sleeping                # 1 while the thread waits on it
    int32_t stopping
    int64_t* park_word              # NULL: nobody to wake
    int wake_descriptor
    int64_t* durations              # cells of a Histogram, or NULL
    int descriptors[RING_CAPACITY]


cdef bint _seen_before(SyncThread* self, int64_t first, int64_t ticket) noexcept nogil:
    cdef int64_t other
    for other in range(max(first, ticket - 8), ticket):
        if self.descriptors[other % RING_CAPACITY] == self.descriptors[ticket % RING_CAPACITY]:
            return True
    return False


cdef void _wake_owner(SyncThread* self) noexcept nogil:
    cdef int64_t one = 1
    cdef int64_t kind = PARK_SOCKETS
    if self.park_word != NULL:
        ordo_fence_full()
        kind = ordo_load_acquire_i64(self.park_word)
        if kind != PARK_AWAKE and not ordo_cas_i64(self.park_word, kind, PARK_AWAKE):
            kind = PARK_AWAKE
    if kind == PARK_FUTEX:
        ordo_futex_wake(self.park_word, 1)
    elif kind == PARK_SOCKETS and self.wake_descriptor >= 0:
        c_write(self.wake_descriptor, &one, sizeof(one))


cdef void _sync_one(SyncThread* self, int descriptor) noexcept nogil:
    cdef int64_t started_ns = ordo_monotonic_ns()
    cdef int64_t* durations
    if fdatasync(descriptor) != 0:
        ordo_store_release_i32(&self.error, -c_errno)
        return
    durations = <int64_t*> ordo_load_acquire_i64(<int64_t*> &self.durations)
    if durations != NULL:
        note_duration(durations, ordo_monotonic_ns() - started_ns)


cdef void* _run_sync_thread(void* argument) noexcept nogil:
    cdef SyncThread* self = <SyncThread*> argument
    cdef int32_t sequence
    cdef int64_t requested, ticket, completed
    while True:
        sequence = ordo_load_acquire_i32(&self.sequence)
        requested = ordo_load_acquire_i64(&self.requested)
        completed = self.completed
        if requested == completed:
            if ordo_load_acquire_i32(&self.stopping):
                return NULL
            ordo_store_release_i32(&self.sleeping, 1)
            ordo_fence_full()
            ordo_futex_wait(&self.sequence, sequence, -1)
            ordo_store_release_i32(&self.sleeping, 0)
            continue
        for ticket in range(completed + 1, requested + 1):
            if self.error == 0 and not _seen_before(self, completed + 1, ticket):
                _sync_one(self, self.descriptors[ticket % RING_CAPACITY])
        if self.error == 0:
            ordo_store_release_i64(&self.completed, requested)
            _wake_owner(self)
        else:
            _wake_owner(self)
            return NULL


cdef int _start_without_signals(SyncThread* self) noexcept nogil:
    """Start the thread with every signal blocked: signals are for threads that Python can interrupt."""
    cdef sigset_t all_signals, before
    sigfillset(&all_signals)
    pthread_sigmask(SIG_SETMASK, &all_signals, &before)
    cdef int code = pthread_create(&self.handle, NULL, _run_sync_thread, self)
    pthread_sigmask(SIG_SETMASK, &before, NULL)
    return code


@cython.no_gc_clear     # the flag and the files stay until the thread has ended
cdef class ThreadSyncQueue(SyncQueue):
    """A sync queue with one thread. `flag` and `wake_descriptor` say how the owner parks: a completion takes the flag
    and wakes the futex, or writes eight bytes to the descriptor. With a descriptor alone every completion writes. Takes
    FileSegments only.

    After an error nothing completes any more: what the disk holds is unknown.
    """

    def __cinit__(self, ParkFlag flag=None, int wake_descriptor=-1):
        self._held = []
        self._flag = flag
        self._thread = <SyncThread*> calloc(1, sizeof(SyncThread))
        if self._thread == NULL:
            raise MemoryError
        self._thread.park_word = NULL if flag is None else flag.word
        self._thread.wake_descriptor = wake_descriptor
        code = _start_without_signals(self._thread)
        if code != 0:
            free(self._thread)
            self._thread = NULL
            raise StorageError(f"cannot start the sync thread: {os.strerror(code)}")

    def __dealloc__(self):
        self._stop()
        free(self._thread)

    cdef int64_t request(self, SegmentFile file):
        cdef SyncThread* thread = self._thread
        if thread == NULL:
            raise StorageError("the sync queue is closed")
        if not isinstance(file, FileSegment) or (<FileSegment> file)._close_requested:
            raise ValueError(f"not an open file: {file!r}")
        self._reap()
        cdef int64_t ticket = thread.requested + 1
        if ticket - ordo_load_acquire_i64(&thread.completed) > RING_CAPACITY:
            raise StorageError(f"the disk does not keep up: {RING_CAPACITY} syncs are pending")
        (<FileSegment> file)._pending_syncs += 1
        self._held.append((ticket, file))
        thread.descriptors[ticket % RING_CAPACITY] = (<FileSegment> file)._descriptor
        ordo_store_release_i64(&thread.requested, ticket)
        self._notify()
        return ticket

    def measure(self, Histogram durations not None):
        self._durations = durations
        ordo_store_release_i64(<int64_t*> &self._thread.durations, <int64_t> durations.cells)

    cdef int64_t completed(self) noexcept nogil:
        return 0 if self._thread == NULL else ordo_load_acquire_i64(&self._thread.completed)

    cdef int error(self) noexcept nogil:
        return 0 if self._thread == NULL else ordo_load_acquire_i32(&self._thread.error)

    cdef void _notify(self) noexcept nogil:
        cdef SyncThread* thread = self._thread
        ordo_store_release_i32(&thread.sequence, thread.sequence + 1)
        ordo_fence_full()
        if ordo_load_acquire_i32(&thread.sleeping):
            ordo_futex_wake(&thread.sequence, 1)

    cdef void _reap(self):
        cdef int64_t completed = self.completed()
        cdef int done = 0
        cdef FileSegment file
        for ticket, held in self._held:
            if <int64_t> ticket > completed:
                break
            file = held
            file._pending_syncs -= 1
            if file._close_requested and file._pending_syncs == 0:
                file._close_now()
            done += 1
        del self._held[:done]

    cdef void _stop(self) noexcept:
        cdef SyncThread* thread = self._thread
        if thread == NULL:
            return
        ordo_store_release_i32(&thread.stopping, 1)
        self._notify()
        with nogil:
            pthread_join(thread.handle, NULL)

    def close(self):
        if self._thread == NULL:
            return
        self._stop()
        self._reap()
        for _, file in self._held:
            (<FileSegment> file)._pending_syncs = 0
            if (<FileSegment> file)._close_requested:
                (<FileSegment> file)._close_now()
        self._held.clear()
        free(self._thread)
        self._thread = NULL


def storage_error(int code, str action, str path):
    """Return the StorageError of an errno, caused by its OSError: one line that names action and path."""
    kind = {errno.ENOSPC: StorageFullError, errno.EDQUOT: StorageFullError, errno.ENOENT: StorageMissingError,
            errno.EEXIST: StorageExistsError}.get(code, StorageError)
    advice = "; free some space on its device" if kind is StorageFullError else ""
    failure = kind(f"cannot {action}: path={path}: {os.strerror(code)}{advice}")
    failure.__cause__ = OSError(code, os.strerror(code), path)
    return failure


class Transaction:
    """Changes to a MetadataStore that become durable together, or not at all."""

    def get(self, key):
        """Return the value as this transaction sees it, or None."""
        raise NotImplementedError

    def put(self, key, value):
        raise NotImplementedError

    def delete(self, key):
        """Remove a key; a missing one is no error."""
        raise NotImplementedError


class MetadataStore:
    """Small keys and values in atomic, durable transactions. Keys are 1..511 bytes, kept in byte order."""

    def get(self, key):
        """Return the committed value, or None."""
        raise NotImplementedError

    def items(self, prefix=b""):
        """Return the committed (key, value) pairs whose key begins with `prefix`, in key order, as a list."""
        raise NotImplementedError

    def transaction(self):
        """Return a context manager that gives a Transaction: durable at its end, nothing of it after an exception."""
        raise NotImplementedError

    def close(self):
        """Close the store. Idempotent."""
        raise NotImplementedError


class DirectoryLock:
    """A folder held by this process; `close` gives it back."""

    def close(self):
        """Give the folder back. Idempotent."""
        raise NotImplementedError

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()


class Storage:
    """The seam between Ordo and a file system. Paths are strings; every failure is a StorageError whose cause is the
    OSError, if there was one."""

    def open_segment(self, path, length_bytes, create=False, writable=True):
        """Open a SegmentFile of `length_bytes`. `create` makes a sparse file that must be new (StorageExistsError);
        without it the file must exist (StorageMissingError), and may be shorter."""
        raise NotImplementedError(type(self).__name__)

    def open_metadata(self, path, read_only=False):
        """Open the MetadataStore in the file `path`, created when missing. `read_only` is for other processes."""
        raise NotImplementedError(type(self).__name__)

    def list_files(self, directory):
        """Return the names of the files in a folder, sorted; [] when the folder is missing."""
        raise NotImplementedError(type(self).__name__)

    def exists(self, path):
        """Return whether a file is there. Raises StorageError where that cannot be known."""
        raise NotImplementedError(type(self).__name__)

    def remove(self, path):
        """Remove a file; a missing one is no error."""
        raise NotImplementedError(type(self).__name__)

    def rename(self, source, target):
        """Move a file over `target` atomically; durable after `sync_directory`."""
        raise NotImplementedError(type(self).__name__)

    def sync_directory(self, directory):
        """Make names created, renamed and removed in a folder durable."""
        raise NotImplementedError(type(self).__name__)

    def usable_bytes(self, directory):
        """Return how many bytes this process may still write on the folder's device."""
        raise NotImplementedError(type(self).__name__)

    def make_directory(self, directory):
        """Make a folder and its parents; an existing one is no error."""
        raise NotImplementedError(type(self).__name__)

    def remove_directory(self, directory):
        """Remove a folder with everything in it; a missing one is no error."""
        raise NotImplementedError(type(self).__name__)

    def lock_directory(self, directory):
        """Lock a folder and return its DirectoryLock; StorageInUseError names the folder and the live process that
        holds it."""
        raise NotImplementedError(type(self).__name__)

    def sync_queue(self, flag=None, wake_descriptor=-1):
        """Return a SyncQueue for files of this storage; see ThreadSyncQueue for the arguments."""
        raise NotImplementedError(type(self).__name__)


class FileDirectoryLock(DirectoryLock):
    """A flock on the folder's LOCK file, which holds the pid for people to read. It ends with the process."""

    def __init__(self, directory):
        self._descriptor = -1
        path = os.path.join(directory, LOCK_FILE_NAME)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, file_mode())
        except OSError as error:
            raise storage_error(error.errno, "open lock file", path) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            pid = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise StorageInUseError(
                f"folder is in use: path={directory} pid={pid}; stop that process or choose another folder") from None
        except OSError as error:
            os.close(descriptor)
            raise storage_error(error.errno, "lock", path) from error
        self._descriptor = descriptor
        watch(self)

    def on_forked(self):
        """Close the descriptor in a forked child, with which the lock would outlive the parent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def close(self):
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1


class FileStorage(Storage):
    """A storage of real files. `metadata_factory(path, read_only) -> MetadataStore`;
    `ordo.archive.store.lmdb_store.open_lmdb` in production."""

    def __init__(self, metadata_factory=None):
        self._metadata_factory = metadata_factory

    def open_segment(self, path, length_bytes, create=False, writable=True):
        flags = os.O_CLOEXEC | (os.O_RDWR if writable or create else os.O_RDONLY)
        if create:
            flags |= os.O_CREAT | os.O_EXCL
        try:
            descriptor = os.open(path, flags, file_mode())
        except OSError as error:
            raise storage_error(error.errno, "create segment" if create else "open segment", path)
        if create:
            try:
                os.ftruncate(descriptor, length_bytes)
            except OSError as error:
                os.close(descriptor)
                os.unlink(path)
                raise storage_error(error.errno, "size segment", path)
        return FileSegment(path, length_bytes, descriptor)

    def open_metadata(self, path, read_only=False):
        if self._metadata_factory is None:
            raise StorageError(f"no metadata store is configured: path={path}; give FileStorage a metadata_factory")
        return self._metadata_factory(path, read_only)

    def list_files(self, directory):
        try:
            with os.scandir(directory) as entries:
                return sorted([entry.name for entry in entries if entry.is_file()])
        except FileNotFoundError:
            return []
        except OSError as error:
            raise storage_error(error.errno, "list folder", directory)

    def exists(self, path):
        try:
            os.stat(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise storage_error(error.errno, "look for", path) from error
        return True

    def remove(self, path):
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error(error.errno, "remove file", path)

    def rename(self, source, target):
        try:
            os.replace(source, target)
        except OSError as error:
            raise storage_error(error.errno, f"rename to {target}", source)

    def sync_directory(self, directory):
        try:
            sync_folder(directory)
        except OSError as error:
            raise storage_error(error.errno, "sync folder", directory)

    def usable_bytes(self, directory):
        try:
            stats = os.statvfs(directory)
        except OSError as error:
            raise storage_error(error.errno, "look at folder", directory)
        return stats.f_bavail * stats.f_frsize

    def make_directory(self, directory):
        try:
            for made in make_folders(directory):
                sync_folder(os.path.dirname(os.path.abspath(made)))     # a folder's name is content of the one it is in
        except OSError as error:
            raise storage_error(error.errno, "make folder", directory)

    def remove_directory(self, directory):
        try:
            shutil.rmtree(directory)
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error(error.errno, "remove folder", directory)

    def lock_directory(self, directory):
        self.make_directory(directory)
        return FileDirectoryLock(directory)

    def sync_queue(self, flag=None, wake_descriptor=-1):
        return ThreadSyncQueue(flag, wake_descriptor)
