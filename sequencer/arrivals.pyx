"""When a message arrived at its leader. See arrivals.pxd."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from ordo.cluster.wire.layout cimport (
    ARRIVAL_LENGTH,
    ARRIVED_REQUEST_ID,
    OUTPUT_BY_ID_BLOCK,
    SBE_HEADER_LENGTH,
    SESSION_HEADER_ARRIVAL,
    SESSION_HEADER_LENGTH,
    SESSION_MESSAGE_ARRIVED_BLOCK,
    SESSION_MESSAGE_HEADER_ID,
    is_request,
    put_ordo_header,
    put_sbe_header,
    template_id,
)
from ordo.runtime.native.atomics cimport ordo_get_i64, ordo_get_u16, ordo_put_i64
from ordo.transport.streams.image cimport Fragment
from ordo.transport.streams.logbuffer cimport RESERVED_VALUE_OFFSET


cdef Head put_arrival(uint8_t* head, const Fragment* fragment, int64_t length_bytes_max) noexcept nogil:
    """Make a head of a message that has its stamp already that of one with the time of its arrival.

    It is left out where it is not known, where the record would be too long with it, and for what services do not see.
    """
    cdef const uint8_t* message = fragment.payload
    cdef int64_t arrival = ordo_get_i64(fragment.header + RESERVED_VALUE_OFFSET)
    cdef int64_t end
    if arrival <= 0 or fragment.length_bytes + ARRIVAL_LENGTH > length_bytes_max:
        return Head(SESSION_HEADER_LENGTH, SESSION_HEADER_LENGTH)
    if template_id(message, fragment.length_bytes) == SESSION_MESSAGE_HEADER_ID:
        put_sbe_header(head, SESSION_MESSAGE_ARRIVED_BLOCK, SESSION_MESSAGE_HEADER_ID)
        ordo_put_i64(head + SESSION_HEADER_ARRIVAL, arrival)
        return Head(SESSION_HEADER_ARRIVAL + ARRIVAL_LENGTH, SESSION_HEADER_LENGTH)
    if not is_request(message, fragment.length_bytes) or ordo_get_u16(message) > OUTPUT_BY_ID_BLOCK:
        return Head(SESSION_HEADER_LENGTH, SESSION_HEADER_LENGTH)
    end = SBE_HEADER_LENGTH + ordo_get_u16(message)
    memcpy(head + SESSION_HEADER_LENGTH, message + SESSION_HEADER_LENGTH, end - SESSION_HEADER_LENGTH)
    put_ordo_header(head, ordo_get_u16(message) + ARRIVAL_LENGTH, ARRIVED_REQUEST_ID)
    ordo_put_i64(head + end, arrival)
    return Head(end + ARRIVAL_LENGTH, end)


assert HEAD_LENGTH_MAX == SBE_HEADER_LENGTH + OUTPUT_BY_ID_BLOCK + ARRIVAL_LENGTH, "the longest head"
