"""The native half of the service container: executes committed records, sends the service's answers."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from ordo.archive.segments.reader cimport RecordingReader
from ordo.cluster.container.streams.outbox cimport EgressBuffers, Outbox
from ordo.cluster.wire.counters.latencies cimport ServiceSamples
from ordo.cluster.wire.counters.traces cimport ServiceTraces
from ordo.runtime.agents.agent cimport Agent
from ordo.runtime.native.counters cimport Counter
from ordo.service_api.messages.dispatch cimport Dispatch, dispatch_of
from ordo.service_api.native cimport Header, MessageSequence, NativeClusteredService, NativeSession
from ordo.service_api.requests cimport Identity, RequestTable
from ordo.transport.driver.frames.pointers cimport PointerMap
from ordo.transport.streams.image cimport Fragment
from ordo.transport.streams.publication cimport Publication
from ordo.transport.streams.subscription cimport Subscription

cdef class ContainerSession
cdef class MessageRun

cdef class ContainerLoop(Agent):
    """What happens once a message. The rest is its Python subclass, called by the methods `on_*` and `tick`.

    One record at a time: `log_position`, `time` and `leadership_term_id` are those of the record being executed, and
    `hold` keeps the next one back while something about the last is not finished (egress, control stream, snapshot).
    """
    cdef readonly object service
    cdef NativeClusteredService _native            # None for a service in Python
    cdef object _on_message                        # bound on_session_message of a service in Python
    cdef Dispatch _dispatch                        # what that of a service with types does, or None
    cdef object _on_messages                       # bound on_session_messages when the service overrides it
    cdef object _background                        # bound do_background_work when the service overrides it
    cdef RecordingReader _reader
    cdef Counter _commit
    cdef Counter _leader_term
    cdef Counter _service_position
    cdef Header _header
    cdef dict _sessions                            # id -> ContainerSession
    cdef object _sessions_seen                     # what others see of it: a pointer must not outlive its session
    cdef PointerMap _session_pointers              # the same, borrowed, for each message
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
    cdef public bint has_published                 # to feeds, since `flush_feeds` took it all
    cdef public bint wakes_driver                  # it runs elsewhere, and parks
    cdef public bint answers                       # requests and what else clients ask: of a node's services one does
    cdef bint _wrote                               # egress since the driver was woken last
    cdef public int64_t messages_executed
    cdef readonly RequestTable requests
    cdef readonly MessageSequence sequence         # a message that is left out has its number, too
    cdef readonly int64_t requests_repeated        # executed before, so answered only
    cdef readonly int64_t messages_rejected        # by the service
    cdef public dict marks                         # None, or by position: text of what is left out, None: wait before it
    cdef bytes _reply                              # to the message being executed, or None
    cdef ContainerSession _current                 # whose message is being executed, or None
    cdef int64_t _target_session_id                # whom the output is for that is being executed, or -1
    cdef const uint8_t* _output                    # its payload, in the log
    cdef int64_t _output_length
    cdef Identity _identity                        # whose request is being executed, or None
    cdef MessageRun _run
    cdef int _run_state
    cdef int _run_count                            # records that the run has taken
    cdef int _run_limit
    cdef int64_t _run_commit
    cdef object _run_error                         # in the log after the run: for what runs the container
    cdef object _run_failure                       # at a message of the run
    cdef Fragment _fragment                        # the message being executed, or the record behind the run
    cdef public bytes failed_payload               # the first bytes of the message at which the service raised
    cdef bint _has_next                            # `_fragment` was read, and is to be executed next
    cdef int64_t _next_start
    cdef readonly EgressBuffers egress             # what clients did not take
    cdef ServiceSamples _samples                   # None: nobody measures
    cdef public ServiceTraces traces               # None: nobody traces
    cdef object _index                             # what notes places of the log, or None
    cdef int64_t _index_next                       # from here on the next place is due
    cdef int64_t _index_spacing_bytes
    cdef Counter _sequence_counter                 # None: nobody is shown the last number

    cdef int cycle(self, int64_t now_ns) except -1     # do_work, without a look for a subclass that overrides it
    cdef int _execute(self, int64_t now_ns) except -1
    cdef int _work_egress(self) except -1
    cdef int _work_queries(self) except -1
    cdef int _execute_record(self, const Fragment* fragment, bint is_message) except -1
    cdef int _call_service(self, const Fragment* fragment) except -1
    cdef bint _begin_message(self, const Fragment* fragment) except -1
    cdef int _note_place(self, int64_t position, const Fragment* fragment) except -1
    cdef int _note_unnumbered(self, const Fragment* fragment) except -1
    cdef bint _admit_request(self, const Fragment* fragment, ContainerSession session) except -1
    cdef bint _takes_id_of(self, const uint8_t* record) except -1
    cdef int _admit_by_id(self, const Fragment* fragment, Identity identity) except -1
    cdef int _end_message(self) except -1
    cdef int _reject_message(self, str why) except -1
    cdef void _note_target(self, const Fragment* fragment) noexcept
    cdef int _send_output(self) except -1
    cdef int _end_request(self, int32_t status, bytes payload) except -1
    cdef int _forget_request(self) except -1
    cdef int _execute_run(self, const Fragment* first, int64_t commit, int limit) except -1
    cdef int _call_service_with_run(self) except -1
    cdef bytes _next_of_run(self)
    cdef bint _read_of_run(self) noexcept
    cdef ContainerSession _find_session(self, int64_t session_id)
    cdef bint _leads_now(self) noexcept nogil

cdef class MessageRun:
    """Committed messages that follow on one another, as `on_session_messages` gets them; see ordo.service_api.message_run.

    Each step ends the message before it and begins the next one, so all is as if each came alone.
    """
    cdef ContainerLoop _loop

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
    cdef uint8_t _answer_header[68]
    cdef int64_t offer_native(self, const uint8_t* payload, int64_t length_bytes) noexcept nogil
    cdef int reply_native(self, const uint8_t* payload, int64_t length_bytes) except -1
    cdef int answer(self, int64_t open_position, int64_t number, int64_t log_position, int32_t status,
                    bytes payload, int64_t sequence=*) except -1
