"""Subscriptions: the images of one channel and stream."""

from libc.stdint cimport int32_t, int64_t

cdef class Subscription:
    """`images` is a tuple of Image, replaced when one comes or goes: take it once a batch."""
    cdef readonly tuple images
    cdef readonly str channel
    cdef readonly int32_t stream_id
    cdef readonly int64_t registration_id
    cdef readonly int32_t channel_status_id    # counter id, -1 for IPC and spies
    cdef readonly bint closed
    cdef readonly object on_available_image
    cdef readonly object on_unavailable_image
    cdef object _client
    cdef Py_ssize_t _start
    cdef int _poll(self, object handler, int limit, int64_t limit_position, int mode) except -1
