"""What those that send requests share: a client for itself (request_window.pyx), a gateway for others (relay_window.pyx)."""

from libc.stdint cimport uint8_t

# whether the leader's ingress has taken a request; the header is REQUEST_LENGTH bytes long, and the digest that of the
# id that its caller chose, or None
cdef bint append_request(session, ingress, uint8_t* header, bytes digest, bytes payload) except -1
