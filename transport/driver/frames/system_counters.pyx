"""The driver's system counters (cnc-and-driver-protocol.md §5.4): type 0, id = key = place in this list.

Behind them, of a type of their own, what Ordo counts beyond Aeron: what was refused.
"""

import struct

from ordo.runtime.native.counters cimport Counter, CountersManager
from ordo.transport.driver.frames.frames cimport COUNTER_PROTOCOL_VERSION, COUNTER_RESOLUTION_TIME, COUNTER_SOFTWARE_VERSION

cdef int64_t RESOLUTION_THRESHOLD_NS = 5000000000

SYSTEM_TYPE_ID = 0
REFUSED_TYPE_ID = 1050
OWNER_NONE = -1
PROTOCOL_VERSION = 0x010000
SOFTWARE_VERSION = 0x000100
_VERSION_TEXT = "version=0.1.0 commit=ordo"

LABELS = (
    "Bytes sent",
    "Bytes received",
    "Failed offers to ReceiverProxy",
    "Failed offers to SenderProxy",
    "Failed offers to DriverConductorProxy",
    "NAKs sent",
    "NAKs received",
    "Status Messages sent",
    "Status Messages received",
    "Heartbeats sent",
    "Heartbeats received",
    "Retransmits sent",
    "Flow control under runs",
    "Flow control over runs",
    "Invalid packets",
    f"Errors: {_VERSION_TEXT}",
    "Short sends",
    "Failed attempts to free log buffers",
    "Sender flow control limits, i.e. back-pressure events",
    "Unblocked Publications",
    "Unblocked Control Commands",
    "Possible TTL Asymmetry",
    "ControllableIdleStrategy status",
    "Loss gap fills",
    "Client liveness timeouts",
    "Resolution changes: driverName=null",
    "Conductor max cycle time doing its work in ns: INVOKER",
    "Conductor work cycle exceeded threshold count: threshold=100ms INVOKER",
    "Sender max cycle time doing its work in ns: INVOKER",
    "Sender work cycle exceeded threshold count: threshold=100ms INVOKER",
    "Receiver max cycle time doing its work in ns: INVOKER",
    "Receiver work cycle exceeded threshold count: threshold=100ms INVOKER",
    "NameResolver max time in ns",
    "NameResolver exceeded threshold count: threshold=5s",
    f"Aeron software: {_VERSION_TEXT}",
    "Bytes currently mapped",
    "Retransmitted bytes",
    "Retransmit Pool Overflow count",
    "Error Frames received",
    "Error Frames sent",
    "Publications Revoked",
    "Publication Images Revoked",
    "Images rejected",
    "Control protocol version",
    "Status Messages rejected",
    "Failed offers to NativeResourceAgentProxy",
)
REFUSED_LABELS = (
    "Refused: frames over bytes of other frames",
    "Refused: frames of a client's log buffer that cannot be",
    "Refused: set-ups with terms above image_term_length_max",
    "Refused: set-ups above images_per_source_max or image_memory_per_source_max",
    "Refused: set-ups above images_max, image_memory_max or counters_reserved",
    "Refused: set-ups of a host that come too fast, or that nothing follows",
    "Refused: unknown sessions above pending_setups_max",
    "Refused: set-ups that contradict their image",
    "Refused: frames of a stream from another address than its own",
    "Refused: datagrams that are not encrypted",
    "Refused: encrypted datagrams that were changed or forged",
    "Refused: encrypted datagrams that came twice or far too late",
    "Refused: encrypted datagrams of keys that are not known any more",
    "Refused: handshakes that are damaged, too many, without cookie, or with a key that is not trusted, or not there",
    "Refused: encrypted datagrams, which this driver without [encryption] cannot read",
    "Encryption: keys agreed on",
    "Held back: replies beyond what their address had sent",
    "Held back: publications to addresses that left all set-ups unanswered",
)


cdef class SystemCounters:
    """Allocates them all; `manager` must be fresh, so that ids equal keys. `mode` is the threading mode in the labels."""

    def __init__(self, CountersManager manager not None, str mode="INVOKER"):
        cdef Counter counter
        self.counters = []
        for index, label in enumerate(LABELS):
            label = label.replace("INVOKER", mode)
            counter = manager.allocate(SYSTEM_TYPE_ID, label, struct.pack("<i", index), registration_id=index,
                                       owner_id=OWNER_NONE)
            self.at[<int> index] = counter.address
            self.counters.append(counter)
        for index, label in enumerate(REFUSED_LABELS):
            counter = manager.allocate(REFUSED_TYPE_ID, label, struct.pack("<i", index), registration_id=index,
                                       owner_id=OWNER_NONE)
            self.at[len(LABELS) + <int> index] = counter.address
            self.counters.append(counter)
        self.counters[COUNTER_SOFTWARE_VERSION].set(SOFTWARE_VERSION)
        self.counters[COUNTER_PROTOCOL_VERSION].set(PROTOCOL_VERSION)

    def note_resolution(self, int64_t took_ns):
        """Record how long a name lookup took: the longest time, and how many took more than 5 s."""
        note_longest(self, COUNTER_RESOLUTION_TIME, took_ns, RESOLUTION_THRESHOLD_NS)

    def value(self, int index):
        return self.counters[index].value

    def add(self, int index, int64_t delta=1):
        return self.counters[index].increment(delta)
