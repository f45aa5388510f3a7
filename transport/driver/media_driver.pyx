"""The media driver (cnc-and-driver-protocol.md §8): everything on the thread that calls `do_work`, or parts of it each
on a thread of `ordo.transport.driver.threads`.

One duty cycle is `look`, `receive_work`, `conduct_and_send_work`; a node has work of its own between them. The
steady state is native; commands of clients, new images and the timers of once a second are Python.

Parking: `park` announces the flag counter (type 1004), looks for work once more, and waits on the sockets until the
next deadline. A process that wrote into a log buffer sends a byte to `wake.sock` when the flag says parked.
"""

import os

from ordo.runtime.native.atomics cimport ordo_load_acquire_i32, ordo_store_release_i32
from ordo.runtime.native.counters cimport Counter, CountersManager
from ordo.runtime.native.sentinels cimport NEVER
from ordo.runtime.agents.use cimport Use
from ordo.runtime.agents.wake cimport PARK_SOCKETS
from ordo.transport.driver.frames.frames cimport COUNTER_CONDUCTOR_CYCLE, COUNTER_ERRORS, COUNTER_RECEIVER_CYCLE, COUNTER_SENDER_CYCLE
from ordo.transport.driver.flow.admission cimport Admission
from ordo.transport.driver.sending.ipc_publication cimport IpcPublication
from ordo.transport.driver.frames.pointers cimport pointer_at
from ordo.transport.driver.frames.system_counters cimport note_cycle

from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.error_log import DistinctErrorLog
from ordo.runtime.errors import ConfigurationError, OrdoError
from ordo.runtime.reporting.logging import tell
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.runtime.random import RandomSource
from ordo.transport.control.cnc import FILE_NAME, create_cnc
from ordo.transport.driver.conducting.conductor import Conductor
from ordo.transport.driver.channels.settings import MediaDriverSettings, port_range, table_of_names
from ordo.transport.driver.conducting.context import OWNER_NONE, TYPE_PARK_FLAG, DriverContext
from ordo.transport.driver.conducting.log_files import LogFiles
from ordo.transport.driver.conducting.log_store import LogStore
from ordo.transport.driver.channels.directory import WAKE_SOCKET_NAME, claim
from ordo.transport.driver.frames.event_log import FILE_NAME as EVENTS_FILE_NAME
from ordo.transport.driver.frames.event_log import EventLog, file_length_bytes
from ordo.transport.driver.flow.loss_report import FILE_NAME as LOSS_FILE_NAME
from ordo.transport.driver.flow.loss_report import LossReport
from ordo.transport.driver.channels.names import Names, WildcardPorts
from ordo.transport.udp import UdpNetwork, unpack_address

cdef enum:
    SPINS_MAX = 20                     # looks before a park, while something comes again and again
    UNREAD_POLL_NS = 1000000           # how long to park while a subscriber in another process is behind
    COMMANDS_NS = 200000               # so long a duty cycle takes commands of clients, or one command takes longer
    COMMANDS_PER_CYCLE_MAX = 16
    ASKED_TRANSPORTS_MAX = 2
    ASKS_MAX = 15                      # between two looks at all sockets
    SELECT_NS = 50000                  # after so long a look is at all sockets
    HOSTS_TOLD_MAX = 64                # about datagrams that cannot be read
    CORRELATION_ID_BITS = 47           # of the first: a client started again must not take its predecessor's answers

cdef int64_t TELL_AGAIN_NS = 60000000000


cdef class MediaDriver(Agent):
    """A driver in `config.directory`, started by `on_start` (or `with`), worked by `do_work`, ended by `on_close`.

    The seams `clock`, `network`, `memory` and `random` (a RandomSource) are real ones unless given. `error_handler`
    hears every error beside the error log. Only one driver may run in a folder: DriverInUseError.
    """

    def __init__(self, config not None, *, Clock clock=None, DatagramNetwork network=None, MemoryProvider memory=None,
                 random=None, error_handler=None, on_termination=None):
        if isinstance(config, str):
            config = MediaDriverSettings(directory=config)
        self.config = config
        self.directory = config.directory
        self.use = Use(f"driver {config.directory}")
        self.clock = clock if clock is not None else SystemClock()
        self.network = network
        self.memory = memory if memory is not None else FileMemoryProvider()
        source = random or RandomSource()
        self._random = source.stream("media driver")
        self._secret = source.stream("admission").getrandbits(64)
        self._entropy = source.secret("encryption").randbytes
        self._first_correlation_id = 1 + source.stream("correlation ids").getrandbits(CORRELATION_ID_BITS)
        self._error_handler = error_handler
        self._on_termination = on_termination
        self._memories = []
        self._told_ns = {}
        self._ipc_kept = []
        self.ipc = PointerArray()
        self.spinning = Spinning(SPINS_MAX)

    @property
    def role_name(self):
        return f"driver {self.directory}"

    def __enter__(self):
        self.on_start()
        return self

    def __exit__(self, *exc_info):
        self.on_close()

    # --- start and end --------------------------------------------------------------------------------------------

    def on_start(self):
        """Make the folder, its files and the counters, and let clients in."""
        left = claim(self.config, self.memory, self.clock)
        try:
            self._build()
        except BaseException:
            self._release()
            raise
        for text in left:
            self.record_error(f"left by the driver before: {text}")

    def _build(self):
        config = self.config
        self._open_networks()
        cnc = create_cnc(
            self.memory, f"{self.directory}/{FILE_NAME}",
            client_liveness_timeout_ns=config.client_liveness_timeout_ns, start_timestamp_ms=self.clock.epoch_ms(),
            pid=os.getpid(), to_driver_capacity=config.to_driver_capacity,
            to_clients_capacity=config.to_clients_capacity, counters_values_length=config.counters_values_length,
            error_log_length=config.error_log_length, page_size=config.page_size,
            reserve=config.reserve_memory)
        self._memories.append(cnc)
        counters = CountersManager(cnc.counters_metadata, cnc.counters_values, self.clock,
                                   config.counters_reuse_timeout_ns // 1000000)
        self.system = SystemCounters(counters, config.threading_mode.upper().replace("-", "_"))
        self.error_log = DistinctErrorLog(cnc.error_log, self.clock, self.system.counters[COUNTER_ERRORS])
        losses = self.memory.create(f"{self.directory}/{LOSS_FILE_NAME}", config.loss_report_length,
                                    not config.reserve_memory)
        self._memories.append(losses)
        self.losses = LossReport(losses, self.clock)
        traced = self.memory.create(f"{self.directory}/{EVENTS_FILE_NAME}", file_length_bytes(config.event_log_length),
                                    not config.reserve_memory)
        self._memories.append(traced)
        events = EventLog(traced, self.clock, is_new=True)
        self.sender = Sender(self.system)
        self.receiver = Receiver(self.system, self._admission(), config.pending_setups_max)
        self.sender.events = self.receiver.events = events
        if self.keyring is not None:
            for network in {self.network, self.send_network, self.receive_network}:
                network.attach(self.system, self._report)
        self.ring = cnc.to_driver
        self.ring.start_correlation_ids(self._first_correlation_id)
        self.park_flag = ParkFlag(counters.allocate(TYPE_PARK_FLAG, "ordo driver park flag", owner_id=OWNER_NONE))
        self.send_network.open_wake_socket(f"{self.directory}/{WAKE_SOCKET_NAME}")
        names = Names(self.network, table_of_names(config.name_table), self.clock, self.system.note_resolution)
        self.context = DriverContext(
            config=config, directory=self.directory, clock=self.clock,
            network=self.network, names=names,
            send_ports=WildcardPorts(port_range(config.sender_wildcard_ports, "sender_wildcard_ports")),
            receive_ports=WildcardPorts(port_range(config.receiver_wildcard_ports, "receiver_wildcard_ports")),
            send_network=self.send_network, receive_network=self.receive_network, logs=self._log_store(),
            random=self._random, cnc=cnc, counters=counters, system=self.system, sender=self.sender,
            receiver=self.receiver, record_error=self.record_error, record_loss=self.losses.record,
            events=events, transmit_raw=cnc.transmitter().transmit)
        self.conductor = Conductor(self.context, self._collect_ipc, self._terminate)
        now_ns = self.clock.nano_time()
        self.timer_deadline_ns = now_ns + <int64_t> config.timer_interval_ns
        self.endpoint_deadline_ns = now_ns
        cnc.mark_ready(self.clock.epoch_ms())
        self.started = True

    def _log_store(self):
        """Make the store of logs. A thread makes and frees files, in real time; in simulations this is done at once."""
        is_real = isinstance(self.memory, FileMemoryProvider) and isinstance(self.clock, SystemClock)
        files = LogFiles(self.memory, is_threaded=is_real, on_made=self.on_logs_made)
        return LogStore(files, self.system, self.config.page_size, self.config.reserve_memory)

    def on_logs_made(self):
        """Have the next duty cycle look after the files of logs that were made, from any thread."""
        ordo_store_release_i32(&self.logs_are_made, 1)
        self.network.wake()

    def _admission(self):
        config = self.config
        return Admission(
            secret=self._secret, term_length_max=config.image_term_length_max,
            images_max=config.images_max, images_per_source_max=config.images_per_source_max,
            unconfirmed_per_source_max=config.unconfirmed_images_per_source_max,
            bytes_max=config.image_memory_max, bytes_per_source_max=config.image_memory_per_source_max,
            rate_per_source=config.setups_per_source_rate, burst_per_source=config.setups_per_source_burst)

    def _open_networks(self):
        """Open the sockets; parts on threads of their own get networks of their own, since a network's buffers and
        epoll are not shared."""
        is_threaded = self.config.threading_mode in ("shared-network", "dedicated")
        if self.network is None:
            self.network = UdpNetwork()
        elif is_threaded:
            raise ConfigurationError(f"threading_mode={self.config.threading_mode!r} is for real sockets only")
        self.send_network = self.receive_network = self.network
        if is_threaded:
            self.sender_gate, self.receiver_gate = Gate(), Gate()
            self.send_network = self.receive_network = UdpNetwork()
        if self.config.threading_mode == "dedicated":
            self.receive_network = UdpNetwork()
        if self.config.encryption_key_file:
            self._encrypt()

    def _encrypt(self):
        """Give each network its own keys, since each has its own thread."""
        from ordo.transport.secure.keys import Keyring  # only where asked for: every command line starts a driver
        from ordo.transport.secure.network import SecureNetwork

        config = self.config
        self.keyring = Keyring(config.encryption_key_file, config.encryption_trusted_file)
        networks = {id(network): network for network in (self.network, self.send_network, self.receive_network)}
        sealed = {key: SecureNetwork(network, self.keyring, self.clock, entropy=self._entropy,
                                     rekey_ns=config.encryption_rekey_ns) for key, network in networks.items()}
        self.network = sealed[id(self.network)]
        self.send_network = sealed[id(self.send_network)]
        self.receive_network = sealed[id(self.receive_network)]

    def on_close(self):
        """End the driver's threads, tell clients, close sockets and files, and remove the folder unless told otherwise.

        In a process that was forked from the driver's it does nothing: all of these are the other's.
        """
        if self.started:
            self.use.end(self._close)

    def _close(self):
        if not self.started:
            return
        if self.threads is not None:
            self.threads.close()
        self.started = False
        self.ring.consumer_heartbeat_ms = -1
        self.conductor.close()
        self.context.logs.close()
        self._release()
        if self.config.delete_directory_on_shutdown:
            self.memory.remove_directory(self.directory)

    def _release(self):
        self.conductor = None
        self.context = None
        self.error_log = None
        self.losses = None
        self.ring = None
        self.park_flag = None
        self.sender = None
        self.receiver = None
        self.system = None
        for network in (self.network, self.send_network, self.receive_network):
            if network is not None:
                network.close()
        self.send_network = self.receive_network = None
        # not closed but let go: counters that somebody in this process still holds keep the mapping alive
        self._memories = []

    def _collect_ipc(self):
        """Return the native loop's view of the IPC publications."""
        cdef IpcPublication publication
        self._ipc_kept = list(self.conductor.publications.ipc.values())
        self.ipc = PointerArray()
        for publication in self._ipc_kept:
            self.ipc.add(<void*> publication)

    def _terminate(self):
        self.terminated = True
        if self._on_termination is not None:
            self._on_termination()

    def record_error(self, error, entry=None):
        """Record an error in the driver's error log (which counts repetitions), and pass it to the error handler.

        `entry` is the log's text where it has more to say than the error."""
        if self.error_log is not None:
            self.error_log.record(entry or error)
        if self._error_handler is not None:
            self._error_handler(error)

    def _report(self, text):
        """Report what a user should see now, in the error log and in the process's log."""
        self.record_error(text)
        tell("warning", "driver.encryption", directory=self.directory, text=text)

    # --- duty cycle -----------------------------------------------------------------------------------------------

    cpdef int do_work(self, int64_t now_ns) except -1:
        cdef int work = 0
        if not self.started:
            return 0
        self.use.enter()
        if self.started:                   # still, after another thread
            self.cycle_count += 1
            with nogil:
                self.look(now_ns)
                work = self._timed_work(now_ns)
        self.use.leave()
        return work

    cdef int _timed_work(self, int64_t now_ns) noexcept nogil:
        """Run all parts, one after the other, timing each from the end of the one before."""
        cdef int64_t begun_ns = self.clock.nano_time()
        cdef int work = self.receiver.receive(now_ns) + self.sender.receive(now_ns)
        begun_ns = self._note_part(COUNTER_RECEIVER_CYCLE, begun_ns)
        work += self._conduct(now_ns)
        return work + self._timed_send(now_ns, self._note_part(COUNTER_CONDUCTOR_CYCLE, begun_ns))

    cdef int _timed_send(self, int64_t now_ns, int64_t begun_ns) noexcept nogil:
        cdef int sent = self.sender.send(now_ns)
        self._note_part(COUNTER_SENDER_CYCLE, begun_ns)
        return sent

    cdef int64_t _note_part(self, int counter, int64_t begun_ns) noexcept nogil:
        """Record how long a part took until now; return now."""
        cdef int64_t now_ns = self.clock.nano_time()
        note_cycle(self.system, counter, now_ns - begun_ns)
        return now_ns

    cdef int select(self, int64_t timeout_ns) noexcept nogil:
        return self.network.select(timeout_ns)

    cdef void look(self, int64_t now_ns) noexcept nogil:
        """Look for datagrams. A driver that spins and has few sockets asks the receiving ones directly, which saves a
        system call; now and then it polls all of them."""
        if self.is_selected:
            self.is_selected = False
        elif self._may_ask(now_ns):
            self.asked += 1
            self.receiver.expect()
        else:
            self.selected_ns = now_ns
            self.asked = 0
            self.select(0)

    cdef bint _may_ask(self, int64_t now_ns) noexcept nogil:
        return (self._has_few_sockets() and self.asked < ASKS_MAX and now_ns - self.selected_ns < SELECT_NS
                and self.network.is_asked_at_once)

    cdef bint _has_few_sockets(self) noexcept nogil:
        if self.receiver.transports.count == 0:
            return self.sender.endpoints.count == 0          # what a sender alone waits for is not asked for
        return self.receiver.transports.count <= ASKED_TRANSPORTS_MAX

    cdef int receive_work(self, int64_t now_ns) noexcept nogil:
        cdef int work = self.receiver.receive(now_ns) + self.sender.receive(now_ns)
        if work > 0:
            self._note_part(COUNTER_RECEIVER_CYCLE, now_ns)
        return work

    cdef int conduct_and_send_work(self, int64_t now_ns) noexcept nogil:
        cdef int64_t begun_ns = self.clock.nano_time()
        self._conduct(now_ns)
        return self._timed_send(now_ns, self._note_part(COUNTER_CONDUCTOR_CYCLE, begun_ns))

    cdef int send_work(self, int64_t now_ns) noexcept nogil:
        return self._timed_send(now_ns, self.clock.nano_time())

    cdef int _conduct(self, int64_t now_ns) noexcept nogil:
        cdef int work = self.receiver.conduct(now_ns) + self.sender.conduct(now_ns) + self._ipc_work(now_ns)
        if self._python_is_due(now_ns):
            with gil:
                work += self._python_work(now_ns)
        return work

    cdef int _ipc_work(self, int64_t now_ns) noexcept nogil:
        cdef int i, work = 0
        for i in range(self.ipc.count):
            work += (<IpcPublication> pointer_at(self.ipc, i)).conduct(now_ns)
        return work

    cdef bint _python_is_due(self, int64_t now_ns) noexcept nogil:
        return (now_ns >= self.timer_deadline_ns or now_ns >= self.endpoint_deadline_ns
                or ordo_load_acquire_i32(&self.logs_are_made) or self.receiver.setup_count > 0 or self.sender.waiting_count > 0
                or self.ring.has_message())

    cdef int _python_work(self, int64_t now_ns) noexcept:
        """Run what is in Python: commands, images to build, timers. Errors go to the error log; the driver goes on."""
        cdef int64_t begun_ns = self.clock.nano_time()
        cdef int work = 0
        try:
            if self.conductor.owes_others:       # to whom the cycle before left no time
                self.conductor.owes_others = False
            else:
                if self.name_is_pending:
                    work += self.conductor.retry()
                if ordo_load_acquire_i32(&self.logs_are_made) or self.conductor.has_held_left:
                    ordo_store_release_i32(&self.logs_are_made, 0)
                    work += self.conductor.resume()
                if self.clock.nano_time() - begun_ns < COMMANDS_NS:
                    work += self._read_commands()
                if self.clock.nano_time() - begun_ns >= COMMANDS_NS:
                    self.conductor.owes_others = True
                    self.endpoint_deadline_ns = now_ns
                    return work
            if self.receiver.setup_count > 0 or self.sender.waiting_count > 0 or self.conductor.has_images_left:
                work += self.conductor.on_native_events()
            if now_ns >= self.timer_deadline_ns:
                self.timer_deadline_ns = now_ns + <int64_t> self.config.timer_interval_ns
                self.conductor.on_timer(now_ns)
                if self.keyring is not None:
                    self._reload_keys()
                else:
                    self._look_for_encryption(now_ns)
                work += 1
            elif self.conductor.has_timers_left:
                self.conductor.continue_timers()
                work += 1
            if work > 0 or now_ns >= self.endpoint_deadline_ns:
                self.endpoint_deadline_ns = self.conductor.endpoint_work(now_ns)
            if self.conductor.has_timers_left or self.conductor.has_held_left or self.conductor.has_images_left:
                self.endpoint_deadline_ns = now_ns
            self.name_is_pending = bool(self.conductor.waiting)
            if self.name_is_pending:
                self.endpoint_deadline_ns = min(self.endpoint_deadline_ns, now_ns + UNREAD_POLL_NS)
        except Exception as error:
            self.record_error(error)
            self.endpoint_deadline_ns = now_ns + UNREAD_POLL_NS
        return work

    cdef int _read_commands(self) except -1:
        """Read several commands per duty cycle, so that no client waits a whole cycle for each of thousands before
        it."""
        cdef int64_t until_ns = self.clock.nano_time() + COMMANDS_NS
        cdef int count = 0
        while count < COMMANDS_PER_CYCLE_MAX and not self.conductor.held.is_full and self.ring.read(self.conductor.on_command, 1):
            count += 1
            if self.clock.nano_time() >= until_ns:
                break
        return count

    def _look_for_encryption(self, int64_t now_ns):
        """Report hosts whose encrypted datagrams this driver cannot read, one line for each once a minute."""
        for part in (self.sender, self.receiver):
            packed = part.take_encrypted_source()
            if not packed:
                continue
            host = unpack_address(packed)[0]
            if now_ns < self._told_ns.get(host, now_ns):
                continue
            if len(self._told_ns) >= HOSTS_TOLD_MAX:
                self._told_ns.clear()
            self._told_ns[host] = now_ns + TELL_AGAIN_NS
            self._report(f"encryption: {host} sends encrypted datagrams, which this driver cannot read: give it an "
                         "[encryption] block, too")

    def _reload_keys(self):
        """Read the key files again; they may change while the driver runs, and files that cannot be used change
        nothing."""
        try:
            if self.keyring.reload():
                tell("info", "driver.keys", directory=self.directory, trusted=len(self.keyring.trusted))
        except OrdoError as error:
            self._report(f"encryption: the keys stay as they were: {error}")

    # --- parts on threads of their own ----------------------------------------------------------------------------

    cdef int turn(self, int parts, int64_t now_ns) noexcept nogil:
        cdef int64_t begun_ns
        cdef int work = 0
        if parts == PARTS_ALL:
            self.select(0)
            return self._timed_work(now_ns)
        if parts & PART_RECEIVER:
            work += self._receiver_turn(now_ns)
        if parts & PART_SENDER:
            work += self._sender_turn(now_ns)
        if parts & PART_CONDUCTOR:
            begun_ns = self.clock.nano_time()
            work += self._ipc_work(now_ns)
            if self._python_is_due(now_ns):
                work += self._locked_python_work(now_ns)
            self._note_part(COUNTER_CONDUCTOR_CYCLE, begun_ns)
        return work

    cdef int _sender_turn(self, int64_t now_ns) noexcept nogil:
        cdef int64_t begun_ns
        cdef int work
        self.sender_gate.enter()
        begun_ns = self.clock.nano_time()
        if self.send_network is not self.receive_network:    # else the receiver's turn has just looked
            self.send_network.select(0)
        work = self.sender.receive(now_ns) + self.sender.conduct(now_ns) + self.sender.send(now_ns)
        self._note_part(COUNTER_SENDER_CYCLE, begun_ns)
        self.sender_gate.leave()
        return work

    cdef int _receiver_turn(self, int64_t now_ns) noexcept nogil:
        cdef int64_t begun_ns
        cdef int work
        self.receiver_gate.enter()
        begun_ns = self.clock.nano_time()
        self.receive_network.select(0)
        work = self.receiver.receive(now_ns) + self.receiver.conduct(now_ns)
        self._note_part(COUNTER_RECEIVER_CYCLE, begun_ns)
        self.receiver_gate.leave()
        return work

    cdef int _locked_python_work(self, int64_t now_ns) noexcept nogil:
        cdef int work
        self.sender_gate.enter_first()
        self.receiver_gate.enter_first()
        with gil:
            work = self._python_work(now_ns)
        self.receiver_gate.leave()
        self.sender_gate.leave()
        return work

    cdef DatagramNetwork part_network(self, int parts):
        if parts == PARTS_ALL or parts == PART_CONDUCTOR:
            return self.network
        return self.send_network if parts & PART_SENDER else self.receive_network

    # --- parking --------------------------------------------------------------------------------------------------

    cdef bint _ipc_has_unread(self) noexcept nogil:
        cdef int i
        for i in range(self.ipc.count):
            if (<IpcPublication> pointer_at(self.ipc, i)).has_unread():
                return True
        return False

    cdef bint _ipc_has_moved(self) noexcept nogil:
        cdef int i
        for i in range(self.ipc.count):
            if (<IpcPublication> pointer_at(self.ipc, i)).has_moved():
                return True
        return False

    cdef int64_t next_deadline(self, int64_t now_ns) noexcept nogil:
        return self.part_deadline(PARTS_ALL, now_ns)

    cdef int64_t part_deadline(self, int parts, int64_t now_ns) noexcept nogil:
        cdef int64_t deadline = NEVER, due
        cdef bint is_threaded = parts != PARTS_ALL, has_unread = False
        if parts & PART_CONDUCTOR:
            deadline = min(self.timer_deadline_ns, self.endpoint_deadline_ns)
            has_unread = self._ipc_has_unread()
        if parts & PART_SENDER:
            if is_threaded:
                self.sender_gate.enter()
            due = self.sender.deadline_ns(now_ns)
            if is_threaded:
                self.sender_gate.leave()
            if due < deadline:
                deadline = due
        if parts & PART_RECEIVER:
            if is_threaded:
                self.receiver_gate.enter()
            due = self.receiver.deadline_ns(now_ns)
            has_unread = has_unread or self.receiver.has_unread()
            if is_threaded:
                self.receiver_gate.leave()
            if due < deadline:
                deadline = due
        if has_unread and deadline > now_ns + UNREAD_POLL_NS:
            deadline = now_ns + UNREAD_POLL_NS
        return deadline

    cdef bint has_work(self) noexcept nogil:
        return self.part_is_busy(PARTS_ALL)

    cdef bint part_is_busy(self, int parts) noexcept nogil:
        cdef bint is_busy = False
        if parts & PART_CONDUCTOR:
            is_busy = (self.ring.has_message() or self._ipc_has_moved()
                       or ordo_load_acquire_i32(&self.logs_are_made) != 0)
        if parts & PART_SENDER and not is_busy:
            if parts != PARTS_ALL:
                self.sender_gate.enter()
            is_busy = self.sender.has_work()
            if parts != PARTS_ALL:
                self.sender_gate.leave()
        return is_busy

    cdef void announce_park(self) noexcept nogil:
        self.park_flag.announce(PARK_SOCKETS)

    cdef void awake(self) noexcept nogil:
        self.park_flag.awake()

    cdef int park_until(self, int64_t now_ns, int64_t timeout_ns) noexcept nogil:
        cdef int64_t left = self.next_deadline(now_ns) - now_ns
        cdef int ready
        if left < timeout_ns:
            timeout_ns = left
        if timeout_ns <= 0:
            self.is_selected = True
            return self.select(0)
        self.announce_park()
        ready = self.select(0 if self.has_work() else timeout_ns)
        self.awake()
        self.is_selected = ready > 0
        return ready

    def park(self, int64_t now_ns, int64_t timeout_ns):
        """Wait on the sockets, at most `timeout_ns` and not beyond the next deadline, unless there is work.

        While something comes again and again it looks a few times more before that, and gives the core away before each
        look. The number of channels that became ready.
        """
        cdef int ready = 0
        if not self.started:
            return 0
        self.use.enter()
        if self.started:
            with nogil:
                if timeout_ns > 0:
                    ready = self._look_again()
                if ready == 0:
                    ready = self.park_until(now_ns, timeout_ns)
                if ready > 0:
                    self.spinning.note(self.cycle_count, self.clock.nano_time())
        self.use.leave()
        return ready

    cdef int _look_again(self) noexcept nogil:
        cdef int ready = 0
        while ready == 0 and not self.has_work() and self.spinning.take():
            ready = self.select(0)
        self.is_selected = ready > 0
        return ready

    def next_deadline_ns(self, int64_t now_ns):
        """Return when something is due by time (ns): heartbeats, status messages, NAKs, timers."""
        return self.next_deadline(now_ns)

    def wake(self):
        """End a `park`, from any thread."""
        self.network.wake()

    # --- looking inside -------------------------------------------------------------------------------------------

    @property
    def counters(self):
        """The CountersManager; None when not running."""
        return self.context.counters if self.context is not None else None

    def system_counter(self, int index):
        """Return the value of a system counter (cnc-and-driver-protocol.md §5.4)."""
        return self.system.value(index)
