"""What the door asks the service `ordo:Topics`, as bytes: orders, which are requests in the log, and queries.

An append, which is the bulk of the traffic:

    MAGIC, 1 byte APPEND, then (little-endian)
    producer_id int64 | epoch int16 | sequence int32 | count int32 | topic_length uint8 | topic
    then `count` times: length uint32 | payload

`producer_id` is -1 for a producer that is not idempotent. All others are MAGIC, a byte for the kind, and JSON. An order
is answered with an error code of Kafka (0: none) and a number.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from ordo.gateway.kafka.service.payloads import unpack_payloads
from ordo.runtime.errors import DecodeError

MAGIC = b"\xf0ordo.topics\x01"
NO_PRODUCER = -1
_APPEND = struct.Struct("<qhiiB")
_LENGTH = struct.Struct("<I")
_ANSWER = struct.Struct("<hq")
SEQUENCES = 1 << 31
"""A producer's records in one topic are counted from 0 to this, and from 0 again."""
METADATA_LENGTH_MAX = 1_024
"""Characters that a group may keep with an offset."""
OTHER_SERVICE = "the cluster's service does not answer the door: it must be ordo:Topics, or made of it"
UNKNOWN_KIND = "an order of a kind that this release does not know"
NOT_A_QUERY = "not a query of ordo kafka"


class OrderKind(IntEnum):
    """What is asked."""

    APPEND = 1
    CREATE = 2
    NEW_PRODUCER = 3
    COMMIT = 4
    DELETE_GROUP = 5
    REGISTER = 6
    """A door asks for a lease."""
    RENEW = 7
    LEAVE = 8
    COORDINATE = 9
    """A door asks for a group."""
    TOPICS = 16
    """A query: the number of the last message of each topic."""
    OFFSETS = 17
    """A query: what a group has committed."""
    GROUPS = 18
    """A query: which groups have committed something."""
    DOORS = 19
    """A query: the doors of the cluster."""
    COORDINATORS = 20
    """A query: which door coordinates each group."""


_APPEND_BEGIN = MAGIC + bytes((OrderKind.APPEND,))


class KafkaError(IntEnum):
    """The error codes of Kafka's protocol that are given here."""

    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC = 17
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    UNSUPPORTED_COMPRESSION_TYPE = 76
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    INVALID_RECORD = 87


class Append(NamedTuple):
    """Consecutive records of one producer for one topic."""

    topic: str
    producer_id: int
    epoch: int
    sequence: int
    """The first record's; not used without a producer id."""
    payloads: Sequence[bytes]


class OrderAnswer(NamedTuple):
    """What became of an order."""

    error: int
    number: int
    """The number of the first message in its topic, or the new producer's id; -1 for none."""


def encode_parts(topic: str, producer: tuple[int, int, int], parts: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """Yield the orders that append parts of a batch: how many payloads, and these with their lengths before them.

    `producer`: id, epoch, and sequence of the first record.
    """
    name, (producer_id, epoch, sequence) = topic.encode(), producer
    for count, packed in parts:
        head = _APPEND.pack(producer_id, epoch, sequence, count, len(name))
        yield b"".join((_APPEND_BEGIN, head, name, packed))
        if producer_id != NO_PRODUCER:
            sequence = (sequence + count) % SEQUENCES


def name_of_append(order: bytes) -> bytes | None:
    """Return what is the same in an append and the one that is sent again for it; None where nobody can tell.

    That is producer, epoch, sequence, count and topic, by which the service knows it, too.
    """
    begin = len(_APPEND_BEGIN)
    if not order.startswith(_APPEND_BEGIN) or len(order) < begin + _APPEND.size:
        return None
    producer_id, _, _, _, topic_length = _APPEND.unpack_from(order, begin)
    return None if producer_id == NO_PRODUCER else order[begin : begin + _APPEND.size + topic_length]


def decode_append(body: bytes) -> Append:
    """Decode what follows the kind. Raises DecodeError."""
    try:
        producer_id, epoch, sequence, count, topic_length = _APPEND.unpack_from(body)
        offset = _APPEND.size + topic_length
        topic = body[_APPEND.size : offset].decode()
        payloads, offset = unpack_payloads(body, offset)
        if offset < len(body):
            _LENGTH.unpack_from(body, offset)  # it is cut: members of all releases reject it with the same text
    except (struct.error, UnicodeDecodeError) as error:
        raise DecodeError(f"an append is damaged: {error}") from None
    if offset != len(body) or len(payloads) != count or count < 1 or sequence < 0 or epoch < 0:
        raise DecodeError(f"an append is damaged: {count=} {sequence=} {epoch=} length={len(body)}")
    return Append(topic, producer_id, epoch, sequence, payloads)


def encode_order(kind: OrderKind, **fields: object) -> bytes:
    """Return the bytes of an order or query other than an append."""
    return MAGIC + bytes((kind,)) + json.dumps(fields, separators=(",", ":")).encode()


def decode_fields(body: bytes) -> dict[str, Any]:
    """Decode what follows the kind of an order other than an append. Raises DecodeError."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"an order is damaged: {error}") from None
    if not isinstance(fields, dict):
        raise DecodeError("an order is damaged: it has no fields")
    return fields


def split_order(payload: bytes) -> tuple[OrderKind, bytes] | None:
    """Return the kind of an order or query and what follows; None for whatever else. Raises DecodeError."""
    if not payload.startswith(MAGIC):
        return None
    try:
        kind = OrderKind(payload[len(MAGIC)])
    except (IndexError, ValueError):
        raise DecodeError(UNKNOWN_KIND) from None
    return kind, payload[len(MAGIC) + 1 :]


def encode_answer(error: int, number: int = -1) -> bytes:
    """Return the answer to an order."""
    return _ANSWER.pack(error, number)


def decode_answer(payload: bytes) -> OrderAnswer:
    """Raise DecodeError where the service is none that takes orders."""
    if len(payload) != _ANSWER.size:
        raise DecodeError(OTHER_SERVICE)
    return OrderAnswer(*_ANSWER.unpack(payload))


def decode_reply(payload: bytes) -> object:
    """Decode the answer to a query. Raises DecodeError where the service is none that takes orders."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        raise DecodeError(OTHER_SERVICE) from None
