"""Each message goes to the method that takes its class, and what that returns becomes the answer's bytes: natively, for
every member does so for every message."""

from libc.stdint cimport int64_t, uint8_t

from ordo.service_api.messages.codec cimport MessageCodec, MessageSet

cdef class Handler:
    """The method that takes messages of one class; None where it is only an answer.

    `answers`: the classes of what has to answer; empty: anything. A message with such is a Request. `answer`: the codec of
    the first of them.
    """
    cdef MessageCodec codec
    cdef object method
    cdef bint takes_header
    cdef tuple answers
    cdef MessageCodec answer

cdef class Dispatch:
    """The methods of one class of service, as `__ordo_handlers__` of TypedService has them, and its schema's messages."""
    cdef MessageSet _set
    cdef dict _handlers                # id of the message -> its Handler
    cdef object execute(self, object service, object session, int64_t timestamp, const uint8_t* data, Py_ssize_t length,
                        object header)
    cdef object _call(self, object service, object session, object message, object header, Handler handler)

cpdef Dispatch dispatch_of(object service)
