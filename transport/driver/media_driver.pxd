"""The media driver on its caller's thread: conductor, receiver and sender as parts a node can order itself."""

from libc.stdint cimport int32_t, int64_t
from ordo.runtime.agents.agent cimport Agent
from ordo.runtime.native.clock cimport Clock
from ordo.runtime.io.datagram cimport DatagramNetwork
from ordo.runtime.native.memory cimport MemoryProvider
from ordo.runtime.agents.spinning cimport Spinning
from ordo.runtime.agents.use cimport Use
from ordo.runtime.agents.wake cimport ParkFlag
from ordo.transport.driver.frames.gate cimport Gate
from ordo.transport.driver.frames.pointers cimport PointerArray
from ordo.transport.driver.receiving.receiver cimport Receiver
from ordo.transport.driver.sending.sender cimport Sender
from ordo.transport.driver.frames.system_counters cimport SystemCounters
from ordo.transport.control.ring cimport ManyToOneRing

cdef enum:
    # parts of a driver: what one thread does of its work
    PART_CONDUCTOR = 1
    PART_SENDER = 2
    PART_RECEIVER = 4
    PARTS_ALL = 7

cdef class MediaDriver(Agent):
    cdef readonly Use use                      # entered by `do_work` and `park`
    cdef readonly object config
    cdef readonly str directory
    cdef readonly Clock clock
    cdef readonly DatagramNetwork network      # names, and all sockets unless the parts have threads
    cdef DatagramNetwork send_network
    cdef DatagramNetwork receive_network
    cdef Gate sender_gate                      # None: all parts on one thread
    cdef Gate receiver_gate
    cdef readonly MemoryProvider memory
    cdef readonly object conductor
    cdef readonly object context
    cdef readonly object error_log
    cdef readonly object losses
    cdef public object threads                 # DriverThreads that work it, or None: its owner does
    cdef readonly bint started
    cdef readonly int64_t cycle_count          # of `do_work`
    cdef readonly bint terminated              # a client asked for the end, and may
    cdef Sender sender
    cdef Receiver receiver
    cdef SystemCounters system
    cdef ManyToOneRing ring
    cdef ParkFlag park_flag
    cdef readonly Spinning spinning            # of `park`
    cdef PointerArray ipc
    cdef object _random
    cdef object _secret                        # of the admission of images
    cdef object _entropy                       # random bytes for keys
    cdef readonly object keyring               # None: nothing is encrypted
    cdef int64_t _first_correlation_id
    cdef dict _told_ns                         # hosts whose datagrams are encrypted -> when to say so again
    cdef object _error_handler
    cdef object _on_termination
    cdef object _memories
    cdef object _ipc_kept
    cdef int64_t timer_deadline_ns
    cdef int64_t endpoint_deadline_ns
    cdef int32_t logs_are_made                 # set by the thread that makes them: the conductor is to look
    cdef bint name_is_pending                  # a command waits for a name: it is tried again
    cdef bint is_selected                      # a park has just marked the channels that are ready
    cdef int64_t selected_ns                   # the latest look at all channels, of those that were not parks
    cdef int asked                             # how many looks since then went to the receiver's channels alone

    cdef int select(self, int64_t timeout_ns) noexcept nogil        # marks the channels that are ready; 0: look only
    cdef void look(self, int64_t now_ns) noexcept nogil             # the same, unless a park has just done it
    cdef bint _may_ask(self, int64_t now_ns) noexcept nogil
    cdef bint _has_few_sockets(self) noexcept nogil
    cdef int receive_work(self, int64_t now_ns) noexcept nogil      # datagrams in, control frames included; begun at `now_ns`
    cdef int conduct_and_send_work(self, int64_t now_ns) noexcept nogil  # limits, rebuild, SM, NAK, commands, timers; sends
    cdef int send_work(self, int64_t now_ns) noexcept nogil         # data, heartbeats, SETUP out; bytes
    cdef int64_t next_deadline(self, int64_t now_ns) noexcept nogil # when something is due without being told
    cdef bint has_work(self) noexcept nogil                         # something waits that no socket will announce
    cdef void announce_park(self) noexcept nogil                    # then look for work once more, `select`, `awake`
    cdef void awake(self) noexcept nogil
    cdef int _look_again(self) noexcept nogil                       # as often as `spinning` has it
    cdef int park_until(self, int64_t now_ns, int64_t timeout_ns) noexcept nogil
    cdef int _timed_work(self, int64_t now_ns) noexcept nogil
    cdef int _timed_send(self, int64_t now_ns, int64_t begun_ns) noexcept nogil
    cdef int _conduct(self, int64_t now_ns) noexcept nogil
    cdef int64_t _note_part(self, int counter, int64_t begun_ns) noexcept nogil
    cdef bint _python_is_due(self, int64_t now_ns) noexcept nogil
    cdef int _locked_python_work(self, int64_t now_ns) noexcept nogil
    cdef int turn(self, int parts, int64_t now_ns) noexcept nogil   # one duty cycle of these parts
    cdef int _sender_turn(self, int64_t now_ns) noexcept nogil
    cdef int _receiver_turn(self, int64_t now_ns) noexcept nogil
    cdef bint part_is_busy(self, int parts) noexcept nogil          # as has_work
    cdef int64_t part_deadline(self, int parts, int64_t now_ns) noexcept nogil
    cdef DatagramNetwork part_network(self, int parts)
    cdef int _ipc_work(self, int64_t now_ns) noexcept nogil
    cdef bint _ipc_has_moved(self) noexcept nogil
    cdef bint _ipc_has_unread(self) noexcept nogil
    cdef int _python_work(self, int64_t now_ns) noexcept
    cdef int _read_commands(self) except -1
