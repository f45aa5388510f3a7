"""Clearing of the end of a segment file: a scan must find nothing after the last frame."""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memset
from ordo.runtime.io.storage cimport SegmentFile

from ordo.runtime.io.storage import storage_error

cdef int64_t _BLOCK_LENGTH = 1024 * 1024
cdef int64_t _PAGE_LENGTH = 4096


cdef int64_t _erase(SegmentFile file, int64_t offset, uint8_t* block, const uint8_t* zeros) noexcept nogil:
    """Write zeros over every page that holds something else; return the bytes written, or -errno. Holes stay holes."""
    cdef int64_t erased = 0
    cdef int64_t length
    cdef int64_t start
    cdef int64_t part
    cdef int result
    while offset < file.length_bytes:
        offset = file.next_data(offset)
        if offset < 0:
            return offset
        if offset >= file.length_bytes:
            break
        length = file.read(block, _BLOCK_LENGTH, offset)
        if length <= 0:
            return length if length < 0 else erased
        start = 0
        while start < length:
            part = _PAGE_LENGTH - ((offset + start) & (_PAGE_LENGTH - 1))
            if part > length - start:
                part = length - start
            if memcmp(block + start, zeros, part) != 0:
                result = file.write(zeros, part, offset + start)
                if result < 0:
                    return result
                erased += part
            start += part
        offset += length
    return erased


def erase_tail(SegmentFile file not None, int64_t offset):
    """Zero a segment file from `offset` (bytes) to its end, from front to back; return the bytes written.

    Holes are not read, and blocks that are zero already are left alone, so a sparse file stays sparse. The caller
    syncs. Raises StorageError.
    """
    cdef uint8_t* memory = <uint8_t*> malloc(_BLOCK_LENGTH + _PAGE_LENGTH)
    cdef int64_t result
    if memory == NULL:
        raise MemoryError("no memory to clear a segment")
    memset(memory + _BLOCK_LENGTH, 0, _PAGE_LENGTH)
    with nogil:
        result = _erase(file, offset, memory, memory + _BLOCK_LENGTH)
        free(memory)
    if result < 0:
        raise storage_error(-result, "clear the end of", file.path)
    return result
