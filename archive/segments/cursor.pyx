"""Bytes of a recording by position, whichever segment file they are in."""

from libc.errno cimport EIO, ENOENT
from libc.stdint cimport int64_t, uint8_t
from ordo.archive.segments.frames cimport layout_of, segment_base

from ordo.archive.segments.segments import segment_name
from ordo.runtime.errors import StorageMissingError

cdef int64_t _NO_FILE = -1


cdef class SegmentCursor:
    """A reader at positions; see cursor.pxd. `storage` is the storage seam, `directory` the archive's folder,
    `descriptor` the recording's."""

    def __init__(self, storage, str directory, descriptor):
        self._storage = storage
        self.directory = directory
        self.recording_id = descriptor.recording_id
        self.layout = layout_of(descriptor)
        self._file_base = _NO_FILE

    cdef int64_t read(self, uint8_t* data, int64_t length_bytes, int64_t position) noexcept nogil:
        cdef int64_t base = segment_base(&self.layout, position)
        cdef int64_t offset = position - base
        cdef int result
        if base != self._file_base:
            result = self._open(base)
            if result < 0:
                return result
        if length_bytes > self.layout.segment_length - offset:
            length_bytes = self.layout.segment_length - offset
        return self._file.read(data, length_bytes, offset)

    cdef int _open(self, int64_t base) noexcept with gil:
        """Open the segment file of a base position; return 0, or -errno."""
        self.forget()
        try:
            self._file = self._storage.open_segment(
                f"{self.directory}/{segment_name(self.recording_id, base)}", self.layout.segment_length, create=False,
                writable=False)
        except StorageMissingError:
            return -ENOENT
        except Exception as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            return -(getattr(cause, "errno", None) or EIO)
        self._file_base = base
        return 0

    cpdef str path_of(self, int64_t position):
        """Return the path of the segment file that holds `position`."""
        return f"{self.directory}/{segment_name(self.recording_id, segment_base(&self.layout, position))}"

    cpdef void forget(self):
        """Close the open file; the next read opens it again."""
        self._file = None
        self._file_base = _NO_FILE
