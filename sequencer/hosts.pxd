"""What the Sequencer hands on, by who takes it: each is a class that the consensus module implements in Python.

Everything here is rare. What a message of a session, a position and a commit take each time stays in the Sequencer.
"""

from libc.stdint cimport int32_t, int64_t

from ordo.sequencer.sources cimport ConsensusSource
from ordo.transport.streams.image cimport Image

cdef class LogHost:
    """Takes the records of this member's log that are no messages of sessions, and how far the log has come."""
    cpdef void on_record(self, int64_t position, bytes record) except *
    cpdef void on_appended(self, int64_t append_position, int64_t now_ns) except *
    cpdef void on_commit(self, int64_t commit_position, int64_t now_ns) except *

cdef class IngressHost:
    """Takes what clients send that is not sequenced."""
    cpdef bint on_ingress(self, Image image, bytes message, int64_t cluster_time) except -1
    cpdef void on_query(self, Image image, bytes message) except *
    cpdef void on_operator(self, Image image, bytes message) except *
    cpdef void on_invalid_request(self, str detail) except *

cdef class SessionHost:
    """Decides about messages of sessions that need more than the session table."""
    cpdef bint may_claim(self, int64_t session_id, Image image) except -1
    cpdef int open_account(self, int64_t session_id, Image image) except? -3
    cpdef bint admits_output(self, Image image, int64_t session_id) except -1
    cpdef bint admits_command(self, Image image, bytes message) except -1
    cpdef bint admits_identity(self, Image image, bytes message, int64_t cluster_time) except -1
    cpdef void on_message_mark(self, int64_t session_id, int64_t number, int64_t position) except *

cdef class ConsensusHost:
    """Takes the messages of members, all but the two of the steady state."""
    cpdef void on_consensus(self, ConsensusSource source, bytes message, int64_t now_ns) except *

cdef class ServiceHost:
    """Takes what the containers of services ask for, and report."""
    cpdef void on_service(self, int32_t service_id, bytes message) except *
