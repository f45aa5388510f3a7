"""The Python side of checked frames: layouts from descriptors, and the error that names a damaged frame."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy
from ordo.runtime.native.atomics cimport ordo_get_i32, ordo_get_u16, ordo_put_i32
from ordo.transport.streams.logbuffer cimport (
    FRAME_FLAGS_OFFSET,
    FRAME_TYPE_OFFSET,
    FRAME_VERSION_OFFSET,
    HEADER_LENGTH,
    STREAM_ID_OFFSET,
    TERM_ID_OFFSET,
    TERM_OFFSET_OFFSET,
    TYPE_DATA,
    align_frame,
)

from ordo.runtime.errors import CorruptFrameError
from ordo.runtime.io.storage import storage_error

FAULT_REASONS = {
    FAULT_ABSENT: "no frame was written here",
    FAULT_LENGTH: "frame length",
    FAULT_TYPE: "version or type",
    FAULT_TERM_OFFSET: "term offset",
    FAULT_TERM_ID: "term id",
    FAULT_STREAM_ID: "stream id",
    FAULT_CHECKSUM: "checksum",
    FAULT_FLAGS: "fragment flags",
    FAULT_TRUNCATED: "the segment file ends inside the frame",
    FAULT_MISSING_FILE: "the segment file is missing",
    FAULT_READ: "the segment file cannot be read",
}


cdef Layout layout_of(object descriptor) except *:
    """Return the native form of a RecordingDescriptor."""
    cdef Layout layout
    layout.start_position = descriptor.start_position
    layout.term_length = descriptor.term_length
    layout.term_shift = descriptor.term_length.bit_length() - 1
    layout.segment_length = descriptor.segment_length
    layout.initial_term_id = descriptor.initial_term_id
    layout.mtu = descriptor.mtu
    layout.stream_id = descriptor.stream_id
    layout.session_id = descriptor.session_id
    layout.first_base = layout.start_position & ~(<int64_t> layout.term_length - 1)
    return layout


def reseal(uint8_t[::1] frames, int32_t stream_id):
    """Give whole recorded frames, one after the other, another stream id and the checksums that go with it.

    Returns how many of them had another stream id or checksum. A PAD may reach past the end. Raises ValueError where a
    length is none.
    """
    cdef int64_t offset = 0
    cdef int64_t changed_count = 0
    cdef uint8_t before[32]
    cdef int64_t end = frames.shape[0]
    cdef int32_t length, aligned
    while offset < end:
        length = ordo_get_i32(&frames[offset]) if offset + HEADER_LENGTH <= end else 0
        aligned = align_frame(length)
        if (length < HEADER_LENGTH
                or (ordo_get_u16(&frames[offset + FRAME_TYPE_OFFSET]) == TYPE_DATA and offset + aligned > end)):
            raise ValueError(f"a frame of length={length} at {offset} of {end} bytes")
        memcpy(before, &frames[offset], HEADER_LENGTH)
        ordo_put_i32(&frames[offset + STREAM_ID_OFFSET], stream_id)
        seal_frame(&frames[offset], aligned)
        changed_count += memcmp(before, &frames[offset], HEADER_LENGTH) != 0
        offset += aligned
    return changed_count


cdef str _values(int fault, int64_t position, const uint8_t* frame, const Layout* layout):
    """Return `expected=.. actual=..` for a fault, from the frame's bytes; empty if there is nothing to compare."""
    cdef int32_t expected
    cdef int32_t actual
    if frame == NULL:
        return ""
    if fault == FAULT_CHECKSUM:
        expected, actual = stored_checksum(frame), actual_checksum(frame)
        return f" expected=0x{<uint32_t> expected:08x} actual=0x{<uint32_t> actual:08x}"
    if fault == FAULT_LENGTH:
        return f" allowed={HEADER_LENGTH}..{layout.mtu} actual={ordo_get_i32(frame)}"
    if fault == FAULT_TYPE:
        return (f" allowed=version 0, type 0 or 1 actual=version {frame[FRAME_VERSION_OFFSET]}, "
                f"type {ordo_get_u16(frame + FRAME_TYPE_OFFSET)}")
    if fault == FAULT_TERM_OFFSET:
        expected = <int32_t> (position & (layout.term_length - 1))
        actual = ordo_get_i32(frame + TERM_OFFSET_OFFSET)
    elif fault == FAULT_TERM_ID:
        expected = <int32_t> (layout.initial_term_id + <int32_t> (position >> layout.term_shift))
        actual = ordo_get_i32(frame + TERM_ID_OFFSET)
    elif fault == FAULT_STREAM_ID:
        expected, actual = layout.stream_id, ordo_get_i32(frame + STREAM_ID_OFFSET)
    elif fault == FAULT_FLAGS:
        return f" actual=0x{frame[FRAME_FLAGS_OFFSET]:02x}"
    else:
        return ""
    return f" expected={expected} actual={actual}"


cdef object frame_error(int fault, int64_t recording_id, str path, int64_t position, const uint8_t* frame,
                        const Layout* layout):
    """Return the CorruptFrameError of one fault, or a StorageError if the file cannot be read.

    `frame` may be NULL; for a checksum it must be there whole.
    """
    if fault < 0:
        return storage_error(-fault, f"read recording {recording_id} at position={position}", path)
    reason = FAULT_REASONS[fault]
    return CorruptFrameError(
        f"recording {recording_id} is damaged at position={position} in {path}: {reason}"
        f"{_values(fault, position, frame, layout)}; restore the segment from another node, or truncate the "
        f"recording to this position",
        recording_id=recording_id, position=position, segment_path=path, reason=reason,
    )
