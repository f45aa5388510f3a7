"""The time at which a client's message arrived at its leader, as the log has it (docs/spec/ordo-messages.md).

A leader takes it from the reserved value of the frame that the message begins with, where its driver has put it, and
writes it at the end of the record's block: of a SessionMessageHeader, or of a Request, which becomes an ArrivedRequest.
"""

from libc.stdint cimport int64_t, uint8_t

from ordo.transport.streams.image cimport Fragment

cdef enum:
    HEAD_LENGTH_MAX = 104                 # of an OutputById, with the message header and the time

cdef struct Head:
    # How a record begins that is made of a message.
    int64_t length_bytes                  # that are written anew
    int64_t taken_bytes                   # of the message, which they stand for

cdef Head put_arrival(uint8_t* head, const Fragment* fragment, int64_t length_bytes_max) noexcept nogil
