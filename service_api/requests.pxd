"""The table of executed requests and their answers: a function of the log (docs/CLIENT.md, Raft §6.3)."""

from libc.stdint cimport int32_t, int64_t

cdef enum:  # what RequestTable.admit says of a request
    EXECUTE = 0
    REPEATED = 1       # executed before: its answer is kept
    WAIT = 2           # too much is kept
    OUT_OF_ORDER = 3   # one before it is missing, or its answer was confirmed: nothing to do

cdef class PrincipalAnswers:
    """What is kept for all identities of one principal."""
    cdef int64_t answer_count
    cdef int64_t identity_count

cdef class Identity:
    """One client through all its sessions and processes. Numbers up to `number` are executed, in this order."""
    cdef readonly bytes identity           # 16 bytes
    cdef readonly bytes principal          # of the session that opened it first
    cdef readonly int64_t incarnation      # of the client that uses it
    cdef readonly int64_t open_position    # names it in the client's requests
    cdef readonly int64_t number           # last executed
    cdef readonly int64_t confirmed        # the client has the answers up to here
    cdef readonly int64_t last_time        # cluster time of its last record, in ms whatever the unit of the log
    cdef readonly int64_t kept_bytes
    cdef PrincipalAnswers _of_principal    # set while a table has the identity
    cdef int64_t _payload_bytes            # of these, what `RequestTable._shed` may free
    cdef int64_t _shed_number              # nothing up to here has a payload that may go
    cdef dict _answers                     # number -> (log position, status, payload, sequence), confirmed < number

cdef class RequestTable:
    cdef readonly object limits
    cdef dict _by_position
    cdef dict _by_identity
    cdef dict _by_principal                # -> PrincipalAnswers
    cdef readonly int64_t kept_bytes
    cdef int64_t _answer_count
    cdef readonly int64_t answer_bytes_max
    cdef int64_t _kept_bytes_max           # of all identities, of one
    cdef int64_t _identity_bytes_max
    cdef int64_t _answers_max
    cdef int64_t _principal_answers_max
    cdef int64_t _idle_timeout
    cdef readonly object ids                   # what callers chose: ordo.service_api.request_ids.RequestIds
    cdef bytes _request_id                     # of the request that `admit_by_id` let through, or None
    cdef bytes _payload_digest

    cdef Identity find(self, int64_t open_position, bytes principal, int64_t timestamp)
    cdef int admit(self, Identity identity, int64_t number, int64_t confirmed, int64_t timestamp) except -1
    cdef int admit_by_id(self, Identity identity, bytes request_id, bytes payload) except -1
    cdef int keep(self, Identity identity, int64_t log_position, int32_t status, bytes payload,
                  int64_t sequence=*) except -1
    cdef bint _has_expired(self, Identity identity, int64_t time)
    cdef bint _is_full(self, Identity identity) except -1
    cdef int _shed_oldest(self, Identity identity) except -1
    cdef int _confirm(self, Identity identity, int64_t number) except -1
