"""Commands of clients to the driver and its responses (cnc-and-driver-protocol.md §6), as named tuples.

`encode` gives the payload of any of them, `decode_command` and `decode_response` the tuple of a payload. Integers are
little-endian; text is an i32 length and ASCII, not terminated.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Any, Final, NamedTuple

from ordo.runtime.errors import DecodeError

NULL_ID: Final = -1
REVOKE_FLAG: Final = 1
IPC_IDENTITY: Final = "aeron:ipc"
"""The source of an image over shared memory."""
ADDRESS_TYPE_IPV4: Final = 1
ADDRESS_TYPE_IPV6: Final = 2


class ErrorCode(IntEnum):
    """The reason for which the driver refused a command (§6.4)."""

    UNKNOWN_CODE = -1
    UNUSED = 0
    INVALID_CHANNEL = 1
    UNKNOWN_SUBSCRIPTION = 2
    UNKNOWN_PUBLICATION = 3
    CHANNEL_ENDPOINT_ERROR = 4
    UNKNOWN_COUNTER = 5
    UNKNOWN_COMMAND_TYPE_ID = 6
    MALFORMED_COMMAND = 7
    NOT_SUPPORTED = 8
    UNKNOWN_HOST = 9
    RESOURCE_TEMPORARILY_UNAVAILABLE = 10
    GENERIC_ERROR = 11
    STORAGE_SPACE = 12
    IMAGE_REJECTED = 13
    PUBLICATION_REVOKED = 14


# --- commands ---------------------------------------------------------------------------------------------------------


class AddPublication(NamedTuple):
    """A request for a shared publication. Its response is OnPublicationReady."""

    client_id: int
    correlation_id: int
    stream_id: int
    channel: str


class AddExclusivePublication(NamedTuple):
    """A request for an exclusive publication. Its response is OnExclusivePublicationReady."""

    client_id: int
    correlation_id: int
    stream_id: int
    channel: str


class RemovePublication(NamedTuple):
    """The removal of a publication; `flags` bit 0 revokes; clients older than 1.48 leave the field out."""

    client_id: int
    correlation_id: int
    registration_id: int
    flags: int = 0


class AddSubscription(NamedTuple):
    """A request for a subscription, answered by OnSubscriptionReady and an OnAvailableImage for each image."""

    client_id: int
    correlation_id: int
    registration_correlation_id: int
    stream_id: int
    channel: str


class RemoveSubscription(NamedTuple):
    client_id: int
    correlation_id: int
    registration_id: int


class ClientKeepalive(NamedTuple):
    client_id: int
    correlation_id: int


class AddDestination(NamedTuple):
    client_id: int
    correlation_id: int
    registration_id: int
    channel: str


class RemoveDestination(NamedTuple):
    client_id: int
    correlation_id: int
    registration_id: int
    channel: str


class AddCounter(NamedTuple):
    """A request for a counter. Its response is OnCounterReady."""

    client_id: int
    correlation_id: int
    type_id: int
    key: bytes
    label: str


class RemoveCounter(NamedTuple):
    client_id: int
    correlation_id: int
    registration_id: int


class ClientClose(NamedTuple):
    client_id: int
    correlation_id: int


class AddReceiveDestination(NamedTuple):
    client_id: int
    correlation_id: int
    registration_id: int
    channel: str


class RemoveReceiveDestination(NamedTuple):
    client_id: int
    correlation_id: int
    registration_id: int
    channel: str


class TerminateDriver(NamedTuple):
    client_id: int
    correlation_id: int
    token: bytes


class AddStaticCounter(NamedTuple):
    """A request for a counter that outlives its client. Its response is OnStaticCounter."""

    client_id: int
    correlation_id: int
    registration_id: int
    type_id: int
    key: bytes
    label: str


REASON_LENGTH_MAX = 1023
"""The most bytes of a reason to reject an image; an ERR frame has room for no more."""


class RejectImage(NamedTuple):
    """The rejection of an image; `position` is informational; `reason` has up to 1023 characters."""

    client_id: int
    correlation_id: int
    image_correlation_id: int
    position: int
    reason: str


class RemoveDestinationById(NamedTuple):
    client_id: int
    correlation_id: int
    resource_registration_id: int
    destination_registration_id: int


class GetNextAvailableSessionId(NamedTuple):
    client_id: int
    correlation_id: int
    stream_id: int


# --- responses --------------------------------------------------------------------------------------------------------


class OnError(NamedTuple):
    """An error response; for CHANNEL_ENDPOINT_ERROR `offending_correlation_id` is a channel status counter id."""

    offending_correlation_id: int
    error_code: int
    message: str


class OnAvailableImage(NamedTuple):
    """The response that a subscription has a new image; sent once for each link between the two."""

    correlation_id: int
    session_id: int
    stream_id: int
    subscription_registration_id: int
    subscriber_position_counter_id: int
    log_file: str
    source_identity: str


class OnPublicationReady(NamedTuple):
    correlation_id: int
    registration_id: int
    session_id: int
    stream_id: int
    limit_counter_id: int
    channel_status_counter_id: int
    log_file: str


class OnExclusivePublicationReady(NamedTuple):
    correlation_id: int
    registration_id: int
    session_id: int
    stream_id: int
    limit_counter_id: int
    channel_status_counter_id: int
    log_file: str


class OnOperationSuccess(NamedTuple):
    correlation_id: int


class OnUnavailableImage(NamedTuple):
    correlation_id: int
    subscription_registration_id: int
    stream_id: int
    channel: str


class OnSubscriptionReady(NamedTuple):
    correlation_id: int
    channel_status_counter_id: int


class OnCounterReady(NamedTuple):
    correlation_id: int
    counter_id: int


class OnUnavailableCounter(NamedTuple):
    registration_id: int
    counter_id: int


class OnClientTimeout(NamedTuple):
    client_id: int


class OnStaticCounter(NamedTuple):
    correlation_id: int
    counter_id: int


class OnPublicationError(NamedTuple):
    """`address` is in network order, 16 bytes; an IPv4 address takes the first four."""

    registration_id: int
    destination_registration_id: int
    session_id: int
    stream_id: int
    receiver_id: int
    group_tag: int
    address_type: int
    port: int
    address: bytes
    error_code: int
    message: str


class OnNextAvailableSessionId(NamedTuple):
    correlation_id: int
    session_id: int


Command = (
    AddPublication
    | RemovePublication
    | AddExclusivePublication
    | AddSubscription
    | RemoveSubscription
    | ClientKeepalive
    | AddDestination
    | RemoveDestination
    | AddCounter
    | RemoveCounter
    | ClientClose
    | AddReceiveDestination
    | RemoveReceiveDestination
    | TerminateDriver
    | AddStaticCounter
    | RejectImage
    | RemoveDestinationById
    | GetNextAvailableSessionId
)
Response = (
    OnError
    | OnAvailableImage
    | OnPublicationReady
    | OnOperationSuccess
    | OnUnavailableImage
    | OnExclusivePublicationReady
    | OnSubscriptionReady
    | OnCounterReady
    | OnUnavailableCounter
    | OnClientTimeout
    | OnStaticCounter
    | OnPublicationError
    | OnNextAvailableSessionId
)
Answer = (
    OnPublicationReady
    | OnExclusivePublicationReady
    | OnOperationSuccess
    | OnSubscriptionReady
    | OnCounterReady
    | OnStaticCounter
    | OnNextAvailableSessionId
)
"""What answers one command."""


# --- layouts ----------------------------------------------------------------------------------------------------------

_KINDS = {"q": Struct("<q"), "Q": Struct("<Q"), "i": Struct("<i"), "h": Struct("<h"), "H": Struct("<H")}
_ADDRESS_LENGTH = 16


class Layout(NamedTuple):
    """`kinds` has one letter a field: q Q i h H integers, s text, b bytes, a a 16-byte address, 4 aligns to 4.

    `length_min` is the shortest payload written; `optional` counts trailing integers that an old peer leaves out.
    """

    type_id: int
    kinds: str
    length_min: int = 0
    optional: int = 0


_COMMAND_LAYOUTS: dict[type, Layout] = {
    AddPublication: Layout(0x01, "qqis"),
    RemovePublication: Layout(0x02, "qqqQ", optional=1),
    AddExclusivePublication: Layout(0x03, "qqis"),
    AddSubscription: Layout(0x04, "qqqis"),
    RemoveSubscription: Layout(0x05, "qqq"),
    ClientKeepalive: Layout(0x06, "qq"),
    AddDestination: Layout(0x07, "qqqs"),
    RemoveDestination: Layout(0x08, "qqqs"),
    AddCounter: Layout(0x09, "qqib4s"),
    RemoveCounter: Layout(0x0A, "qqq"),
    ClientClose: Layout(0x0B, "qq"),
    AddReceiveDestination: Layout(0x0C, "qqqs"),
    RemoveReceiveDestination: Layout(0x0D, "qqqs"),
    TerminateDriver: Layout(0x0E, "qqb"),
    AddStaticCounter: Layout(0x0F, "qqqib4s"),
    RejectImage: Layout(0x10, "qqqqs", length_min=40),
    RemoveDestinationById: Layout(0x11, "qqqq"),
    GetNextAvailableSessionId: Layout(0x12, "qqi"),
}
_RESPONSE_LAYOUTS: dict[type, Layout] = {
    OnError: Layout(0x0F01, "qis"),
    OnAvailableImage: Layout(0x0F02, "qiiqis4s"),
    OnPublicationReady: Layout(0x0F03, "qqiiiis"),
    OnOperationSuccess: Layout(0x0F04, "q"),
    OnUnavailableImage: Layout(0x0F05, "qqis"),
    OnExclusivePublicationReady: Layout(0x0F06, "qqiiiis"),
    OnSubscriptionReady: Layout(0x0F07, "qi"),
    OnCounterReady: Layout(0x0F08, "qi"),
    OnUnavailableCounter: Layout(0x0F09, "qi"),
    OnClientTimeout: Layout(0x0F0A, "q"),
    OnStaticCounter: Layout(0x0F0B, "qi"),
    OnPublicationError: Layout(0x0F0C, "qqiiqqhHais", length_min=72),
    OnNextAvailableSessionId: Layout(0x0F0D, "qi"),
}
_LAYOUTS = {**_COMMAND_LAYOUTS, **_RESPONSE_LAYOUTS}
_COMMANDS = {layout.type_id: cls for cls, layout in _COMMAND_LAYOUTS.items()}
_RESPONSES = {layout.type_id: cls for cls, layout in _RESPONSE_LAYOUTS.items()}


def type_id_of(message: Command | Response | type) -> int:
    """Return the record type of a command or response, or of its class."""
    cls = message if isinstance(message, type) else type(message)
    return _LAYOUTS[cls].type_id


def encode(message: Command | Response) -> bytes:
    """Return the payload of a command or response. Raises UnicodeEncodeError for text that is not ASCII."""
    layout = _LAYOUTS[type(message)]
    out = bytearray()
    values: Iterator[Any] = iter(message)
    for kind in layout.kinds:
        if kind == "4":
            out += bytes(-len(out) % 4)
            continue
        value = next(values)
        if kind in "sb":
            text = value.encode("ascii") if kind == "s" else bytes(value)
            out += _KINDS["i"].pack(len(text)) + text
        elif kind == "a":
            out += bytes(value).ljust(_ADDRESS_LENGTH, b"\0")
        else:
            out += _KINDS[kind].pack(value)
    return bytes(out.ljust(layout.length_min, b"\0"))


def decode_command(type_id: int, payload: bytes) -> Command | None:
    """Return the command of a ring record, or None when the type is unknown.

    Raises DecodeError when it is malformed.
    """
    command: Command | None = _decode(_COMMANDS.get(type_id), payload)
    return command


def decode_response(type_id: int, payload: bytes) -> Response | None:
    """Return the response of a broadcast record, or None when the type is unknown.

    Raises DecodeError when it is malformed.
    """
    response: Response | None = _decode(_RESPONSES.get(type_id), payload)
    return response


def _decode(cls: type | None, payload: bytes) -> Any:
    if cls is None:
        return None
    layout = _LAYOUTS[cls]
    values: list[Any] = []
    offset = 0
    for position, kind in enumerate(layout.kinds):
        if kind == "4":
            offset += -offset % 4
            continue
        if len(payload) == offset and position >= len(layout.kinds) - layout.optional:
            break
        value, offset = _decode_field(cls, kind, payload, offset)
        values.append(value)
    return cls(*values)


def _decode_field(cls: type, kind: str, payload: bytes, offset: int) -> tuple[Any, int]:
    """Return one field, and the offset of the next."""
    if kind == "a":
        end = offset + _ADDRESS_LENGTH
        return _slice(cls, payload, offset, end), end
    number = _KINDS["i" if kind in "sb" else kind]
    end = offset + number.size
    (value,) = number.unpack(_slice(cls, payload, offset, end))
    if kind not in "sb":
        return value, end
    text = _slice(cls, payload, end, end + value)
    if kind == "b":
        return text, end + value
    if not text.isascii():
        raise DecodeError(f"{cls.__name__} has text that is not ASCII at offset {end}")
    return text.decode("ascii"), end + value


def _slice(cls: type, payload: bytes, start: int, end: int) -> bytes:
    if end < start or end > len(payload):
        raise DecodeError(f"{cls.__name__} of {len(payload)} bytes is malformed: a field runs from {start} to {end}")
    return payload[start:end]
