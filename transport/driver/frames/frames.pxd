"""Frames on the wire: offsets, flags, checks and builders (transport-wire.md §1-§2)."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp, memcpy, memset
from ordo.runtime.native.atomics cimport ordo_get_i32, ordo_get_i64, ordo_get_u16, ordo_put_i32, ordo_put_i64, ordo_put_u16
from ordo.runtime.io.datagram cimport ADDRESS_IPV4, ADDRESS_IPV6, ADDRESS_LENGTH_IPV4, ADDRESS_PORT, SocketAddress
from ordo.transport.streams.logbuffer cimport (
    FRAME_ALIGNMENT,
    FRAME_FLAGS_OFFSET,
    FRAME_TYPE_OFFSET,
    FRAME_VERSION_OFFSET,
    SESSION_ID_OFFSET,
    STREAM_IDENTITY_LENGTH,
    TERM_LENGTH_MAX,
    TERM_LENGTH_MIN,
    TERM_OFFSET_OFFSET,
    align_frame_i64,
)

cdef enum:
    FRAME_PAD = 0x00
    FRAME_DATA = 0x01
    FRAME_NAK = 0x02
    FRAME_SM = 0x03
    FRAME_ERR = 0x04
    FRAME_SETUP = 0x05
    FRAME_RTTM = 0x06
    FRAME_RES = 0x07
    FRAME_RSP_SETUP = 0x0B
    FRAME_INVALID = -1

cdef enum:
    DATA_LENGTH = 32
    NAK_LENGTH = 28
    SM_LENGTH = 36
    SM_TAGGED_LENGTH = 44
    ERR_LENGTH = 40
    SETUP_LENGTH = 40
    RTTM_LENGTH = 40
    RSP_SETUP_LENGTH = 20
    RES_LENGTH = 22
    ERROR_TEXT_MAX = 1023
    DATAGRAM_LENGTH_MAX = 65504

# Offsets of what follows the 8 bytes that every frame begins with; those of DATA and PAD are in streams/logbuffer.pxd.
cdef enum:
    SM_SESSION_ID = 8
    SM_STREAM_ID = 12
    SM_TERM_ID = 16
    SM_TERM_OFFSET = 20
    SM_WINDOW = 24
    SM_RECEIVER_ID = 28                # i64
    SM_TAG = 36                        # i64, where the frame is of SM_TAGGED_LENGTH
    NAK_SESSION_ID = 8
    NAK_STREAM_ID = 12
    NAK_TERM_ID = 16
    NAK_TERM_OFFSET = 20
    NAK_RANGE_LENGTH = 24
    ERR_SESSION_ID = 8
    ERR_STREAM_ID = 12
    ERR_RECEIVER_ID = 16               # i64
    ERR_TAG = 24                       # i64, where ERR_HAS_TAG is set
    ERR_CODE = 32
    ERR_TEXT_LENGTH = 36
    SETUP_TERM_OFFSET = 8
    SETUP_SESSION_ID = 12
    SETUP_STREAM_ID = 16
    SETUP_INITIAL_TERM_ID = 20
    SETUP_ACTIVE_TERM_ID = 24
    SETUP_TERM_LENGTH = 28
    SETUP_MTU = 32
    SETUP_TTL = 36
    RTTM_SESSION_ID = 8
    RTTM_STREAM_ID = 12
    RTTM_ECHO_TIME = 16                # i64, ns
    RTTM_RECEPTION_DELTA = 24          # i64, ns
    RTTM_RECEIVER_ID = 32              # i64; 0: for every receiver
    RSP_SETUP_SESSION_ID = 8
    RSP_SETUP_STREAM_ID = 12
    RSP_SETUP_RESPONSE_SESSION_ID = 16

cdef enum:
    SM_SEND_SETUP = 0x80
    SM_END_OF_STREAM = 0x40
    ERR_HAS_TAG = 0x08
    SETUP_GROUP = 0x40
    SETUP_SEND_RESPONSE = 0x80
    RTTM_REPLY = 0x80
    HEARTBEAT_FLAGS = 0xC0

cdef enum:
    # system counters (cnc-and-driver-protocol.md §5.4): index into the array of their addresses
    COUNTER_BYTES_SENT = 0
    COUNTER_BYTES_RECEIVED = 1
    COUNTER_NAKS_SENT = 5
    COUNTER_NAKS_RECEIVED = 6
    COUNTER_SM_SENT = 7
    COUNTER_SM_RECEIVED = 8
    COUNTER_HEARTBEATS_SENT = 9
    COUNTER_HEARTBEATS_RECEIVED = 10
    COUNTER_RETRANSMITS = 11
    COUNTER_UNDER_RUNS = 12
    COUNTER_OVER_RUNS = 13
    COUNTER_INVALID_PACKETS = 14
    COUNTER_ERRORS = 15
    COUNTER_SHORT_SENDS = 16
    COUNTER_FREE_FAILS = 17
    COUNTER_SENDER_LIMITS = 18
    COUNTER_UNBLOCKED_PUBLICATIONS = 19
    COUNTER_UNBLOCKED_COMMANDS = 20
    COUNTER_TTL_ASYMMETRY = 21
    COUNTER_GAP_FILLS = 23
    COUNTER_CLIENT_TIMEOUTS = 24
    COUNTER_RESOLUTION_CHANGES = 25
    COUNTER_CONDUCTOR_CYCLE = 26       # the longest duty cycle; the next one counts those above the threshold
    COUNTER_SENDER_CYCLE = 28
    COUNTER_RECEIVER_CYCLE = 30
    COUNTER_RESOLUTION_TIME = 32       # the longest wait for a name, likewise
    COUNTER_SOFTWARE_VERSION = 34
    COUNTER_BYTES_MAPPED = 35
    COUNTER_RETRANSMITTED_BYTES = 36
    COUNTER_RETRANSMIT_OVERFLOW = 37
    COUNTER_ERROR_FRAMES_RECEIVED = 38
    COUNTER_ERROR_FRAMES_SENT = 39
    COUNTER_PUBLICATIONS_REVOKED = 40
    COUNTER_IMAGES_REVOKED = 41
    COUNTER_IMAGES_REJECTED = 42
    COUNTER_PROTOCOL_VERSION = 43
    COUNTER_SM_REJECTED = 44
    SYSTEM_COUNTERS = 46
    # Ordo's own, what was refused: the index beyond SYSTEM_COUNTERS is the key
    COUNTER_OVERLAPS = 46
    COUNTER_DAMAGED_LOGS = 47
    COUNTER_TERMS_TOO_LONG = 48
    COUNTER_IMAGES_OF_SOURCE_FULL = 49
    COUNTER_IMAGES_FULL = 50
    COUNTER_SETUPS_TOO_FAST = 51
    COUNTER_PENDING_FULL = 52
    COUNTER_SETUPS_CONTRADICTING = 53
    COUNTER_FOREIGN_SOURCES = 54
    COUNTER_NOT_ENCRYPTED = 55
    COUNTER_FORGED = 56
    COUNTER_REPLAYED = 57
    COUNTER_UNKNOWN_KEYS = 58
    COUNTER_HANDSHAKES_REFUSED = 59
    COUNTER_UNEXPECTED_ENCRYPTION = 60
    COUNTER_KEYS_AGREED = 61
    COUNTER_REPLIES_HELD = 62
    COUNTER_SETUPS_HELD = 63
    ALL_COUNTERS = 64

cdef inline int minimum_length(int frame_type) noexcept nogil:
    """Return the length of the shortest datagram of a frame type, or 0 for a type that is invalid on the wire."""
    if frame_type == FRAME_DATA or frame_type == FRAME_PAD:
        return DATA_LENGTH
    if frame_type == FRAME_NAK:
        return NAK_LENGTH
    if frame_type == FRAME_SM:
        return SM_LENGTH
    if frame_type == FRAME_ERR or frame_type == FRAME_SETUP or frame_type == FRAME_RTTM:
        return ERR_LENGTH
    if frame_type == FRAME_RSP_SETUP:
        return RSP_SETUP_LENGTH
    if frame_type == FRAME_RES:
        return RES_LENGTH
    return 0

cdef inline int classify(const uint8_t* datagram, uint32_t length) noexcept nogil:
    """Return the frame type of a well-formed datagram, or FRAME_INVALID (transport-wire.md §1.3)."""
    cdef int32_t frame_length
    cdef int frame_type, minimum
    if length <= 8 or length > DATAGRAM_LENGTH_MAX:
        return FRAME_INVALID
    frame_length = ordo_get_i32(datagram)
    if frame_length < 0 or datagram[FRAME_VERSION_OFFSET] != 0:
        return FRAME_INVALID
    frame_type = ordo_get_u16(datagram + FRAME_TYPE_OFFSET)
    minimum = minimum_length(frame_type)
    if minimum == 0 or length < <uint32_t> minimum:
        return FRAME_INVALID
    if frame_type <= FRAME_DATA:
        return frame_type if length % FRAME_ALIGNMENT == 0 else FRAME_INVALID
    if <uint32_t> frame_length > length or (frame_length < minimum and frame_type != FRAME_RES):
        return FRAME_INVALID
    return frame_type

cdef inline int64_t payload_length(const uint8_t* datagram, uint32_t length, int32_t term_length) noexcept nogil:
    """Return the bytes of the term that the frames of a data datagram cover (a PAD's whole hole included), or -1 if
    malformed.

    All frames must be of the first one's session, stream and term and stand where the one before ends.
    """
    cdef int64_t offset = ordo_get_i32(datagram + TERM_OFFSET_OFFSET)
    cdef int64_t running, covered = 0, aligned
    cdef int32_t frame_length
    cdef int frame_type
    if offset < 0 or offset >= term_length or offset & (FRAME_ALIGNMENT - 1):
        return -1
    while covered < length:
        if length - covered < DATA_LENGTH:
            return -1
        frame_length = ordo_get_i32(datagram + covered)
        frame_type = ordo_get_u16(datagram + covered + FRAME_TYPE_OFFSET)
        if (frame_length < DATA_LENGTH or frame_type > FRAME_DATA
                or ordo_get_i32(datagram + covered + TERM_OFFSET_OFFSET) != offset + covered):
            return -1
        if (datagram[covered + FRAME_VERSION_OFFSET] != 0
                or memcmp(datagram + SESSION_ID_OFFSET, datagram + covered + SESSION_ID_OFFSET,
                          STREAM_IDENTITY_LENGTH) != 0):
            return -1
        aligned = align_frame_i64(frame_length)
        if offset + covered + aligned > term_length:
            return -1
        running = covered + aligned
        if frame_type == FRAME_PAD and running > length:
            return running if covered + DATA_LENGTH == length else -1
        covered = running
    return covered if covered == length else -1

cdef inline bint setup_is_valid(const uint8_t* frame) noexcept nogil:
    cdef int32_t term_length = ordo_get_i32(frame + SETUP_TERM_LENGTH)
    cdef int32_t term_offset = ordo_get_i32(frame + SETUP_TERM_OFFSET)
    cdef int32_t mtu = ordo_get_i32(frame + SETUP_MTU)
    return (TERM_LENGTH_MIN <= term_length <= TERM_LENGTH_MAX and term_length & (term_length - 1) == 0
            and 0 <= term_offset < term_length and term_offset & (FRAME_ALIGNMENT - 1) == 0
            and DATA_LENGTH < mtu <= DATAGRAM_LENGTH_MAX and mtu & (FRAME_ALIGNMENT - 1) == 0
            and <int32_t> (<uint32_t> ordo_get_i32(frame + SETUP_ACTIVE_TERM_ID)
                           - <uint32_t> ordo_get_i32(frame + SETUP_INITIAL_TERM_ID)) >= 0)

cdef inline bint sm_is_valid(const uint8_t* frame) noexcept nogil:
    """Return whether a status message is within the widest bounds, for a stream that is not known (transport-wire.md
    §2.3)."""
    cdef int32_t term_offset = ordo_get_i32(frame + SM_TERM_OFFSET)
    cdef int32_t window = ordo_get_i32(frame + SM_WINDOW)
    return (0 <= term_offset < TERM_LENGTH_MAX and term_offset & (FRAME_ALIGNMENT - 1) == 0
            and 0 <= window <= TERM_LENGTH_MAX >> 1)

cdef inline void put_base(uint8_t* frame, int32_t length, uint8_t flags, int frame_type) noexcept nogil:
    ordo_put_i32(frame, length)
    frame[FRAME_VERSION_OFFSET] = 0
    frame[FRAME_FLAGS_OFFSET] = flags
    ordo_put_u16(frame + FRAME_TYPE_OFFSET, <uint16_t> frame_type)

cdef inline int put_sm(uint8_t* frame, uint8_t flags, int32_t session_id, int32_t stream_id, int32_t term_id,
                       int32_t term_offset, int32_t window, int64_t receiver_id, bint has_tag, int64_t tag) noexcept nogil:
    cdef int length = SM_TAGGED_LENGTH if has_tag else SM_LENGTH
    put_base(frame, length, flags, FRAME_SM)
    ordo_put_i32(frame + SM_SESSION_ID, session_id)
    ordo_put_i32(frame + SM_STREAM_ID, stream_id)
    ordo_put_i32(frame + SM_TERM_ID, term_id)
    ordo_put_i32(frame + SM_TERM_OFFSET, term_offset)
    ordo_put_i32(frame + SM_WINDOW, window)
    ordo_put_i64(frame + SM_RECEIVER_ID, receiver_id)
    if has_tag:
        ordo_put_i64(frame + SM_TAG, tag)
    return length

cdef inline void put_nak(uint8_t* frame, int32_t session_id, int32_t stream_id, int32_t term_id, int32_t term_offset,
                         int32_t length) noexcept nogil:
    put_base(frame, NAK_LENGTH, 0, FRAME_NAK)
    ordo_put_i32(frame + NAK_SESSION_ID, session_id)
    ordo_put_i32(frame + NAK_STREAM_ID, stream_id)
    ordo_put_i32(frame + NAK_TERM_ID, term_id)
    ordo_put_i32(frame + NAK_TERM_OFFSET, term_offset)
    ordo_put_i32(frame + NAK_RANGE_LENGTH, length)

cdef inline void put_rttm(uint8_t* frame, uint8_t flags, int32_t session_id, int32_t stream_id, int64_t echo_ns,
                          int64_t delta_ns, int64_t receiver_id) noexcept nogil:
    put_base(frame, RTTM_LENGTH, flags, FRAME_RTTM)
    ordo_put_i32(frame + RTTM_SESSION_ID, session_id)
    ordo_put_i32(frame + RTTM_STREAM_ID, stream_id)
    ordo_put_i64(frame + RTTM_ECHO_TIME, echo_ns)
    ordo_put_i64(frame + RTTM_RECEPTION_DELTA, delta_ns)
    ordo_put_i64(frame + RTTM_RECEIVER_ID, receiver_id)

cdef inline void put_response_setup(uint8_t* frame, int32_t session_id, int32_t stream_id,
                                    int32_t response_session_id) noexcept nogil:
    put_base(frame, RSP_SETUP_LENGTH, 0, FRAME_RSP_SETUP)
    ordo_put_i32(frame + RSP_SETUP_SESSION_ID, session_id)
    ordo_put_i32(frame + RSP_SETUP_STREAM_ID, stream_id)
    ordo_put_i32(frame + RSP_SETUP_RESPONSE_SESSION_ID, response_session_id)

cdef inline int64_t on_grid(int64_t deadline_ns) noexcept nogil:
    """Return the next multiple of 5 ms: periodic messages of many streams go out together, so that an idle driver
    sleeps."""
    return (deadline_ns + 4999999) / 5000000 * 5000000

cdef inline uint16_t address_port(const SocketAddress* address) noexcept nogil:
    """Return the port in network order, for comparison only; it has the same place in both families."""
    return ordo_get_u16(address.storage + ADDRESS_PORT)

cdef inline bint same_address(const SocketAddress* a, const SocketAddress* b) noexcept nogil:
    """Return whether family, port and address are equal; flow information and scope do not count."""
    if ordo_get_u16(a.storage) != ordo_get_u16(b.storage) or address_port(a) != address_port(b):
        return False
    if a.length_bytes <= ADDRESS_LENGTH_IPV4:
        return memcmp(a.storage + ADDRESS_IPV4, b.storage + ADDRESS_IPV4, 4) == 0
    return memcmp(a.storage + ADDRESS_IPV6, b.storage + ADDRESS_IPV6, 16) == 0

cdef inline void load_address(SocketAddress* out, bytes packed):
    memset(out, 0, sizeof(SocketAddress))
    out.length_bytes = <uint32_t> len(packed)
    memcpy(out.storage, <const uint8_t*> <const char*> packed, len(packed))
