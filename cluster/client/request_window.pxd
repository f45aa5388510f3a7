"""What those that send requests share: a client for itself (request_window.pyx), a gateway for others (relay_window.pyx)."""

from libc.stdint cimport uint8_t

# whether the leader's ingress has taken a request; the header is REQUEST_LENGTH bytes long
cdef bint append_request(session, ingress, const uint8_t* header, bytes payload) except -1
