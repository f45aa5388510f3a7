"""Memory that native code may point into: mapped files and plain allocations."""

import os
import shutil

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.errno cimport EEXIST, EINTR, EINVAL, ENOSPC, errno as c_errno
from libc.stdlib cimport free
from libc.string cimport memset
from posix.mman cimport MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, MAP_SHARED, PROT_READ, PROT_WRITE, madvise, mmap, munmap
from posix.fcntl cimport O_CREAT, O_EXCL, O_RDWR, open as c_open, posix_fallocate
from posix.stdlib cimport posix_memalign
from posix.types cimport mode_t
from posix.unistd cimport close as c_close, ftruncate, unlink

from ordo.runtime.errors import MemoryInUseError, StorageError, StorageExistsError, StorageFullError, StorageMissingError
from ordo.runtime.native.file_access import file_mode, make_folders, whose

cdef extern from "fcntl.h" nogil:
    int O_CLOEXEC

cdef enum:
    CACHE_LINE_BYTES = 64
    PAGE_BYTES = 4096
    MADV_POPULATE_WRITE = 23    # Linux 5.14; in no header of older systems
    MAP_FROM_BYTES = 65536      # allocations from here on are anonymous mappings: zeroed and committed page by page


@cython.no_gc_clear      # a slice must still know its parent when the garbage collector lets both go together
@cython.no_gc       # cannot be in a cycle of its own, and its parent must outlive it when a cycle that holds it is cleared
cdef class Memory:
    def __cinit__(self):
        self.data = NULL
        self.length_bytes = 0
        self.path = ""
        self.writable = False
        self._mapped = False
        self._file_offset = -1
        self._views = 0

    def __init__(self):
        raise TypeError("Memory is made by allocate() or a MemoryProvider")

    def __dealloc__(self):
        self._release()

    cdef void _release(self) noexcept:
        cdef uint8_t* data = self.data
        self.data = NULL
        if data == NULL:
            return
        if self._parent is not None:
            self._parent._views -= 1
            self._parent = None
        elif self._mapped:
            with nogil:                      # milliseconds, where many pages were written
                munmap(data, self.length_bytes)
        else:
            free(data)

    def close(self):
        """Free the memory. Idempotent. Raises MemoryInUseError while views or slices are out."""
        if self._views > 0:
            raise MemoryInUseError(
                f"memory is in use: path={self.path or '(allocation)'} views={self._views}; release the views first")
        self._release()

    @property
    def closed(self):
        return self.data == NULL

    @property
    def address(self):
        """The address of the first byte, 0 when closed; for native code only."""
        return <size_t> self.data

    cdef bint reserve(self, Py_ssize_t offset, Py_ssize_t length_bytes) noexcept nogil:
        """Have the file system allocate the pages of a range in a sparse file. Touching a page that there is no room
        for would end the process with SIGBUS."""
        cdef size_t first, last
        if self._file_offset < 0 or length_bytes <= 0:
            return True
        first = (<size_t> self.data + offset) & ~<size_t> (PAGE_BYTES - 1)
        last = (<size_t> self.data + offset + length_bytes + PAGE_BYTES - 1) & ~<size_t> (PAGE_BYTES - 1)
        if madvise(<void*> first, last - first, MADV_POPULATE_WRITE) == 0:
            return True
        if c_errno != EINVAL:
            return False
        with gil:                     # a kernel before 5.14
            return self._allocate_range(offset, length_bytes)

    cdef bint _allocate_range(self, Py_ssize_t offset, Py_ssize_t length_bytes) noexcept:
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.posix_fallocate(descriptor, self._file_offset + offset, length_bytes)
            finally:
                os.close(descriptor)
        except OSError:
            return False
        return True

    def reserve_range(self, Py_ssize_t offset, Py_ssize_t length_bytes, bint with_madvise=True):
        """Allocate the pages of a range in a mapped, sparse file. Raises StorageFullError when there is no room for
        them.

        `with_madvise=False` is the way of kernels before 5.14.
        """
        cdef bint has_room
        if offset < 0 or length_bytes < 0 or offset > self.length_bytes - length_bytes:
            raise ValueError(f"range outside: offset={offset} length_bytes={length_bytes} of {self.length_bytes}")
        if with_madvise:
            with nogil:                      # milliseconds, where there are many pages
                has_room = self.reserve(offset, length_bytes)
        else:
            has_room = self._allocate_range(offset, length_bytes)
        if not has_room:
            raise StorageFullError(f"not enough space: path={self.path} needed_bytes={length_bytes}; "
                                   f"{_advice(os.path.dirname(self.path))}")

    cpdef Memory slice(self, Py_ssize_t offset, Py_ssize_t length_bytes, bint writable=True):
        """Return a part as a Memory of its own; keeps this one open until it is closed or dropped."""
        if self.data == NULL:
            raise MemoryInUseError(f"memory is closed: path={self.path}")
        if offset < 0 or length_bytes < 0 or offset > self.length_bytes - length_bytes:
            raise ValueError(f"slice out of range: offset={offset} length_bytes={length_bytes} of {self.length_bytes}")
        cdef Memory part = Memory.__new__(Memory)
        part.data = self.data + offset
        part.length_bytes = length_bytes
        part.path = self.path
        part.writable = self.writable and writable
        part._parent = self
        part._file_offset = self._file_offset + offset if self._file_offset >= 0 else -1
        self._views += 1
        return part

    def __len__(self):
        return self.length_bytes

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        if self.data == NULL:
            raise MemoryInUseError(f"memory is closed: path={self.path}")
        PyBuffer_FillInfo(buffer, self, self.data, self.length_bytes, not self.writable, flags)
        self._views += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        self._views -= 1

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def __repr__(self):
        return f"Memory(path={self.path!r}, length_bytes={self.length_bytes}, closed={self.data == NULL})"


cpdef Memory allocate(Py_ssize_t length_bytes):
    """Return zeroed memory of this process, aligned to a cache line. `length_bytes` is at least 1."""
    if length_bytes < 1:
        raise ValueError(f"length_bytes={length_bytes}, at least 1")
    cdef Memory memory = Memory.__new__(Memory)
    cdef void* data = NULL
    if length_bytes >= MAP_FROM_BYTES:
        data = mmap(NULL, length_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        if data == MAP_FAILED:
            raise MemoryError(f"cannot map {length_bytes} bytes: {os.strerror(c_errno)}")
        memory._mapped = True
    else:
        if posix_memalign(&data, CACHE_LINE_BYTES, length_bytes) != 0:
            raise MemoryError(f"cannot allocate {length_bytes} bytes")
        memset(data, 0, length_bytes)
    memory.data = <uint8_t*> data
    memory.length_bytes = length_bytes
    memory.writable = True
    return memory


cdef class MemoryProvider:
    cpdef Memory create(self, str path, Py_ssize_t length_bytes, bint sparse=True):
        """Create a zeroed file and map it. Raises StorageExistsError, StorageFullError (before anything is written)."""
        raise NotImplementedError(type(self).__name__)

    cpdef Memory open(self, str path, bint writable=True):
        """Map an existing file as a whole. Raises StorageMissingError; an empty file is a StorageError."""
        raise NotImplementedError(type(self).__name__)

    cpdef void remove(self, str path):
        """Remove the name; mappings stay valid. A missing file is no error."""
        raise NotImplementedError(type(self).__name__)

    cpdef bint exists(self, str path):
        raise NotImplementedError(type(self).__name__)

    cpdef int64_t usable_bytes(self, str directory):
        raise NotImplementedError(type(self).__name__)

    cpdef list list_files(self, str directory):
        raise NotImplementedError(type(self).__name__)

    cpdef void make_directory(self, str directory):
        raise NotImplementedError(type(self).__name__)

    cpdef void remove_directory(self, str directory):
        """Remove a folder with everything in it; a missing one is no error."""
        raise NotImplementedError(type(self).__name__)


def check_usable_bytes(str directory, int64_t needed_bytes, int64_t usable_bytes):
    """Raise StorageFullError with one clear line when `needed_bytes` do not fit."""
    if needed_bytes <= usable_bytes:
        return
    raise StorageFullError(
        f"not enough space: folder={directory} needed_bytes={needed_bytes} usable_bytes={usable_bytes}; "
        f"{_advice(directory)}")


def _advice(str directory):
    if not os.path.abspath(directory).startswith("/dev/shm"):
        return "free some space or choose another folder"
    return ("raise it with `mount -o remount,size=1g /dev/shm`, `docker run --shm-size=1g` or, in Kubernetes, "
            "an emptyDir with medium: Memory; or choose smaller terms")


cdef Memory map_file(int descriptor, str path, Py_ssize_t length_bytes, bint writable):
    cdef int protection = PROT_READ | PROT_WRITE if writable else PROT_READ
    cdef void* data = mmap(NULL, length_bytes, protection, MAP_SHARED, descriptor, 0)
    if data == MAP_FAILED:
        raise StorageError(f"cannot map file: path={path} length_bytes={length_bytes}: {os.strerror(c_errno)}")
    return _memory_of(<uint8_t*> data, path, length_bytes, writable)


cdef Memory _memory_of(uint8_t* data, str path, Py_ssize_t length_bytes, bint writable):
    """Return a mapped file as a Memory, which unmaps it."""
    cdef Memory memory = Memory.__new__(Memory)
    memory.data = data
    memory.length_bytes = length_bytes
    memory.path = path
    memory.writable = writable
    memory._mapped = True
    memory._file_offset = 0
    return memory


cdef enum:
    FILE_MADE = 0
    FILE_NOT_OPENED = 1
    FILE_NOT_SIZED = 2
    FILE_NOT_MAPPED = 3


cdef int _make_file(const char* path, mode_t mode, Py_ssize_t length_bytes, bint sparse, void** data,
                    int* why) noexcept nogil:
    """Create, size and map a file; return what failed, with the system's number in `why`, and leave no file then."""
    cdef int failed = FILE_MADE
    cdef int descriptor = c_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode)
    if descriptor < 0:
        why[0] = c_errno
        return FILE_NOT_OPENED
    why[0] = c_errno if ftruncate(descriptor, length_bytes) else 0
    if why[0] == 0 and not sparse:
        why[0] = EINTR
        while why[0] == EINTR:
            why[0] = posix_fallocate(descriptor, 0, length_bytes)
    if why[0]:
        failed = FILE_NOT_SIZED
    else:
        data[0] = mmap(NULL, length_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
        if data[0] == MAP_FAILED:
            why[0] = c_errno
            failed = FILE_NOT_MAPPED
    if failed:
        unlink(path)
    c_close(descriptor)
    return failed


cdef _raise_not_made(int failed, int why, str path, str directory, Py_ssize_t length_bytes):
    if failed == FILE_NOT_OPENED and why == EEXIST:
        raise StorageExistsError(f"file exists already: path={path}; remove it or choose another name")
    if failed == FILE_NOT_OPENED:
        raise StorageError(f"cannot create file: path={path}: {os.strerror(why)}{whose(directory)}")
    if failed == FILE_NOT_MAPPED:
        raise StorageError(f"cannot map file: path={path} length_bytes={length_bytes}: {os.strerror(why)}")
    kind = StorageFullError if why == ENOSPC else StorageError
    raise kind(f"cannot size file: path={path} length_bytes={length_bytes}: {os.strerror(why)}")


cdef class FileMemoryProvider(MemoryProvider):
    """A provider of files mapped into memory, shared with other processes."""

    cpdef Memory create(self, str path, Py_ssize_t length_bytes, bint sparse=True):
        if length_bytes < 1:
            raise ValueError(f"length_bytes={length_bytes}, at least 1")
        directory = os.path.dirname(path) or "."
        self.make_directory(directory)
        check_usable_bytes(directory, length_bytes, self.usable_bytes(directory))
        cdef bytes name = os.fsencode(path)
        cdef const char* c_name = name
        cdef mode_t mode = file_mode()
        cdef void* data = NULL
        cdef int failed, why = 0
        with nogil:                          # milliseconds, where the pages are allocated now
            failed = _make_file(c_name, mode, length_bytes, sparse, &data, &why)
        if failed:
            _raise_not_made(failed, why, path, directory, length_bytes)
        return _memory_of(<uint8_t*> data, path, length_bytes, True)

    cpdef Memory open(self, str path, bint writable=True):
        try:
            descriptor = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        except FileNotFoundError:
            raise StorageMissingError(f"file is not there: path={path}") from None
        except OSError as error:
            raise StorageError(f"cannot open file: path={path}: {error.strerror}{whose(path)}") from error
        try:
            length_bytes = os.fstat(descriptor).st_size
            if length_bytes == 0:
                raise StorageError(f"file is empty: path={path}; its writer has not sized it yet")
            return map_file(descriptor, path, length_bytes, writable)
        finally:
            os.close(descriptor)

    cpdef void remove(self, str path):
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise StorageError(f"cannot remove file: path={path}: {error.strerror}{whose(path)}") from error

    cpdef bint exists(self, str path):
        return os.path.exists(path)

    cpdef int64_t usable_bytes(self, str directory):
        stats = os.statvfs(directory)
        return stats.f_bavail * stats.f_frsize

    cpdef list list_files(self, str directory):
        found = []
        for folder, _, names in os.walk(directory):
            for name in names:
                found.append(os.path.join(folder, name))
        found.sort()
        return found

    cpdef void make_directory(self, str directory):
        try:
            make_folders(directory)
        except OSError as error:
            raise StorageError(f"cannot make folder: path={directory}: {error.strerror}{whose(directory)}") from error

    cpdef void remove_directory(self, str directory):
        try:
            shutil.rmtree(directory)
        except FileNotFoundError:
            pass
        except OSError as error:
            why = error.strerror or next(iter(error.args), error)  # of a link, of which the system was not asked
            raise StorageError(f"cannot remove folder: path={directory}: {why}{whose(directory)}") from error


cdef class HeapMemoryProvider(MemoryProvider):
    """A provider of files that live in this process only: every agent of one simulated node shares one.

    `capacity_bytes` limits their sum. Each `create` and `open` gives a handle of its own; the bytes live until the
    file is removed and the last handle is closed or dropped.
    """
    cdef dict _files
    cdef readonly int64_t capacity_bytes

    def __init__(self, int64_t capacity_bytes=1 << 40):
        self._files = {}
        self.capacity_bytes = capacity_bytes

    cpdef Memory create(self, str path, Py_ssize_t length_bytes, bint sparse=True):
        if path in self._files:
            raise StorageExistsError(f"file exists already: path={path}; remove it or choose another name")
        directory = os.path.dirname(path)
        check_usable_bytes(directory, length_bytes, self.usable_bytes(directory))
        cdef Memory memory = allocate(length_bytes)
        memory.path = path
        self._files[path] = memory
        return memory.slice(0, length_bytes)

    cpdef Memory open(self, str path, bint writable=True):
        cdef Memory memory = self._files.get(path)
        if memory is None:
            raise StorageMissingError(f"file is not there: path={path}")
        return memory.slice(0, memory.length_bytes, writable)

    cpdef void remove(self, str path):
        self._files.pop(path, None)

    cpdef bint exists(self, str path):
        return path in self._files or bool(self.list_files(path))

    cpdef int64_t usable_bytes(self, str directory):
        cdef Memory memory
        cdef int64_t used = 0
        for memory in self._files.values():
            used += memory.length_bytes
        return self.capacity_bytes - used

    cpdef list list_files(self, str directory):
        prefix = directory.rstrip("/") + "/"
        return sorted([name for name in self._files if name.startswith(prefix)])

    cpdef void make_directory(self, str directory):
        """Do nothing: folders are implied by the names of their files."""

    cpdef void remove_directory(self, str directory):
        for name in self.list_files(directory):
            del self._files[name]
