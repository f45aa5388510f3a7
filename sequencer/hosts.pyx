"""What the Sequencer hands on, by who takes it. See hosts.pxd."""


cdef class LogHost:
    cpdef void on_record(self, int64_t position, bytes record) except *:
        """Note a record other than a message of a session that became durable in this member's log."""
        raise NotImplementedError

    cpdef void on_appended(self, int64_t append_position, int64_t now_ns) except *:
        """Note that the log grew during an election."""
        raise NotImplementedError

    cpdef void on_commit(self, int64_t commit_position, int64_t now_ns) except *:
        """Execute the committed records: at least one of them was handed to `on_record`."""
        raise NotImplementedError


cdef class IngressHost:
    cpdef bint on_ingress(self, Image image, bytes message, int64_t cluster_time) except -1:
        """Take a client's message that is no session message. Returns False to be given it again."""
        raise NotImplementedError

    cpdef void on_query(self, Image image, bytes message) except *:
        """Take a client's query. Every member does so, in any state."""
        raise NotImplementedError

    cpdef void on_operator(self, Image image, bytes message) except *:
        """Take an operator's request. Every member does so, in any state."""
        raise NotImplementedError

    cpdef void on_invalid_request(self, str detail) except *:
        """Count a refused request, and log one line."""
        raise NotImplementedError


cdef class SessionHost:
    cpdef bint may_claim(self, int64_t session_id, Image image) except -1:
        """Return whether an image may be the one that a session's client speaks through."""
        raise NotImplementedError

    cpdef int open_account(self, int64_t session_id, Image image) except? -3:
        """Return the account of a session that speaks through an image, or NO_ACCOUNT; give the image its lane."""
        raise NotImplementedError

    cpdef bint admits_output(self, Image image, int64_t session_id) except -1:
        """Return whether a session may write outputs for other sessions. If not, it is closed."""
        raise NotImplementedError

    cpdef bint admits_command(self, Image image, bytes message) except -1:
        """Return whether a ConsumerCommand may be appended; if not, its client is told."""
        raise NotImplementedError

    cpdef bint admits_identity(self, Image image, bytes message, int64_t cluster_time) except -1:
        """Return whether an OpenIdentity may be appended; if not, its client is told."""
        raise NotImplementedError

    cpdef void on_message_mark(self, int64_t session_id, int64_t number, int64_t position) except *:
        """Note that a client's mark of its next message was appended at a position."""
        raise NotImplementedError


cdef class ConsensusHost:
    cpdef void on_consensus(self, ConsensusSource source, bytes message, int64_t now_ns) except *:
        """Take a message of the consensus stream."""
        raise NotImplementedError


cdef class ServiceHost:
    cpdef void on_service(self, int32_t service_id, bytes message) except *:
        """Take a message of a service's container."""
        raise NotImplementedError
