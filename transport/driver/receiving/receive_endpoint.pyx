"""Where datagrams of subscriptions arrive (transport-wire.md §5)."""

from ordo.runtime.native.sentinels cimport NEVER
from ordo.transport.driver.frames.event_log cimport EVENT_FRAME_OUT
from ordo.transport.driver.frames.frames cimport COUNTER_SHORT_SENDS, COUNTER_SM_SENT, SM_SEND_SETUP, SM_TAGGED_LENGTH, \
    load_address, put_sm
from ordo.transport.driver.frames.pointers cimport pair_key
from ordo.transport.driver.frames.system_counters cimport count_event
from ordo.runtime.io.datagram cimport SendItem

cdef enum:
    SETUP_REQUEST_INTERVAL_NS = 1000000000
    MARKERS_MAX = 65536                # sessions without an image that are remembered



cdef class ReceiveTransport:
    """`control` is the kernel's address of the multicast control group or of the publisher's control, or empty."""

    def __init__(self, DatagramChannel channel not None, spec, ReceiveEndpoint endpoint not None, *,
                 int64_t registration_id, bint is_multicast, bint has_explicit_control, bytes control, int64_t now_ns):
        self.channel = channel
        self.spec = spec
        self.endpoint = endpoint
        self.registration_id = registration_id
        self.is_multicast = is_multicast
        self.has_explicit_control = has_explicit_control
        load_address(&self.control, control)
        self.last_setup_request_ns = now_ns - SETUP_REQUEST_INTERVAL_NS - 1

    def replace_control(self, bytes control):
        """Take the address of the publisher's name; return whether it differs from the one in use."""
        if (<const char*> self.control.storage)[:self.control.length_bytes] == control:
            return False
        load_address(&self.control, control)
        return True

    def ask_again(self):
        """Have the conductor ask the publisher for SETUP in its next turn, whatever the interval."""
        self.last_setup_request_ns = -SETUP_REQUEST_INTERVAL_NS

    cdef bint send_frame(self, const uint8_t* frame, uint32_t length, const SocketAddress* to) noexcept nogil:
        cdef SendItem item
        cdef int sent
        item.data = frame
        item.length_bytes = length
        item.segment_length_bytes = length
        item.to = to
        sent = self.channel.send(&item, 1)
        if sent != 1:
            count_event(self.endpoint.system, COUNTER_SHORT_SENDS, 1)
            return False
        if self.endpoint.events is not None and self.endpoint.events.wants(EVENT_FRAME_OUT):
            self.endpoint.events.sent(&item)
        return True


cdef class ReceiveEndpoint:
    """Images and interests of one receive channel. `tag` is None or the receiver's group tag."""

    def __init__(self, spec, SystemCounters system not None, *, int64_t receiver_id, tag, FrameStamper stamper=None,
                 FrameStamper media_stamper=None, EventLog events=None):
        self.spec = spec
        self.system = system
        self.receiver_id = receiver_id
        self.has_tag = tag is not None
        self.tag = tag if tag is not None else 0
        self.stamper = stamper
        self.media_stamper = media_stamper
        self.events = events
        self.transports = []
        self.images = {}
        self.interests = {}
        self.pending = {}
        self.sessions = PointerMap()
        self.streams = PointerMap()

    def retain(self):
        self.reference_count += 1

    def release(self):
        """Return whether the last subscription is gone."""
        self.reference_count -= 1
        return self.reference_count == 0

    def add_transport(self, ReceiveTransport transport not None):
        self.transports.append(transport)

    def remove_transport(self, ReceiveTransport transport not None):
        self.transports.remove(transport)
        transport.channel.close()

    def close(self):
        for transport in self.transports:
            transport.channel.close()

    # --- interest -------------------------------------------------------------------------------------------------

    def add_interest(self, int32_t stream_id, session_id):
        """Register a subscription to a stream, of one session or (None) of any; sessions refused before may be taken up
        now."""
        self.interests.setdefault(stream_id, []).append(session_id)
        self._show_interest(stream_id)
        self._clear_markers(stream_id, SESSION_NO_INTEREST)
        for transport in self.transports:
            transport.ask_again()

    def remove_interest(self, int32_t stream_id, session_id):
        wanted = self.interests[stream_id]
        wanted.remove(session_id)
        if not wanted:
            del self.interests[stream_id]
        self._show_interest(stream_id)
        self._clear_markers(stream_id, 0)

    def _show_interest(self, int32_t stream_id):
        """Show native code which sessions are wanted, so that it does not need the interpreter for each SETUP of a
        flood."""
        wanted = self.interests.get(stream_id)
        if wanted is None:
            self.streams.remove(stream_id)
        else:
            self.streams.put(stream_id, <void*> <size_t> (ANY_SESSION if None in wanted else SOME_SESSIONS))

    def is_interested(self, int32_t session_id, int32_t stream_id):
        wanted = self.interests.get(stream_id, ())
        return None in wanted or session_id in wanted

    def _clear_markers(self, int32_t stream_id, int marker):
        """Forget sessions without an image on a stream: those with one marker, or (0) any but those being built."""
        cdef uint32_t slot
        cdef size_t value
        doomed = []
        for slot in range(self.sessions.mask + 1):
            value = <size_t> self.sessions.values[slot]
            if value == 0 or value >= SESSION_MARKERS or <int32_t> self.sessions.keys[slot] != stream_id:
                continue
            if value == <size_t> marker or (marker == 0 and value != SESSION_INIT_IN_PROGRESS):
                doomed.append(self.sessions.keys[slot])
        for key in doomed:
            self.sessions.remove(key)

    # --- sessions -------------------------------------------------------------------------------------------------

    def marker_of(self, int32_t session_id, int32_t stream_id):
        """Return what is known of a session: 0 for nothing, a SESSION_ marker, or SESSION_MARKERS for an image."""
        cdef size_t value = <size_t> self.sessions.get(pair_key(session_id, stream_id))
        return value if value < SESSION_MARKERS else SESSION_MARKERS

    def mark(self, int32_t session_id, int32_t stream_id, int marker, int64_t deadline_ns=0):
        """Remember a session without an image; PENDING_SETUP until its deadline."""
        if self.sessions.count - len(self.images) >= MARKERS_MAX:
            for stream in list(self.interests):
                self._clear_markers(stream, SESSION_NO_INTEREST)
                self._clear_markers(stream, SESSION_PENDING_SETUP)
            self.pending.clear()
        self.sessions.put(pair_key(session_id, stream_id), <void*> <size_t> marker)
        self.pending.pop((session_id, stream_id), None)
        if marker == SESSION_PENDING_SETUP:
            self.pending[(session_id, stream_id)] = deadline_ns
        self.pending_count = len(self.pending)

    def unmark(self, int32_t session_id, int32_t stream_id):
        if self.marker_of(session_id, stream_id) != SESSION_MARKERS:
            self.sessions.remove(pair_key(session_id, stream_id))
        self.pending.pop((session_id, stream_id), None)
        self.pending_count = len(self.pending)

    def add_image(self, image, int32_t session_id, int32_t stream_id):
        self.images[(session_id, stream_id)] = image
        self.pending.pop((session_id, stream_id), None)
        self.pending_count = len(self.pending)
        self.sessions.put(pair_key(session_id, stream_id), <void*> image)

    def remove_image(self, image, int32_t session_id, int32_t stream_id):
        """Remove an image: datagrams of its session find none from now on, and there may be room for a refused one."""
        if self.images.get((session_id, stream_id)) is image:
            del self.images[(session_id, stream_id)]
            self.sessions.remove(pair_key(session_id, stream_id))
            self._clear_markers(stream_id, SESSION_NO_INTEREST)

    # --- asking for SETUP -----------------------------------------------------------------------------------------

    def ask_setup(self, int32_t session_id, int32_t stream_id):
        """Ask the channel's control address for the SETUP of one session."""
        cdef ReceiveTransport transport
        for transport in self.transports:
            if transport.control.length_bytes:
                self.request_setup(transport, &transport.control, session_id, stream_id)

    cdef void request_setup(self, ReceiveTransport transport, const SocketAddress* to, int32_t session_id,
                            int32_t stream_id) noexcept nogil:
        cdef uint8_t frame[SM_TAGGED_LENGTH]
        cdef int length = put_sm(frame, SM_SEND_SETUP, session_id, stream_id, 0, 0, 0, self.receiver_id, self.has_tag,
                                 self.tag)
        if transport.send_frame(frame, length, to):
            count_event(self.system, COUNTER_SM_SENT, 1)

    def conduct_endpoint(self, int64_t now_ns):
        """Ask explicit control addresses once a second, forget old PENDING_SETUP markers; return the next deadline
        (ns)."""
        cdef ReceiveTransport transport
        cdef int64_t deadline = NEVER
        if self.interests:
            for transport in self.transports:
                if not transport.has_explicit_control or transport.control.length_bytes == 0:
                    continue
                if now_ns - transport.last_setup_request_ns >= SETUP_REQUEST_INTERVAL_NS:
                    self.request_setup(transport, &transport.control, 0, 0)
                    transport.last_setup_request_ns = now_ns
                deadline = min(deadline, transport.last_setup_request_ns + SETUP_REQUEST_INTERVAL_NS)
        expired = []
        for key, until_ns in self.pending.items():         # in the order of their deadlines
            if until_ns > now_ns:
                deadline = min(deadline, until_ns)
                break
            expired.append(key)
        for key in expired:
            self.unmark(*key)
        return deadline
