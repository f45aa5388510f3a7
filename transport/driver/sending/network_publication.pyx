"""A publication that is sent over UDP (transport-wire.md §4, log-buffer.md §6).

The sender follows the tail of the log up to the limit that flow control allows; the conductor moves the publisher's
limit behind it and cleans what was consumed. Both run on the driver's one thread.
"""

from libc.stdlib cimport calloc, free

from ordo.runtime.io.datagram cimport SendItem
from ordo.runtime.native.atomics cimport (ordo_get_i32, ordo_get_i64, ordo_load_acquire_i32, ordo_load_acquire_i64,
                              ordo_put_i32, ordo_store_release_i64)
from ordo.runtime.native.counters cimport Counter
from ordo.runtime.native.sentinels cimport NEVER
from ordo.transport.driver.frames.frames cimport *
from ordo.transport.driver.frames.pointers cimport pointer_at
from ordo.transport.driver.sending.send_endpoint cimport MODE_RESPONSE, SendEndpoint
from ordo.transport.driver.sending.sent_stream cimport ITEMS_MAX, SentStream
from ordo.transport.driver.frames.system_counters cimport SystemCounters, count_event
from ordo.transport.streams.unblock cimport unblock_log
from ordo.transport.streams.logbuffer cimport (FLAG_EOS, FLAG_REVOKED, FRAME_ALIGNMENT, FRAME_FLAGS_OFFSET, LogBuffers,
    RESERVED_VALUE_OFFSET, SESSION_ID_OFFSET, STREAM_ID_OFFSET, TERM_ID_OFFSET, TERM_OFFSET_OFFSET, compute_position,
    compute_term_id)

cdef enum:
    SETUP_INTERVAL_NS = 100000000
    SETUP_INTERVAL_MAX_NS = 800000000  # between set-ups whose number is bounded
    QUIET_HEARTBEAT_INTERVAL_NS = 500000000    # of one of many streams, while nothing can have been lost lately
    QUIET_AFTER_NS = 1000000000
    IDLE_INTERVAL_NS = 10000000
    RESEND_FREE = 0
    RESEND_DELAYED = 1
    RESEND_LINGERING = 2
    MAX_MESSAGE_LENGTH = 16777216
    RESEND_WINDOW = 131072
    RECEIVERS_MAX = 4096
    NO_RESPONSE = -1
    SETUPS_UNBOUND = -1


STATE_NAMES = ("ACTIVE", "DRAINING", "LINGER", "DONE")


cdef class NetworkPublication(SentStream):
    """`parameters` is a PublicationParameters; `counters` holds pub-pos, pub-lmt, snd-pos, snd-lmt, snd-bpe,
    snd-naks-received by these names; times in ns."""

    def __init__(self, *, LogBuffers log not None, SendEndpoint endpoint not None, FlowControl flow_control not None,
                 SystemCounters system not None, int64_t registration_id, int64_t client_id, bint is_exclusive,
                 parameters, dict counters, int64_t start_position, int64_t connection_timeout_ns,
                 int64_t resend_delay_ns, int64_t resend_linger_ns, int64_t unblock_timeout_ns, int64_t now_ns):
        self.log = log
        self.endpoint = endpoint
        self.flow_control = flow_control
        self.system = system
        self.registration_id = registration_id
        self.client_id = client_id
        self.is_exclusive = is_exclusive
        self.parameters = parameters
        self.session_id = log.session_id
        self.stream_id = log.stream_id
        self.mtu = log.mtu
        self.term_length = log.term_length
        self.shift = log.term_shift
        self.initial_term_id = log.initial_term_id
        self.window = parameters.window_length
        self.signal_eos = parameters.signal_eos
        self.spies_simulate_connection = parameters.spies_simulate_connection
        self.linger_timeout_ns = parameters.linger_timeout_ns
        self.connection_timeout_ns = connection_timeout_ns
        self.resend_delay_ns = resend_delay_ns
        self.resend_linger_ns = resend_linger_ns
        self.unblock_timeout_ns = unblock_timeout_ns
        self.counters = counters
        self.receivers = NativeVector(sizeof(Liveness), RECEIVERS_MAX)
        self.spies = PointerArray()
        self._bind_cells()
        self.sender_position = self.sender_limit = self.clean_position = self.publisher_limit = start_position
        self.unblock_position = start_position
        self.limited_position = -1
        self.unblock_changed_ns = self.state_changed_ns = now_ns
        self.last_setup_ns = now_ns - SETUP_INTERVAL_NS - 1
        self.setup_interval_ns = SETUP_INTERVAL_NS
        self.setups_left = parameters.setup_limit or SETUPS_UNBOUND
        self.last_send_ns = now_ns - HEARTBEAT_INTERVAL_NS - 1
        self.track_limits = True
        self.is_response = endpoint.mode == MODE_RESPONSE
        self.wants_response = not self.is_response and parameters.response_correlation_id != NO_RESPONSE
        self.resend_count = parameters.max_resend if endpoint.has_group_semantics else 1
        self.resends = <Resend*> calloc(self.resend_count, sizeof(Resend))
        if self.resends == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.resends)

    def _bind_cells(self):
        self.position_cell = (<Counter> self.counters["pub-pos"]).address
        self.limit_cell = (<Counter> self.counters["pub-lmt"]).address
        self.sender_position_cell = (<Counter> self.counters["snd-pos"]).address
        self.sender_limit_cell = (<Counter> self.counters["snd-lmt"]).address
        self.back_pressure_cell = (<Counter> self.counters["snd-bpe"]).address
        self.naks_cell = (<Counter> self.counters["snd-naks-received"]).address
        if "fc-receivers" in self.counters:
            self.flow_control.receivers_counter = (<Counter> self.counters["fc-receivers"]).address

    # --- sending --------------------------------------------------------------------------------------------------

    cdef int send(self, int64_t now_ns, GatheredSends gathered) noexcept nogil:
        """Run one turn of the sender; return how many bytes were sent, or left to `gathered`."""
        cdef int sent
        if self.state == PUBLICATION_DONE or self._has_nobody():
            return 0
        if self._wants_setup() and now_ns - self.last_setup_ns > self.setup_interval_ns:
            self._send_setup(now_ns)
        sent = self._send_data(now_ns, gathered)
        if sent == 0:
            self.on_idle(now_ns)
        if self.resends_active > 0:
            self._run_resends(now_ns)
        return sent

    cdef bint _has_nobody(self) noexcept nogil:
        """Return whether this is a response whose requester has not been heard yet, so that there is no address to send
        to (§9)."""
        return self.is_response and self.response_address.length_bytes == 0

    cdef bint has_work(self) noexcept nogil:
        """Return whether data waits that may be sent now, or spies have not been told of it."""
        if self.spies.count > 0 and self.state == PUBLICATION_ACTIVE \
                and self.log.producer_position() != self.position_cell[0]:
            return True
        return (self.sender_limit > self.sender_position and not self.is_damaged
                and ordo_load_acquire_i32(self.log.at(self.sender_position)) > 0)

    cdef int64_t deadline_ns(self, int64_t now_ns) noexcept nogil:
        """Return when this publication next has something to do by time (ns)."""
        cdef int64_t deadline = NEVER
        cdef int i
        if self._has_nobody():
            return NEVER
        if self._wants_setup():
            deadline = on_grid(self.last_setup_ns + self.setup_interval_ns + 1)
        if self.has_initial_connection and self.last_send_ns + HEARTBEAT_INTERVAL_NS < deadline:
            deadline = on_grid(self.last_send_ns + HEARTBEAT_INTERVAL_NS + 1)
        if self.resends_active > 0:
            for i in range(self.resend_count):
                if self.resends[i].state == RESEND_DELAYED and self.resends[i].deadline_ns < deadline:
                    deadline = self.resends[i].deadline_ns
        return deadline

    cdef int _send_data(self, int64_t now_ns, GatheredSends gathered) noexcept nogil:
        cdef SendItem items[ITEMS_MAX]
        cdef int64_t after[ITEMS_MAX]
        cdef int count, whole, i
        cdef int sent = 0
        if self.sender_limit <= self.sender_position:
            if self.track_limits:
                self._back_pressured()
            return 0
        if ordo_load_acquire_i32(self.log.at(self.sender_position)) <= 0:
            return 0
        count = self._collect(self.sender_position, self.sender_limit, BATCH_LENGTH_MAX, items, after, ITEMS_MAX)
        if count <= 0:
            if count < 0 and self.track_limits:
                self._back_pressured()
            return 0
        if count == 1 and self.endpoint.sends_to_one and gathered.has_room():
            gathered.add(self, items, after[0], &self.response_address if self.is_response else NULL)
            return items[0].length_bytes
        if self.endpoint.gathered_count > 0:                 # when the buffer is full, whose turn it is comes first
            gathered.flush_endpoint(self.endpoint, now_ns)
        whole = self.endpoint.transmit(items, count, &self.response_address)
        if whole < count:
            count_event(self.system, COUNTER_SHORT_SENDS, 1)
        if whole <= 0:
            return 0
        for i in range(whole):
            sent += items[i].length_bytes
        self.advance(after[whole - 1], sent, now_ns)
        return sent

    cdef void _back_pressured(self) noexcept nogil:
        """Count back pressure, once per stall."""
        if ordo_load_acquire_i32(self.log.at(self.sender_position)) <= 0:
            return
        self.track_limits = False
        ordo_store_release_i64(self.back_pressure_cell, self.back_pressure_cell[0] + 1)
        count_event(self.system, COUNTER_SENDER_LIMITS, 1)

    cdef void _send_setup(self, int64_t now_ns) noexcept nogil:
        cdef uint8_t frame[SETUP_LENGTH]
        cdef uint8_t flags = SETUP_GROUP if self.endpoint.has_group_semantics else 0
        if self.wants_response:
            flags |= SETUP_SEND_RESPONSE
        put_base(frame, SETUP_LENGTH, flags, FRAME_SETUP)
        ordo_put_i32(frame + SETUP_TERM_OFFSET, <int32_t> (self.sender_position & (self.term_length - 1)))
        ordo_put_i32(frame + SETUP_SESSION_ID, self.session_id)
        ordo_put_i32(frame + SETUP_STREAM_ID, self.stream_id)
        ordo_put_i32(frame + SETUP_INITIAL_TERM_ID, self.initial_term_id)
        ordo_put_i32(frame + SETUP_ACTIVE_TERM_ID,
                     compute_term_id(self.sender_position, self.shift, self.initial_term_id))
        ordo_put_i32(frame + SETUP_TERM_LENGTH, self.term_length)
        ordo_put_i32(frame + SETUP_MTU, self.mtu)
        ordo_put_i32(frame + SETUP_TTL, self.endpoint.ttl)
        if not self.endpoint.transmit_frame(frame, SETUP_LENGTH, &self.response_address):
            count_event(self.system, COUNTER_SHORT_SENDS, 1)
        self.last_setup_ns = now_ns
        if self.has_receivers:
            self.setup_elicited = False
        if self.setups_left > 0:
            self.setups_left -= 1
            self.setup_interval_ns = min(2 * self.setup_interval_ns, <int64_t> SETUP_INTERVAL_MAX_NS)
            if self.setups_left == 0:
                count_event(self.system, COUNTER_SETUPS_HELD, 1)

    cdef bint _wants_setup(self) noexcept nogil:
        """Return whether a SETUP is due: nobody answered yet or a receiver asks, and an unproven address has not used
        up its set-ups."""
        return (not self.has_initial_connection or self.setup_elicited) and self.setups_left != 0

    def allow_setups(self, int limit):
        """Allow `limit` more set-ups to an address that has not answered any; 0 removes the bound from now on."""
        if limit == 0:
            self._unbind_setups()
        elif self.setups_left != SETUPS_UNBOUND:
            self.setups_left += limit
            self.setup_interval_ns = SETUP_INTERVAL_NS

    cdef void _unbind_setups(self) noexcept nogil:
        self.setups_left = SETUPS_UNBOUND
        self.setup_interval_ns = SETUP_INTERVAL_NS

    cdef void _send_heartbeat(self, int64_t now_ns) noexcept nogil:
        cdef uint8_t frame[DATA_LENGTH]
        cdef uint8_t flags = HEARTBEAT_FLAGS
        if self.signal_eos and self.is_end_of_stream:
            flags |= FLAG_EOS
        if self.is_revoked:
            flags |= FLAG_EOS | FLAG_REVOKED
        put_base(frame, 0, flags, FRAME_DATA)
        ordo_put_i32(frame + TERM_OFFSET_OFFSET, <int32_t> (self.sender_position & (self.term_length - 1)))
        ordo_put_i32(frame + SESSION_ID_OFFSET, self.session_id)
        ordo_put_i32(frame + STREAM_ID_OFFSET, self.stream_id)
        ordo_put_i32(frame + TERM_ID_OFFSET, compute_term_id(self.sender_position, self.shift, self.initial_term_id))
        ordo_put_i64(frame + RESERVED_VALUE_OFFSET, 0)
        if self.endpoint.transmit_frame(frame, DATA_LENGTH, &self.response_address):
            count_event(self.system, COUNTER_HEARTBEATS_SENT, 1)
            count_event(self.system, COUNTER_BYTES_SENT, DATA_LENGTH)
        else:
            count_event(self.system, COUNTER_SHORT_SENDS, 1)
        self.last_send_ns = now_ns

    cdef int64_t _heartbeat_interval_ns(self, int64_t now_ns) noexcept nogil:
        """Return the interval of heartbeats: 100 ms while they may tell of a lost tail; longer after that, when they
        only keep the image alive, since those of thousands of streams would fill the receiver's socket."""
        if self.is_quiet and self.state == PUBLICATION_ACTIVE and now_ns - self.active_ns > QUIET_AFTER_NS:
            return QUIET_HEARTBEAT_INTERVAL_NS
        return HEARTBEAT_INTERVAL_NS

    cdef void on_idle(self, int64_t now_ns) noexcept nogil:
        """Do what is due when nothing was sent: heartbeats, silent receivers, and the limit of flow control."""
        cdef int64_t limit, producer, spy
        cdef int i
        if self.has_initial_connection and now_ns - self.last_send_ns > self._heartbeat_interval_ns(now_ns):
            self._send_heartbeat(now_ns)
        if now_ns >= self.idle_deadline_ns:
            self.idle_deadline_ns = now_ns + IDLE_INTERVAL_NS
            self._expire_receivers(now_ns)
            limit = self.flow_control.on_idle(self.sender_limit, now_ns)
            if limit != self.sender_limit:
                self.sender_limit = limit
                ordo_store_release_i64(self.sender_limit_cell, limit)
        if self.spies_simulate_connection and self.spies.count > 0 and not self.has_receivers:
            limit = self.sender_position
            producer = self.log.producer_position()
            for i in range(self.spies.count):
                spy = ordo_load_acquire_i64(<int64_t*> pointer_at(self.spies, i)) & ~<int64_t> 31
                if limit < spy <= producer:              # a client's word, believed up to what was written
                    limit = spy
            if limit > self.sender_position or self.sender_limit != limit:
                self.sender_position = self.sender_limit = limit
                ordo_store_release_i64(self.sender_limit_cell, limit)
                ordo_store_release_i64(self.sender_position_cell, limit)

    # --- receivers ------------------------------------------------------------------------------------------------

    cdef void _expire_receivers(self, int64_t now_ns) noexcept nogil:
        cdef Liveness* receivers = <Liveness*> self.receivers.items
        cdef int64_t i, kept = 0
        for i in range(self.receivers.count):
            if now_ns - receivers[i].last_heard_ns <= self.connection_timeout_ns:
                receivers[kept] = receivers[i]
                kept += 1
        if kept != self.receivers.count:
            self.receivers.truncate(kept)
            self._update_connected()

    cdef void _heard(self, int64_t receiver_id, int64_t now_ns) noexcept nogil:
        """Note that a receiver was heard. When there are too many, the one silent for longest gives way: somebody may
        invent receivers."""
        cdef Liveness* receivers = <Liveness*> self.receivers.items
        cdef Liveness* added
        cdef int64_t i, silent = 0
        for i in range(self.receivers.count):
            if receivers[i].receiver_id == receiver_id:
                receivers[i].last_heard_ns = now_ns
                return
            if receivers[i].last_heard_ns < receivers[silent].last_heard_ns:
                silent = i
        added = <Liveness*> self.receivers.try_append()
        if added == NULL and self.receivers.count > 0:
            added = &receivers[silent]
        if added != NULL:
            added.receiver_id = receiver_id
            added.last_heard_ns = now_ns

    cdef bint _forget(self, int64_t receiver_id) noexcept nogil:
        cdef Liveness* receivers = <Liveness*> self.receivers.items
        cdef int64_t i
        for i in range(self.receivers.count):
            if receivers[i].receiver_id == receiver_id:
                self.receivers.swap_remove_at(i)
                return True
        return False

    cdef void _update_connected(self) noexcept nogil:
        cdef bint connected
        self.has_receivers = self.receivers.count > 0
        connected = self._has_subscribers() and not self.is_revoked
        if connected != self.log.is_connected():
            self.log.set_connected(connected)

    cdef bint _has_subscribers(self) noexcept nogil:
        return ((self.has_receivers and self.flow_control.has_required_receivers())
                or (self.spies_simulate_connection and self.spies.count > 0))

    cdef void on_status_message(self, const uint8_t* frame, uint32_t length, const SocketAddress* source,
                                int64_t now_ns) noexcept nogil:
        """Handle a status message that names this stream (§4.3). The frame was classified; its values were not."""
        cdef int32_t term_offset = ordo_get_i32(frame + SM_TERM_OFFSET)
        cdef int32_t window = ordo_get_i32(frame + SM_WINDOW)
        cdef int64_t receiver_id = ordo_get_i64(frame + SM_RECEIVER_ID)
        cdef uint8_t flags = frame[FRAME_FLAGS_OFFSET]
        cdef bint has_tag = ordo_get_i32(frame) >= SM_TAGGED_LENGTH
        cdef int64_t tag = ordo_get_i64(frame + SM_TAG) if has_tag else 0
        cdef int64_t position, limit
        if term_offset < 0 or term_offset >= self.term_length or term_offset & (FRAME_ALIGNMENT - 1) or window < 0 \
                or window > self.term_length / 2:
            count_event(self.system, COUNTER_INVALID_PACKETS, 1)
            return
        self.endpoint.on_status_source(receiver_id, source, now_ns)
        self._unbind_setups()                          # only who got a set-up knows the session
        if flags & SM_SEND_SETUP:
            if self.is_response and not self.has_receivers:
                self.response_address = source[0]      # whoever knows the session: it was told to the requester alone
            if not self.is_end_of_stream:
                self.setup_elicited = True
                self.flow_control.on_send_setup(has_tag, tag, self.sender_limit, now_ns)
            return
        position = compute_position(ordo_get_i32(frame + SM_TERM_ID), term_offset, self.shift, self.initial_term_id)
        if position - self.sender_position > self.term_length / 2 or self.sender_position - position > self.term_length / 2:
            count_event(self.system, COUNTER_SM_REJECTED, 1)
            return
        if flags & SM_END_OF_STREAM:
            self._forget(receiver_id)
            if not self.endpoint.has_group_semantics:
                self.received_unicast_eos = True
        else:
            self._heard(receiver_id, now_ns)
            self.has_initial_connection = True
        self.receiver_window = window
        limit = self.flow_control.on_status(receiver_id, position, window, flags & SM_END_OF_STREAM != 0, has_tag, tag,
                                            self.sender_limit, now_ns)
        if limit != self.sender_limit:
            self.sender_limit = limit
            ordo_store_release_i64(self.sender_limit_cell, limit)
        self._update_connected()

    cdef bint on_error(self, int64_t receiver_id) noexcept nogil:
        """Handle the ERR frame of a receiver that refused the stream; return whether it was a live one."""
        cdef bint known
        self.flow_control.on_error(receiver_id)
        known = self._forget(receiver_id)
        self._update_connected()
        return known

    cdef void on_rttm(self, const uint8_t* frame, const SocketAddress* source) noexcept nogil:
        """Echo the time of a receiver that measures the round trip, on the data path."""
        cdef uint8_t reply[RTTM_LENGTH]
        cdef SendItem item
        cdef SocketAddress to
        if frame[FRAME_FLAGS_OFFSET] & RTTM_REPLY == 0:
            return
        put_rttm(reply, 0, self.session_id, self.stream_id, ordo_get_i64(frame + RTTM_ECHO_TIME), 0,
                 ordo_get_i64(frame + RTTM_RECEIVER_ID))
        self._answer_to(&to, source)
        item.data = reply
        item.length_bytes = item.segment_length_bytes = RTTM_LENGTH
        item.to = NULL
        if self.endpoint.answer(&item, 1, &to) != 1:
            count_event(self.system, COUNTER_SHORT_SENDS, 1)

    cdef void _answer_to(self, SocketAddress* to, const SocketAddress* source) noexcept nogil:
        """Find where to send what `source` asks for (SendEndpoint.answer)."""
        to[0] = self.response_address
        if not self.is_response and self.endpoint.is_destination(source):
            to[0] = source[0]

    # --- retransmission -------------------------------------------------------------------------------------------

    cdef void on_nak(self, const uint8_t* frame, const SocketAddress* source, int64_t now_ns) noexcept nogil:
        """Resend what a NAK asks for to the receiver that asks, unless that was done a moment ago (§4.5)."""
        cdef int32_t term_offset = ordo_get_i32(frame + NAK_TERM_OFFSET)
        cdef int64_t length = ordo_get_i32(frame + NAK_RANGE_LENGTH)
        cdef int64_t most = self.term_length / 2
        cdef int64_t position
        cdef int slot
        cdef bint is_listed
        cdef SocketAddress to
        if term_offset < 0 or term_offset >= self.term_length or term_offset & (FRAME_ALIGNMENT - 1) or length < 0 \
                or term_offset + length > self.term_length:
            count_event(self.system, COUNTER_INVALID_PACKETS, 1)
            return
        ordo_store_release_i64(self.naks_cell, self.naks_cell[0] + 1)
        if length == 0:
            return
        most = min(most, <int64_t> RESEND_WINDOW) * self.flow_control.retransmit_window_multiple
        length = min(length, most)
        position = compute_position(ordo_get_i32(frame + NAK_TERM_ID), term_offset, self.shift, self.initial_term_id)
        self._answer_to(&to, source)
        slot = self._resend_slot(&to, position)
        if slot < 0:
            return
        is_listed = to.length_bytes > 0 and self.endpoint.has_group_semantics
        if not self._may_repeat(&self.resends[slot].repeats if is_listed else &self.repeats, length, most, now_ns):
            count_event(self.system, COUNTER_RETRANSMIT_OVERFLOW, 1)
            return
        self.resends_active += self.resends[slot].state == RESEND_FREE
        self.resends[slot].to = to
        self.resends[slot].position = position
        self.resends[slot].length = length
        self.resends[slot].state = RESEND_DELAYED
        self.resends[slot].deadline_ns = now_ns + self.resend_delay_ns
        if self.resend_delay_ns == 0:
            self._run_resends(now_ns)

    cdef int _resend_slot(self, const SocketAddress* to, int64_t position) noexcept nogil:
        """Return the slot of a new resend; -1 when it is under way or was done a moment ago, or when no slot is free.

        A receiver asks for one gap at a time: a listed one has one place, and none of the others has to wait for it.
        """
        cdef Resend* resend
        cdef int i, vacant = -1, own = -1, lingering = -1
        cdef bint is_listed = to.length_bytes > 0 and self.endpoint.has_group_semantics
        cdef bint is_same
        for i in range(self.resend_count):
            resend = &self.resends[i]
            if resend.state == RESEND_FREE:
                vacant = i
                continue
            is_same = same_address(&resend.to, to)
            if is_same and resend.position <= position < resend.position + resend.length:
                return -1
            if is_same:
                own = i
            if resend.state == RESEND_LINGERING:
                lingering = i
        if not self.endpoint.has_group_semantics:
            return 0
        if is_listed and own >= 0:
            return own
        if vacant < 0 and is_listed:
            vacant = lingering
        if vacant < 0:
            count_event(self.system, COUNTER_RETRANSMIT_OVERFLOW, 1)
        else:
            self.resends[vacant].repeats.since_ns = -self.resend_linger_ns
        return vacant

    cdef bint _may_repeat(self, Repeats* repeats, int64_t length, int64_t most, int64_t now_ns) noexcept nogil:
        """Return whether a receiver may have more resent: while one resend lingers, as much again as one NAK brings,
        plus what was sent meanwhile.

        Who asks for other places all the time would have half a megabyte, or two, for every 28 bytes.
        """
        if now_ns - repeats.since_ns >= self.resend_linger_ns:
            repeats.since_ns = now_ns
            repeats.since_position = self.sender_position
            repeats.length_bytes = 0
        length = max(length, <int64_t> self.mtu)
        if repeats.length_bytes + length > max(most, <int64_t> self.mtu) + self.sender_position - repeats.since_position:
            return False
        repeats.length_bytes += length
        return True

    cdef void _run_resends(self, int64_t now_ns) noexcept nogil:
        cdef int i
        cdef Resend* resend
        for i in range(self.resend_count):
            resend = &self.resends[i]
            if resend.state == RESEND_DELAYED and now_ns >= resend.deadline_ns:
                self._resend(resend)
                resend.state = RESEND_LINGERING
                resend.deadline_ns = now_ns + self.resend_linger_ns
            elif resend.state == RESEND_LINGERING and now_ns >= resend.deadline_ns:
                resend.state = RESEND_FREE
                self.resends_active -= 1

    cdef void _resend(self, const Resend* resend) noexcept nogil:
        """Send committed frames again as they are, from its position until its length is covered."""
        cdef SendItem items[ITEMS_MAX]
        cdef int64_t after[ITEMS_MAX]
        cdef int64_t position = resend.position
        cdef int64_t end = position + resend.length
        cdef int64_t reach = self.term_length / 8
        cdef int count, whole, i
        if reach > MAX_MESSAGE_LENGTH:
            reach = MAX_MESSAGE_LENGTH
        if position >= self.sender_position or position < self.sender_position - self.term_length / 2 - reach \
                or position < 0:
            return
        if end > self.sender_position:
            end = self.sender_position
        while position < end:
            count = self._collect(position, self.sender_position, end - position, items, after, ITEMS_MAX)
            if count <= 0:
                return
            whole = self.endpoint.answer(items, count, &resend.to)
            if whole < count:
                count_event(self.system, COUNTER_SHORT_SENDS, 1)
            if whole <= 0:
                return
            for i in range(whole):
                count_event(self.system, COUNTER_RETRANSMITTED_BYTES, items[i].length_bytes)
            count_event(self.system, COUNTER_RETRANSMITS, 1)
            position = after[whole - 1]

    # --- conductor ------------------------------------------------------------------------------------------------

    cdef int64_t _min_consumer(self) noexcept nogil:
        cdef int64_t position = self.sender_position, spy
        cdef int i
        for i in range(self.spies.count):
            spy = ordo_load_acquire_i64(<int64_t*> pointer_at(self.spies, i))
            if spy < position:
                position = spy
        return position

    cdef bint _may_move_limit(self, int64_t limit) noexcept nogil:
        """Return whether enough of the log is clean for a producer that goes up to `limit` and one message beyond."""
        cdef int64_t terms = (limit >> self.shift) - (self.clean_position >> self.shift)
        return terms < 2 or (terms == 2 and self.clean_position & (self.term_length - 1) != 0)

    cdef void _clean_to(self, int64_t position) noexcept nogil:
        if position > self.clean_position:
            self.clean_position = self.log.clean(self.clean_position, position)

    cdef int conduct(self, int64_t now_ns) noexcept nogil:
        """Move the publisher's limit and clean the log behind the slowest consumer; return 1 when something had
        moved."""
        cdef int64_t producer, consumer, limit
        cdef int moved = 0
        if self.state != PUBLICATION_ACTIVE:
            return 0
        producer = self.log.producer_position()
        if producer != self.position_cell[0]:
            ordo_store_release_i64(self.position_cell, producer)
            moved = 1
        if self._has_subscribers():
            consumer = self._min_consumer()
            limit = min(consumer + self.window, self.log.reservable_limit(producer))
            if limit <= self.publisher_limit:
                self.limited_position = self.sender_position if self.spies.count == 0 else -1
                return moved
            self.limited_position = -1              # it moves, at the next turn if not at this one
            self._clean_to(consumer - self.term_length)
            if not self._may_move_limit(limit):
                return 1                            # the next turn cleans on
            if (limit + self.term_length / 4 > self.log.reserved_position
                    and not self.log.reserve(limit + self.term_length / 4)):
                return moved                        # no room in shared memory: the producer waits
        else:
            self.limited_position = -1
            limit = self.sender_position
            if limit == self.publisher_limit:
                return moved
            self._clean_to(self._min_consumer() - self.term_length)
            if self.log.is_connected():
                self.log.set_connected(False)
        self.publisher_limit = limit
        ordo_store_release_i64(self.limit_cell, limit)
        return 1

    # --- life (Python, rare) --------------------------------------------------------------------------------------

    @property
    def receiver_count(self):
        return self.receivers.count

    @property
    def spy_count(self):
        return self.spies.count

    @property
    def state_name(self):
        return STATE_NAMES[self.state]

    @property
    def is_active(self):
        return self.state == PUBLICATION_ACTIVE

    @property
    def consumer_position(self):
        """Where a new spy begins: what was sent."""
        return self.sender_position

    @property
    def untethered_limit(self):
        """Late is who has not passed this: what was sent less three quarters of the window."""
        return self.sender_position - self.window + self.window / 4

    @property
    def accepts_subscriptions(self):
        return self.state == PUBLICATION_ACTIVE or (
            self.state == PUBLICATION_DRAINING and self.log.producer_position() > self.sender_position)

    def add_spy(self, Counter position not None):
        self.spies.add(position.address)
        self._update_connected()

    def remove_spy(self, Counter position not None):
        self.spies.remove(position.address)
        self._update_connected()

    def spies_have_drained(self):
        cdef int i
        cdef int64_t producer = self.log.producer_position()
        for i in range(self.spies.count):
            if ordo_load_acquire_i64(<int64_t*> pointer_at(self.spies, i)) < producer:
                return False
        return True

    def begin_draining(self, int64_t now_ns, bint revoke=False):
        """Begin draining (§4.6): the last client link is gone, so that no more data comes."""
        cdef int64_t producer = self.log.producer_position()
        if self.state != PUBLICATION_ACTIVE:
            return
        ordo_store_release_i64(self.position_cell, producer)
        self.state_changed_ns = now_ns
        if revoke:
            producer = self.sender_position
            self.is_revoked = True
            self.log.set_revoked()
            count_event(self.system, COUNTER_PUBLICATIONS_REVOKED, 1)
        self.publisher_limit = producer
        ordo_store_release_i64(self.limit_cell, producer)
        self.log.set_end_of_stream_position(producer)
        self.state = PUBLICATION_DRAINING
        self._update_connected()
        if revoke:
            self.sender_limit = self.sender_position
            self.is_end_of_stream = True
            self.last_send_ns = now_ns - HEARTBEAT_INTERVAL_NS - 1

    def on_time_event(self, int64_t now_ns, int64_t epoch_ms):
        """Carry out changes of state that are due by now. Returns the name of the state that was entered, or None."""
        self._check_unblock(now_ns)
        if self.is_damaged and not self.is_revoked:
            return self._drop_damaged(now_ns)
        if self.state == PUBLICATION_DRAINING:
            return self._drain(now_ns)
        if self.state == PUBLICATION_LINGER and (
                self.received_unicast_eos or now_ns - self.state_changed_ns >= self.linger_timeout_ns):
            return self._enter(PUBLICATION_DONE, now_ns)
        return None

    def _drop_damaged(self, int64_t now_ns):
        """End the stream: its client wrote what cannot be a frame of it, and nothing after that can be found."""
        count_event(self.system, COUNTER_DAMAGED_LOGS, 1)
        if self.state != PUBLICATION_ACTIVE:
            self.is_revoked = True
            return None
        self.begin_draining(now_ns, revoke=True)
        return STATE_NAMES[PUBLICATION_DRAINING]

    def _drain(self, int64_t now_ns):
        cdef int64_t producer = self.log.producer_position()
        if self.is_revoked:
            return self._enter(PUBLICATION_LINGER, now_ns)
        if producer > self.sender_position:
            if self._unblock():
                return None
            if self.has_receivers:
                return None
        else:
            self.is_end_of_stream = True
        if self.spies_have_drained():
            return self._enter(PUBLICATION_LINGER, now_ns)
        return None

    def _enter(self, int state, int64_t now_ns):
        self.state = state
        self.state_changed_ns = now_ns
        return STATE_NAMES[state]

    def _check_unblock(self, int64_t now_ns):
        """Unblock a concurrent publication whose writer died in the middle of a message (log-buffer §9)."""
        cdef int64_t consumer = self.sender_position
        if consumer != self.unblock_position:
            self.unblock_position = consumer
            self.unblock_changed_ns = now_ns
            return
        if self.is_exclusive or self.state != PUBLICATION_ACTIVE or self.log.producer_position() <= consumer:
            self.unblock_changed_ns = now_ns
            return
        if now_ns - self.unblock_changed_ns > self.unblock_timeout_ns:
            self._unblock()
            self.unblock_changed_ns = now_ns

    def _unblock(self):
        if not unblock_log(self.log, self.sender_position):
            return False
        count_event(self.system, COUNTER_UNBLOCKED_PUBLICATIONS, 1)
        return True
