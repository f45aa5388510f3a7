"""The native half of the service container: executes committed records, sends the service's answers."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from archive.reader cimport RecordingReader
from cluster.container.outbox cimport EgressBuffers, Outbox
from runtime.agent cimport Agent
from runtime.counters cimport Counter
from service_api.native cimport Header, NativeClusteredService, NativeSession
from service_api.requests cimport Identity, RequestTable
from transport.image cimport Fragment
from transport.publication cimport Publication
from transport.subscription cimport Subscription

cdef class ContainerLoop(Agent):
    """What happens once a message. The rest is its Python subclass, called by the methods `on_*` and `tick`.

    One record at a time: `log_position`, `time` and `leadership_term_id` are those of the record being executed, and
    `hold` keeps the next one back while something about the last is not finished (egress, control stream, snapshot).
    """
    cdef readonly object service
    cdef NativeClusteredService _native            # None for a service in Python
    cdef object _on_message                        # bound on_session_message of a service in Python
    cdef object _background                        # bound do_background_work when the service overrides it
    cdef RecordingReader _reader
    cdef Counter _commit
    cdef Counter _leader_term
    cdef Counter _service_position
    cdef Header _header
    cdef dict _sessions                            # id -> ContainerSession
    cdef ContainerSession _last_session
    cdef int64_t _next_tick_ns
    cdef readonly int64_t log_position
    cdef readonly int64_t time
    cdef readonly int64_t leadership_term_id
    cdef readonly bint is_leading
    cdef Subscription _queries                     # from the consensus module
    cdef public int64_t next_query_position        # the lowest that a query waits for, or NO_QUERY
    cdef readonly int64_t executed_position        # everything below has been executed
    cdef public int hold                           # reasons, 0: none
    cdef public bint executes                      # recovered and not terminated
    cdef public int32_t record_limit               # a duty cycle
    cdef public bint may_call                      # sessions, timers, cluster.offer: only from callbacks of records
    cdef public str callback
    cdef bint _wrote                               # egress since the driver was woken last
    cdef public int64_t messages_executed
    cdef readonly RequestTable requests
    cdef readonly int64_t requests_repeated        # executed before, so answered only
    cdef readonly int64_t messages_rejected        # by the service
    cdef public dict marks                         # None, or by position: text of what is left out, None: wait before it
    cdef bytes _reply                              # to the message being executed, or None
    cdef ContainerSession _current                 # whose message is being executed, or None
    cdef readonly EgressBuffers egress             # what clients did not take

    cdef int _execute(self) except -1
    cdef int _work_egress(self) except -1
    cdef int _work_queries(self) except -1
    cdef int _execute_record(self, const Fragment* fragment) except -1
    cdef int _execute_message(self, const Fragment* fragment) except -1
    cdef int _execute_request(self, const Fragment* fragment) except -1
    cdef int _execute_once(self, ContainerSession session, Identity identity, const Fragment* fragment) except -1
    cdef int _call_service(self, ContainerSession session, const Fragment* fragment) except -1
    cdef ContainerSession _find_session(self, int64_t session_id)
    cdef bint _leads_now(self) noexcept nogil

cdef class ContainerSession(NativeSession):
    """A client's session in the container. Its publication is there only while this member leads."""
    cdef ContainerLoop _loop
    cdef Outbox _outbox
    cdef readonly int32_t response_stream_id
    cdef readonly str response_channel
    cdef readonly bytes encoded_principal
    cdef public bint is_closing
    cdef readonly bint is_closed
    cdef readonly bytes identity
    cdef public int64_t next_number                # of the session's next message; -1: its client has not marked any
    cdef uint8_t _message_header[32]
    cdef uint8_t _answer_header[60]
    cdef int64_t offer_native(self, const uint8_t* payload, int64_t length_bytes) noexcept nogil
    cdef int reply_native(self, const uint8_t* payload, int64_t length_bytes) except -1
    cdef int answer(self, int64_t open_position, int64_t number, int64_t log_position, int32_t status,
                    bytes payload) except -1
