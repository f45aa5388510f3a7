"""The recorder of one image into segment files.

Blocks of whole frames are copied into a staging buffer, each frame gets its checksum there (frames.pxd), and
one write takes the block to the file. With `sync = "commit"` one sync is under way at a time; what arrived meanwhile
goes with the next.
"""

from libc.errno cimport EILSEQ
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from ordo.archive.segments.tail cimport TAIL_OVERHANG, RecordedTail
from ordo.archive.segments.frames cimport layout_of, seal_frame, segment_base
from ordo.runtime.native.atomics cimport ordo_get_i32
from ordo.runtime.native.counters cimport Counter
from ordo.runtime.io.storage cimport SegmentFile, SyncQueue
from ordo.transport.streams.image cimport Block, Image
from ordo.transport.streams.logbuffer cimport HEADER_LENGTH, align_frame

from ordo.archive.segments.segments import segment_name
from ordo.runtime.errors import ArchiveError, StorageError
from ordo.runtime.io.storage import storage_error

cdef enum:
    BLOCKS_PER_CYCLE = 8

cdef int32_t _BLOCK_LENGTH_MAX = 256 * 1024     # of one write; the staging buffer fits the second-level cache


cdef class Recording:
    """A recorder, made by the archive. See recorder.pxd.

    `descriptor` is the catalog's, `position` where the image joins, `file` the segment file that holds the position,
    `folder` the archive's folder as a file to sync, `queue` the sync queue or None for `sync = "none"`.
    """

    def __cinit__(self):
        self._staging = <uint8_t*> malloc(_BLOCK_LENGTH_MAX)
        if self._staging == NULL:
            raise MemoryError("no memory for a staging buffer of 256 KiB")

    def __dealloc__(self):
        free(self._staging)

    def __init__(self, storage, str directory, descriptor, int64_t position, Image image not None, SegmentFile file,
                 SegmentFile folder, SyncQueue queue, Counter counter, on_stop, *, bint counts_padding=False):
        self.recording_id = descriptor.recording_id
        self.start_position = position
        self.written_position = position
        self.durable_position = position
        self.limit_position = self.source_limit_position = INT64_MAX
        self.image = image
        self.counter = counter
        self.on_stop = on_stop
        self.is_active = True
        self.counts_padding = counts_padding
        self._storage = storage
        self._directory = directory
        self._layout = layout_of(descriptor)
        self._segment_base = segment_base(&self._layout, position)
        self._file = file
        self._folder = folder
        self._queue = queue
        if counter is not None:
            counter.set_release(position)
        if queue is not None:
            self._request(folder)           # the name of the file counts before anything in it does

    cdef int work(self) noexcept nogil:
        """Record what the image has, at most 2 MiB; return how many blocks were recorded."""
        cdef Block block
        cdef int blocks = 0
        if not self.is_active or self.needs_attention:
            return 0
        if self._flight_ticket:
            self._harvest()
        while blocks < BLOCKS_PER_CYCLE and self.failure == 0 and self._peek(&block):
            if self._record_block(&block) < 0:
                break
            self.image.consume_block(&block)
            blocks += 1
        if blocks:
            self.image.publish_position()
            self._advance()
        elif self.image.closed:
            self.needs_attention = True
        if self._queue is not None and self._flight_ticket == 0 and self.durable_position < self._counted_position():
            self._request(self._file)
        if self.failure:
            self.needs_attention = True
        return blocks

    cdef void _harvest(self) noexcept nogil:
        """Take note of what completed syncs made durable."""
        if self._queue.completed() >= self._flight_ticket:
            self._flight_ticket = 0
            if self._flight_position > self.durable_position:
                self.durable_position = self._flight_position
                if self.counter is not None:
                    self.counter.set_release(self.durable_position)
        elif self._queue.error() != 0:
            self.failure = self._queue.error()

    cdef int64_t _counted_position(self) noexcept nogil:
        """Return the end of what was written and may become durable."""
        return self.written_position - self._last_padding

    cdef bint _peek(self, Block* block) noexcept nogil:
        """Return the next block; a frame that crosses the end of the tail's ring comes alone."""
        cdef int32_t longest = align_frame(self._layout.mtu)
        cdef int64_t limit = min(self.limit_position, self.source_limit_position)
        cdef int64_t allowed = min(limit - self.image.position, <int64_t> _BLOCK_LENGTH_MAX)
        cdef int64_t rest
        cdef int32_t length
        if allowed <= 0:
            return False
        if self._tail is None:
            return self.image.peek_block(block, <int32_t> allowed)
        rest = self._tail.rest(self.image.position)
        if self.image.peek_block(block, <int32_t> min(rest, allowed)):
            return True
        if rest >= longest or longest > TAIL_OVERHANG:
            return False
        if not self.image.peek_block(block, <int32_t> min(<int64_t> longest, allowed)):
            return False
        length = ordo_get_i32(block.frames)
        if HEADER_LENGTH <= length <= block.length_bytes:
            block.length_bytes = align_frame(length)
        return True

    cdef int _record_block(self, const Block* block) noexcept nogil:
        """Write one block; return 0, or -errno with nothing acknowledged."""
        cdef int32_t length
        cdef uint8_t* staging = self._staging
        if self._tail is not None:
            staging = self._tail.place(block.position, block.length_bytes)
        if block.position != self.written_position:
            self.failure = -EILSEQ
            return self.failure
        if block.is_padding:
            memcpy(staging, block.frames, HEADER_LENGTH)
            seal_frame(staging, HEADER_LENGTH)
            length = HEADER_LENGTH
        elif self._stage(block, staging) < 0:
            self.failure = -EILSEQ
            return self.failure
        else:
            length = block.length_bytes
        self.failure = self._file.write(staging, length, block.position - self._segment_base)
        if self.failure < 0:
            return self.failure
        if self._tail is not None:
            self._tail.note(block.position, block.length_bytes)
        self.written_position += block.length_bytes
        self._last_padding = block.length_bytes if block.is_padding and not self.counts_padding else 0
        if self.written_position == self._segment_base + self._layout.segment_length:
            self.failure = self._roll()
        return 0

    cdef int _stage(self, const Block* block, uint8_t* staging) noexcept nogil:
        """Copy a block and give every frame its checksum."""
        cdef int32_t offset = 0
        cdef int32_t length
        cdef uint8_t* frame
        memcpy(staging, block.frames, block.length_bytes)
        while offset < block.length_bytes:
            frame = staging + offset
            length = ordo_get_i32(frame)
            if length < HEADER_LENGTH or length > block.length_bytes - offset:
                return -EILSEQ
            length = align_frame(length)
            seal_frame(frame, length)
            offset += length
        return 0

    cdef void _advance(self) noexcept nogil:
        """Count what is written as durable, when nothing is synced."""
        if self._queue is None and self.failure == 0:
            self.durable_position = self._counted_position()
            if self.counter is not None:
                self.counter.set_release(self.durable_position)

    cdef int _roll(self) noexcept with gil:
        """Go to the next segment file, which must be new; return 0, or -errno with `error` set.

        The full file, then the folder's new name are synced in this order, so that a position in the next file is
        durable only when both are.
        """
        base = self._segment_base + self._layout.segment_length
        try:
            if self._queue is not None:
                if self._previous is not None and self._flight_ticket:
                    self._previous.sync_now()       # the disk is a whole segment behind: wait for it
                self._request(self._file)
            file = self._storage.open_segment(
                f"{self._directory}/{segment_name(self.recording_id, base)}", self._layout.segment_length, create=True)
        except Exception as error:
            self.error = error
            return -EILSEQ
        if self._previous is not None:
            self._previous.close()
        self._previous = self._file
        self._file = file
        self._segment_base = base
        if self._queue is not None and self.failure == 0:
            self._request(self._folder)
        return self.failure

    cdef void _request(self, SegmentFile file) noexcept with gil:
        """Request a sync of `file`; when it is done, everything written until now is durable, except a PAD at its
        end."""
        try:
            self._flight_ticket = self._queue.request(file)
            self._flight_position = self._counted_position()
        except Exception as error:
            self.error = error
            self.failure = -EILSEQ

    def share(self, RecordedTail tail not None):
        """Keep in a tail what is written from now on, until more is written than it holds."""
        tail.prepare()
        self._tail = tail

    def settle(self):
        """End the recording: nothing more is taken from the image, and what was written becomes durable.

        Blocks for a sync with `sync = "commit"`. Returns the stop position; `error` says why it stopped, if it failed.
        A failed recording stops at its durable position: what was acknowledged stays.
        """
        if self.is_active:
            self.is_active = False
            if self._tail is not None:
                self._tail.forget()
            if self.failure and self.error is None:
                self.error = self._describe_failure()
            if self.error is None and self._queue is not None:
                self._sync_rest()
            for file in (self._previous, self._file, self._folder):
                if file is not None:
                    file.close()
        return self.durable_position

    def _sync_rest(self):
        """Make everything written durable at once, keeping the order of files and names."""
        try:
            if self._flight_ticket and self._previous is not None:
                self._previous.sync_now()
            if self._flight_ticket:
                self._folder.sync_now()
            self._file.sync_now()
        except StorageError as error:
            self.error = error
            return
        self._flight_ticket = 0
        self.durable_position = self._counted_position()
        if self.counter is not None:
            self.counter.set_release(self.durable_position)

    def _describe_failure(self):
        if self.failure == -EILSEQ:
            return ArchiveError(
                f"recording {self.recording_id} stopped: the image does not continue at position="
                f"{self.written_position}; record it from a position where it does")
        return storage_error(-self.failure, "record", self._file.path)
