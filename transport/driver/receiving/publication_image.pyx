"""The driver's side of an image (transport-wire.md §6).

Datagrams go straight into the log, if they come from the address that set the stream up. The conductor moves the
rebuild position over what is whole, asks for the first gap, and tells the sender how far the slowest subscriber has
read, which opens the sender's window.
"""

from libc.string cimport memcmp, memcpy

from ordo.runtime.native.atomics cimport (ordo_get_i32, ordo_get_i64, ordo_load_acquire_i32, ordo_load_acquire_i64, ordo_put_i64,
                              ordo_store_release_i64)
from ordo.runtime.native.counters cimport Counter
from ordo.runtime.native.sentinels cimport NEVER
from ordo.transport.driver.flow.claims cimport Claims
from ordo.transport.driver.flow.congestion cimport ReceiveWindow
from ordo.transport.driver.frames.frames cimport *
from ordo.transport.driver.frames.pointers cimport pointer_at
from ordo.transport.driver.frames.system_counters cimport count_event
from ordo.transport.streams.logbuffer cimport (FIRST_WORD_LENGTH, FLAG_EOS, FLAG_REVOKED, FRAME_ALIGNMENT,
                              FRAME_FLAGS_OFFSET, TERM_ID_OFFSET, TERM_OFFSET_OFFSET, align_frame_i64,
                              compute_position, compute_term_id)

cdef enum:
    ERROR_IMAGE_REJECTED = 13
    CONNECTIONS_MAX = 256
    DRAIN_STATUS_MULTIPLE = 5
    WINDOWS_AHEAD = 4                  # a sender may follow a faster receiver than this one; no further
    RESERVED_AHEAD = 64                # readers poll the header after the last frame
    IDENTITY_LENGTH = 24               # of a header, but for the reserved value


STATE_NAMES = ("INIT", "ACTIVE", "DRAINING", "LINGER", "DONE")


cdef void hear(PublicationImage image, Connection* connection) noexcept nogil:
    """Note that frames of the stream came on a connection; a SETUP alone does not make it an active transport."""
    cdef Connection* connections = <Connection*> image.connections.items
    cdef int64_t i
    cdef int active = 0
    if connection == NULL or connection.heard:
        return
    connection.heard = True
    for i in range(image.connections.count):
        active += connections[i].heard
    image.log.set_active_transport_count(active)


cdef class PublicationImage(Worked):
    """`counters` holds rcv-hwm, rcv-pos and rcv-naks-sent by these names; times in ns."""

    def __init__(self, *, LogBuffers log not None, ReceiveEndpoint endpoint not None, LossDetector loss not None,
                 SystemCounters system not None, int64_t correlation_id, str source_identity, dict counters,
                 int64_t join_position, ReceiveWindow window not None, bint rejoins, int64_t sm_timeout_ns,
                 int64_t liveness_timeout_ns, int64_t connection_timeout_ns, int64_t now_ns):
        self.log = log
        self.endpoint = endpoint
        self.loss = loss
        self.system = system
        self.correlation_id = correlation_id
        self.source_identity = source_identity
        self.session_id = log.session_id
        self.stream_id = log.stream_id
        self.term_length = log.term_length
        self.shift = log.term_shift
        self.initial_term_id = log.initial_term_id
        self.window = window
        self.reach = min(log.term_length // 2, WINDOWS_AHEAD * <int64_t> window.length_max)
        self.is_reliable = loss.is_reliable
        self.rejoins = rejoins
        self.counters = counters
        self.high_water_cell = (<Counter> counters["rcv-hwm"]).address
        self.rebuild_cell = (<Counter> counters["rcv-pos"]).address
        self.naks_cell = (<Counter> counters["rcv-naks-sent"]).address
        self.high_water = self.rebuild_position = join_position
        self.claims = Claims(join_position)
        self.connections = NativeVector(sizeof(Connection), CONNECTIONS_MAX)
        self.subscribers = PointerArray()
        self.sm_position = self.sm_sent_position = join_position
        self.sm_due = True
        self.sm_sent_ns = now_ns
        self.sm_timeout_ns = sm_timeout_ns
        self.liveness_timeout_ns = liveness_timeout_ns
        self.connection_timeout_ns = connection_timeout_ns
        self.created_ns = self.last_packet_ns = self.state_changed_ns = now_ns
        self.state = IMAGE_ACTIVE

    # --- receiving ------------------------------------------------------------------------------------------------

    cdef bint _is_foreign(self, ReceiveTransport transport, const SocketAddress* source, uint32_t length) noexcept nogil:
        """Return whether a datagram comes from another address than the one first heard on this transport; such
        datagrams are counted.

        What names a stream is no secret, and whoever has set it up may have proven who it is since then. What comes
        from the right address is to its credit: as many bytes may be sent to it in return.
        """
        cdef Connection* connections = <Connection*> self.connections.items
        cdef int64_t i
        for i in range(self.connections.count):
            if connections[i].transport == <void*> transport:
                if same_address(&connections[i].source, source):
                    connections[i].credit_bytes += length
                    return False
                count_event(self.system, COUNTER_FOREIGN_SOURCES, 1)
                return True
        return False

    cdef Connection* _track(self, ReceiveTransport transport, const SocketAddress* source, uint32_t length,
                            int64_t now_ns) noexcept nogil:
        """Return the connection of a transport, made with the address that was heard first if there is none."""
        cdef Connection* connections = <Connection*> self.connections.items
        cdef Connection* added
        cdef int64_t i
        for i in range(self.connections.count):
            if connections[i].transport == <void*> transport:
                connections[i].last_heard_ns = now_ns
                return &connections[i]
        added = <Connection*> self.connections.try_append()
        if added != NULL:
            added.transport = <void*> transport
            added.source = source[0]
            added.control = transport.control if transport.is_multicast else source[0]
            added.last_heard_ns = now_ns
            added.credit_bytes = length
        return added

    cdef bint is_of_setup(self, const uint8_t* frame) noexcept nogil:
        """Return whether a SETUP of this session describes this stream."""
        return (ordo_get_i32(frame + SETUP_INITIAL_TERM_ID) == self.initial_term_id
                and ordo_get_i32(frame + SETUP_TERM_LENGTH) == self.term_length
                and ordo_get_i32(frame + SETUP_MTU) == self.log.mtu)

    cdef void on_setup(self, ReceiveTransport transport, const SocketAddress* source, int64_t now_ns) noexcept nogil:
        """Handle a SETUP for a known image: another path to it, or a publisher that lost sight of this receiver."""
        cdef int64_t count = self.connections.count
        if self._is_foreign(transport, source, SETUP_LENGTH):
            return
        self._track(transport, source, SETUP_LENGTH, now_ns)
        if self.connections.count != count:
            self.sm_due = True

    cdef int on_data(self, const uint8_t* datagram, uint32_t length, ReceiveTransport transport,
                     const SocketAddress* source, int64_t now_ns) noexcept nogil:
        """Handle one datagram of DATA or PAD frames, or a heartbeat; return whether it was refused, heard or taken."""
        cdef int32_t frame_length = ordo_get_i32(datagram)
        cdef int32_t term_offset = ordo_get_i32(datagram + TERM_OFFSET_OFFSET)
        cdef bint is_heartbeat = frame_length == 0 and length == DATA_LENGTH
        cdef int64_t covered = 0, position
        cdef Connection* connection
        if self._is_foreign(transport, source, length) or self.is_rejected or self.state != IMAGE_ACTIVE:
            return DATAGRAM_REFUSED
        if is_heartbeat:
            if term_offset < 0 or term_offset >= self.term_length or term_offset & (FRAME_ALIGNMENT - 1):
                covered = -1
        else:
            covered = payload_length(datagram, length, self.term_length) if length <= <uint32_t> self.log.mtu else -1
        position = compute_position(
            ordo_get_i32(datagram + TERM_ID_OFFSET), term_offset, self.shift, self.initial_term_id)
        if covered < 0 or position < 0:
            count_event(self.system, COUNTER_INVALID_PACKETS, 1)
            return DATAGRAM_REFUSED
        if position + covered > self.sm_sent_position + self.term_length / 2:
            count_event(self.system, COUNTER_OVER_RUNS, 1)
            return DATAGRAM_REFUSED
        if is_heartbeat:
            if position < self.sm_sent_position - self.term_length:
                count_event(self.system, COUNTER_UNDER_RUNS, 1)
                return DATAGRAM_REFUSED
            connection = self._track(transport, source, length, now_ns)
            return self._on_heartbeat(datagram, position, connection, now_ns)
        if position < self.sm_sent_position:
            count_event(self.system, COUNTER_UNDER_RUNS, 1)
            if position >= self.sm_sent_position - self.window.length_max:
                hear(self, self._track(transport, source, length, now_ns))
            return DATAGRAM_REFUSED
        connection = self._track(transport, source, length, now_ns)
        hear(self, connection)
        self.last_packet_ns = now_ns
        if position + covered > self.sm_sent_position + self.reach:
            count_event(self.system, COUNTER_OVER_RUNS, 1)
            return DATAGRAM_REFUSED
        if (position + covered + RESERVED_AHEAD > self.log.reserved_position
                and not self.log.reserve(position + covered + RESERVED_AHEAD)):
            return DATAGRAM_REFUSED                  # no room in shared memory: as if it had been lost
        if self.claims.is_free(position, position + covered):
            self._insert(datagram, length, position, covered)
        else:
            self._insert_frames(datagram, length, position)
        return DATAGRAM_TAKEN

    cdef void _insert(self, const uint8_t* datagram, uint32_t length, int64_t position, int64_t covered) noexcept nogil:
        """Copy frames to an unclaimed range, the first word last (log-buffer.md §7)."""
        cdef uint8_t* target
        if not self._claim(position, position + covered):
            count_event(self.system, COUNTER_OVER_RUNS, 1)
            return
        target = self.log.at(position)
        memcpy(target + FIRST_WORD_LENGTH, datagram + FIRST_WORD_LENGTH, length - FIRST_WORD_LENGTH)
        if self.endpoint.stamper is not None:
            self.endpoint.stamper.stamp_all(datagram, target, length, 0)
        if self.endpoint.media_stamper is not None:
            self.endpoint.media_stamper.stamp_arrivals(datagram, target, length, self.endpoint.arrival_time_ns)
        ordo_store_release_i64(target, ordo_get_i64(datagram))
        self.rebuild_position = self.claims.whole
        if position + covered > self.high_water:
            self.high_water = position + covered
            ordo_store_release_i64(self.high_water_cell, self.high_water)

    cdef bint _claim(self, int64_t start, int64_t end) noexcept nogil:
        """Claim a range, and end it with a length of zero unless the next frame is there.

        Readers go from frame to frame and stop at the zero, so terms need not be cleaned before they are used again.
        """
        if not self.claims.add(start, end):
            return False
        if self.claims.is_free(end, end + FRAME_ALIGNMENT):
            ordo_put_i64(self.log.at(end), 0)
        return True

    cdef void _insert_frames(self, const uint8_t* datagram, uint32_t length, int64_t position) noexcept nogil:
        """Insert the missing frames of a datagram of which some came before, each whole or not at all.

        A frame over bytes that only in part, or as another frame, are there already is refused: its payload would lie
        where a reader looks for a header, or the other way round.
        """
        cdef uint32_t at = 0, taken
        cdef int64_t aligned
        while at < length:
            aligned = align_frame_i64(ordo_get_i32(datagram + at))
            taken = <uint32_t> min(aligned, <int64_t> (length - at))
            if self.claims.is_free(position + at, position + at + aligned):
                self._insert(datagram + at, taken, position + at, aligned)
            elif self.is_reliable and not self._is_there(datagram + at, position + at, aligned):
                count_event(self.system, COUNTER_OVERLAPS, 1)
            at += taken

    cdef bint _is_there(self, const uint8_t* frame, int64_t position, int64_t aligned) noexcept nogil:
        """Return whether the frame came before: its whole range is claimed, with the same header there."""
        return (self.claims.holds(position, position + aligned)
                and memcmp(self.log.at(position), frame, IDENTITY_LENGTH) == 0)

    cdef int _on_heartbeat(self, const uint8_t* datagram, int64_t position, Connection* connection,
                           int64_t now_ns) noexcept nogil:
        self.last_packet_ns = now_ns
        count_event(self.system, COUNTER_HEARTBEATS_RECEIVED, 1)
        hear(self, connection)
        if connection != NULL:
            if datagram[FRAME_FLAGS_OFFSET] & FLAG_EOS:
                self._on_end_of_stream(datagram, position, connection)
        if position <= self.high_water:
            return DATAGRAM_HEARD
        self.high_water = position
        ordo_store_release_i64(self.high_water_cell, position)
        return DATAGRAM_TAKEN

    cdef void _on_end_of_stream(self, const uint8_t* datagram, int64_t position, Connection* connection) noexcept nogil:
        """Note an end of stream; the stream has ended when every path of it says so."""
        cdef Connection* connections = <Connection*> self.connections.items
        cdef int64_t i, end = 0
        connection.is_end_of_stream = True
        connection.end_position = position
        for i in range(self.connections.count):
            if not connections[i].is_end_of_stream:
                return
            if connections[i].end_position > end:
                end = connections[i].end_position
        if not self.is_end_of_stream:
            self.is_end_of_stream = True
            self.log.set_end_of_stream_position(end)
        if datagram[FRAME_FLAGS_OFFSET] & FLAG_REVOKED and not self.is_revoked:
            self.is_revoked = True
            self.log.set_revoked()
            count_event(self.system, COUNTER_IMAGES_REVOKED, 1)

    # --- conducting -----------------------------------------------------------------------------------------------

    cdef int conduct(self, int64_t now_ns) noexcept nogil:
        """Run one turn: rebuild, gap, status message; return 1 when something was done."""
        cdef int64_t least, position
        cdef int i
        cdef int64_t rebuilt = self.rebuild_cell[0]
        if self.state > IMAGE_DRAINING:
            return 0
        if self.state == IMAGE_ACTIVE or not self.is_revoked:
            self._rebuild(now_ns)
        least = self.claims.whole                      # a counter is a client's word: nobody has read what is not here
        for i in range(self.subscribers.count):
            position = ordo_load_acquire_i64(<int64_t*> pointer_at(self.subscribers, i))
            if position < least:
                least = position
        least &= ~<int64_t> 31
        if (now_ns - self.sm_sent_ns > self.sm_timeout_ns
                or self.window.on_turn(self.loss.found, least > self.sm_position, now_ns)):
            self.sm_due = True
        if self.window.is_probe_due(now_ns) and not self.is_rejected and not self.is_superseded:
            self._send_probe(now_ns)
        if self.subscribers.count > 0:
            self._schedule_status(least)
        if self.sm_due:
            if self.is_rejected:
                self._send_error(now_ns)
                self.sm_sent_ns = now_ns
                self.sm_due = False
            elif not self.is_superseded:
                self._send_status(now_ns)
                if self.has_response:
                    self._send_response_setup(now_ns)
            else:
                self.sm_due = False
                self.sm_sent_ns = now_ns
            return 1
        return self.rebuild_cell[0] != rebuilt

    cdef void _rebuild(self, int64_t now_ns) noexcept nogil:
        self.loss.scan(self.claims, self.term_length, self.high_water, now_ns)
        if self.loss.found:
            self._record_loss(self.loss.active.length)
        if self.loss.due(now_ns) and not self.is_revoked and not self.is_rejected:
            self._on_gap(now_ns)
        self.rebuild_position = self.claims.whole
        if self.rebuild_position > self.rebuild_cell[0]:
            ordo_store_release_i64(self.rebuild_cell, self.rebuild_position)

    cdef void _on_gap(self, int64_t now_ns) noexcept nogil:
        """Ask for the gap, or fill it with padding when the subscribers want no retransmission."""
        cdef int64_t position = self.loss.active.position
        if self.is_reliable:
            self._send_nak(now_ns)
            return
        if not self.log.reserve(position + self.loss.active.length + RESERVED_AHEAD):
            return
        if not self._claim(position, position + self.loss.active.length):
            return
        self.log.write_padding(self.log.at(position), <int32_t> (position & (self.term_length - 1)),
                               compute_term_id(position, self.shift, self.initial_term_id),
                               <int32_t> self.loss.active.length)
        self.loss.active.length = 0
        count_event(self.system, COUNTER_GAP_FILLS, 1)

    cdef void _schedule_status(self, int64_t least) noexcept nogil:
        if least <= self.sm_position + self.window.length / 4 and not (self.sm_due and least > self.sm_position):
            return
        self.sm_position = least
        self.sm_due = True

    cdef int _send_all(self, const uint8_t* frame, uint32_t length, int64_t now_ns) noexcept nogil:
        """Send to every path that was heard lately, or to the only one there is. Returns how many datagrams were sent.

        Whether an address wants the stream that was set up in its name is never proven, so it is not sent more bytes
        than came from it. Ten heartbeats a second are worth more than the status messages that they call for; a quiet
        stream that sends two gets fewer of these.
        """
        cdef Connection* connections = <Connection*> self.connections.items
        cdef int64_t slack = SM_TAGGED_LENGTH - SETUP_LENGTH if self.endpoint.has_tag else 0
        cdef int64_t i
        cdef int sent = 0
        for i in range(self.connections.count):
            if self.connections.count != 1 and now_ns - connections[i].last_heard_ns > self.connection_timeout_ns:
                continue
            if connections[i].credit_bytes + slack < length:
                count_event(self.system, COUNTER_REPLIES_HELD, 1)
            elif (<ReceiveTransport> connections[i].transport).send_frame(frame, length, &connections[i].control):
                connections[i].credit_bytes -= length
                sent += 1
        return sent

    cdef void _send_status(self, int64_t now_ns) noexcept nogil:
        cdef uint8_t frame[SM_TAGGED_LENGTH]
        cdef int length = put_sm(
            frame, SM_END_OF_STREAM if self.state == IMAGE_DRAINING else 0, self.session_id, self.stream_id,
            compute_term_id(self.sm_position, self.shift, self.initial_term_id),
            <int32_t> (self.sm_position & (self.term_length - 1)), self.window.length, self.endpoint.receiver_id,
            self.endpoint.has_tag, self.endpoint.tag)
        count_event(self.system, COUNTER_SM_SENT, self._send_all(frame, length, now_ns))
        self.sm_sent_position = self.sm_position
        self.sm_sent_ns = now_ns
        self.sm_due = False

    def offer_response(self, int32_t session_id):
        """Name the response's session in each status message from now on (§9)."""
        self.has_response = True
        self.response_session_id = session_id
        self.sm_due = True

    def withdraw_response(self):
        """Stop naming a response: the sender hears it, or there is none any more."""
        self.has_response = False

    cdef void _send_response_setup(self, int64_t now_ns) noexcept nogil:
        cdef uint8_t frame[RSP_SETUP_LENGTH]
        put_response_setup(frame, self.session_id, self.stream_id, self.response_session_id)
        self._send_all(frame, RSP_SETUP_LENGTH, now_ns)

    cdef void _send_nak(self, int64_t now_ns) noexcept nogil:
        cdef uint8_t frame[NAK_LENGTH]
        cdef int64_t position = self.loss.active.position
        put_nak(frame, self.session_id, self.stream_id,
                compute_term_id(position, self.shift, self.initial_term_id),
                <int32_t> (position & (self.term_length - 1)), <int32_t> self.loss.active.length)
        if self._send_all(frame, NAK_LENGTH, now_ns) > 0:
            count_event(self.system, COUNTER_NAKS_SENT, 1)
            ordo_store_release_i64(self.naks_cell, self.naks_cell[0] + 1)

    cdef void _send_probe(self, int64_t now_ns) noexcept nogil:
        """Send an RTTM that the sender returns, to measure the round trip."""
        cdef uint8_t frame[RTTM_LENGTH]
        put_rttm(frame, RTTM_REPLY, self.session_id, self.stream_id, now_ns, 0, self.endpoint.receiver_id)
        self._send_all(frame, RTTM_LENGTH, now_ns)
        self.window.on_probe_sent(now_ns)

    cdef void on_rttm(self, ReceiveTransport transport, const uint8_t* frame, const SocketAddress* source,
                      int64_t now_ns) noexcept nogil:
        """Take a probe that the sender returned."""
        if not self._is_foreign(transport, source, RTTM_LENGTH):
            self.window.on_echo(
                ordo_get_i64(frame + RTTM_ECHO_TIME), ordo_get_i64(frame + RTTM_RECEPTION_DELTA), now_ns)

    cdef void _send_error(self, int64_t now_ns) noexcept nogil:
        cdef uint8_t frame[ERR_LENGTH + ERROR_TEXT_MAX]
        cdef int length
        with gil:
            length = min(<int> len(self.rejection), ERROR_TEXT_MAX)
            memcpy(frame + ERR_LENGTH, <const char*> self.rejection, length)
        put_base(frame, ERR_LENGTH + length, ERR_HAS_TAG if self.endpoint.has_tag else 0, FRAME_ERR)
        ordo_put_i32(frame + ERR_SESSION_ID, self.session_id)
        ordo_put_i32(frame + ERR_STREAM_ID, self.stream_id)
        ordo_put_i64(frame + ERR_RECEIVER_ID, self.endpoint.receiver_id)
        ordo_put_i64(frame + ERR_TAG, self.endpoint.tag)
        ordo_put_i32(frame + ERR_CODE, ERROR_IMAGE_REJECTED)
        ordo_put_i32(frame + ERR_TEXT_LENGTH, length)
        count_event(self.system, COUNTER_ERROR_FRAMES_SENT, self._send_all(frame, ERR_LENGTH + length, now_ns))

    cdef void _record_loss(self, int64_t length) noexcept nogil:
        with gil:
            if self.loss_record is not None:
                self.loss_record(self, length)

    cdef bint has_unread(self) noexcept nogil:
        """Return whether a subscriber has not read all there is, so that its progress has to be polled."""
        cdef int i
        for i in range(self.subscribers.count):
            if ordo_load_acquire_i64(<int64_t*> pointer_at(self.subscribers, i)) < self.rebuild_position:
                return True
        return False

    cdef int64_t deadline_ns(self, int64_t now_ns) noexcept nogil:
        if self.state > IMAGE_DRAINING:
            return NEVER
        if self.sm_due:
            return now_ns
        if self.loss.active.length > 0 and self.loss.active.deadline_ns < self.sm_sent_ns + self.sm_timeout_ns:
            return min(self.loss.active.deadline_ns, self.window.deadline_ns())
        return min(on_grid(self.sm_sent_ns + self.sm_timeout_ns + 1), self.window.deadline_ns())

    cdef bint is_settled(self) noexcept nogil:
        """Return whether all that came was read and acknowledged, so that only timers are left."""
        return not self.sm_due and self.rebuild_position >= self.high_water and not self.has_unread()

    # --- life (Python, rare) --------------------------------------------------------------------------------------

    @property
    def subscriber_count(self):
        return self.subscribers.count

    @property
    def state_name(self):
        return STATE_NAMES[self.state]

    @property
    def is_active(self):
        return self.state == IMAGE_ACTIVE

    @property
    def accepts_subscriptions(self):
        return self.state == IMAGE_ACTIVE and not self.is_revoked

    @property
    def join_position(self):
        """Where a further subscriber begins: at the slowest other one, else at what is whole."""
        cdef int i
        cdef int64_t position = self.rebuild_position
        for i in range(self.subscribers.count):
            position = min(position, ordo_load_acquire_i64(<int64_t*> pointer_at(self.subscribers, i)))
        return position & ~31

    @property
    def rejected(self):
        return self.is_rejected

    def add_connection(self, ReceiveTransport transport not None, bytes source, int64_t now_ns):
        """Add the path that a SETUP came on."""
        load_address(&self.setup_source, source)
        self._track(transport, &self.setup_source, SETUP_LENGTH, now_ns)

    def drop_connection(self, ReceiveTransport transport not None):
        """Forget a path whose destination was removed."""
        cdef Connection* connections = <Connection*> self.connections.items
        cdef int64_t i
        for i in range(self.connections.count - 1, -1, -1):
            if connections[i].transport == <void*> transport:
                self.connections.remove_at(i)

    def add_subscriber(self, Counter position not None):
        self.subscribers.add(position.address)

    def remove_subscriber(self, Counter position not None):
        """Remove a subscriber: it no longer holds the window back."""
        self.subscribers.remove(position.address)

    def subscribers_have_drained(self):
        cdef int i
        for i in range(self.subscribers.count):
            if ordo_load_acquire_i64(<int64_t*> pointer_at(self.subscribers, i)) < self.rebuild_position:
                return False
        return True

    def reject(self, bytes reason not None):
        """Reject the image: from now on its sender is told the reason instead of a position (§6.3)."""
        self.rejection = reason[:ERROR_TEXT_MAX]
        self.is_rejected = True
        self.sm_due = True
        count_event(self.system, COUNTER_IMAGES_REJECTED, 1)

    def end_now(self, int64_t now_ns):
        """End the image because its socket is about to close; the sender is told at once."""
        if self.state == IMAGE_ACTIVE:
            self.state = IMAGE_DRAINING
            if not self.is_superseded and not self.is_rejected:
                self._send_status(now_ns)
        if self.state != IMAGE_DONE:
            self._enter(IMAGE_LINGER, now_ns)

    @property
    def untethered_limit(self):
        """Late is who has not passed this: the fastest subscriber less three quarters of the window."""
        cdef int i
        cdef int64_t most = 0
        for i in range(self.subscribers.count):
            most = max(most, ordo_load_acquire_i64(<int64_t*> pointer_at(self.subscribers, i)))
        return most - self.window.length_max + self.window.length_max / 4

    def supersede(self):
        """Give way to a younger image of the same session."""
        self.is_superseded = True

    def on_time_event(self, int64_t now_ns, int64_t epoch_ms):
        """Carry out changes of state that are due by now. Returns the name of the state that was entered, or None."""
        if self.state == IMAGE_ACTIVE:
            self.log.set_active_transport_count(self._active_connections(now_ns))
            if self._shall_drain(now_ns):
                self.sm_due = True
                return self._enter(IMAGE_DRAINING, now_ns)
        elif self.state == IMAGE_DRAINING:
            if self.is_revoked or (self.subscribers_have_drained() and now_ns - self.state_changed_ns
                                   >= DRAIN_STATUS_MULTIPLE * self.sm_timeout_ns):
                return self._enter(IMAGE_LINGER, now_ns)
        elif self.state == IMAGE_LINGER:
            if self.subscribers.count == 0 or now_ns - self.state_changed_ns >= self.liveness_timeout_ns:
                return self._enter(IMAGE_DONE, now_ns)
        return None

    @property
    def ended_orderly(self):
        """The stream said that it ends: the session may come again at once."""
        return self.is_end_of_stream

    def _active_connections(self, int64_t now_ns):
        cdef Connection* connections = <Connection*> self.connections.items
        cdef int64_t i
        cdef int active = 0
        for i in range(self.connections.count):
            active += connections[i].heard and now_ns - connections[i].last_heard_ns <= self.liveness_timeout_ns
        return active

    def _shall_drain(self, int64_t now_ns):
        return (now_ns - self.last_packet_ns > self.liveness_timeout_ns or self.subscribers.count == 0
                or self.is_revoked or (self.is_end_of_stream and self.rebuild_position >= self.high_water))

    def _enter(self, int state, int64_t now_ns):
        self.state = state
        self.state_changed_ns = now_ns
        return STATE_NAMES[state]
