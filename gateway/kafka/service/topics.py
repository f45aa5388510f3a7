"""The service of a cluster that Kafka's clients use: it publishes what is produced, and keeps what groups have read.

ordo node --config node.toml --service ordo:Topics
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from ordo.gateway.kafka.service.coordinators import Coordinators
from ordo.gateway.kafka.service.orders import (
    METADATA_LENGTH_MAX,
    NO_PRODUCER,
    NOT_A_QUERY,
    SEQUENCES,
    Append,
    KafkaError,
    OrderAnswer,
    OrderKind,
    decode_append,
    decode_fields,
    encode_answer,
    split_order,
)
from ordo.gateway.kafka.service.payloads import measure
from ordo.gateway.kafka.service.producers import Producers, Run
from ordo.runtime.errors import DecodeError, Reject
from ordo.runtime.native.cluster_time import TimeUnit
from ordo.service_api.cluster import ClientSession, Cluster
from ordo.service_api.feeds import PAYLOAD_BYTES_MAX, RECORD_BYTES_MAX, TOPICS_MAX, is_topic
from ordo.service_api.native import Header
from ordo.service_api.service import ClusteredService
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter

GROUPS_MAX = 1_024
GROUP_LENGTH_MAX = 255
COMMITS_MAX = TOPICS_MAX
LEASE_MS_MIN, LEASE_MS_MAX = 1_000, 60_000
NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
ADDRESS = re.compile(r"[\w.:\[\]-]{1,255}:(\d{1,5})", re.ASCII)
PORT_MAX = 65_535
SNAPSHOT_END = b'["end"]'
Offsets = dict[str, tuple[int, str]]


class Topics(ClusteredService):
    """Publishes each record that is produced to its topic. A service of your own derives from it.

    `take_record` is what happens to a record; whatever is published goes by `publish`, which keeps count for consumers.
    """

    cluster: Cluster

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        """Begin, from a snapshot if there is one: what was written to it after `on_take_snapshot` is left to read."""
        self.cluster = cluster
        self._last: dict[str, int] = {}
        self._producers = Producers()
        self._next_producer = 1
        self._groups: dict[str, Offsets] = {}
        self._coordinators = Coordinators()
        if snapshot is not None:
            for one in snapshot.messages():
                if one == SNAPSHOT_END:
                    break  # what follows is that of a service made of this one
                self._restore(json.loads(one))

    def take_record(self, topic: str, payload: bytes) -> int:
        """Execute a record that was produced, and return its number in the topic; 0 if it is not published there."""
        return self.publish(topic, payload)

    def publish(self, topic: str, payload: bytes) -> int:
        """Publish to a topic, and return the message's number."""
        self._last[topic] = number = self.cluster.publish(topic, payload)
        return number

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        """Execute an order of the door. Anything else is in the log, and nothing happens."""
        try:
            order = split_order(payload)
            if order is None:
                return None
            kind, body = order
            if kind is OrderKind.APPEND:
                return self._append(decode_append(body))
            fields = decode_fields(body)
        except DecodeError as error:
            raise Reject(error.message) from None
        return encode_answer(*self._execute(kind, fields, timestamp))

    def _execute(self, kind: OrderKind, fields: dict[str, object], now: int) -> OrderAnswer:
        """Execute an order other than an append. Raises Reject."""
        if kind is OrderKind.NEW_PRODUCER:
            self._next_producer += 1
            return OrderAnswer(KafkaError.NONE, self._next_producer - 1)
        if kind is OrderKind.CREATE:
            return OrderAnswer(self._create(fields.get("topic")), -1)
        if kind is OrderKind.COMMIT:
            return OrderAnswer(self._commit(fields, now), -1)
        if kind is OrderKind.DELETE_GROUP:
            return OrderAnswer(self._delete_group(fields, now), -1)
        if kind in (OrderKind.REGISTER, OrderKind.RENEW, OrderKind.LEAVE, OrderKind.COORDINATE):
            return self._execute_door(kind, fields, now)
        raise Reject(f"{kind.name} is a query")

    def _execute_door(self, kind: OrderKind, fields: dict[str, object], now: int) -> OrderAnswer:
        """Execute what a door asks for itself. Raises Reject."""
        match kind, fields:
            case OrderKind.REGISTER, _:
                address, process, network, length_ms = _check_door(fields)
                length = (self.cluster.time_unit or TimeUnit.MILLIS).duration(milliseconds=length_ms)
                return self._coordinators.register(address, process, network, length, now)
            case OrderKind.RENEW, {"lease": int(lease), "released": list(released)}:
                return self._coordinators.renew(lease, [_check_release(one) for one in released], now)
            case OrderKind.LEAVE, {"lease": int(lease)}:
                return self._coordinators.leave(lease)
            case OrderKind.COORDINATE, {"lease": int(lease), "group": str(group)}:
                if not 0 < len(group) <= GROUP_LENGTH_MAX:
                    return OrderAnswer(KafkaError.INVALID_GROUP_ID, -1)
                return self._coordinators.coordinate(group, lease, now)
        raise Reject(f"an order is damaged: {kind.name}")

    def _append(self, append: Append) -> bytes:
        if append.topic not in self._last:
            return encode_answer(KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
        longest, total = measure(append.payloads)
        if longest > PAYLOAD_BYTES_MAX or total > RECORD_BYTES_MAX // 2:
            return encode_answer(KafkaError.MESSAGE_TOO_LARGE)
        if append.producer_id == NO_PRODUCER:
            return encode_answer(KafkaError.NONE, self._publish_all(append.topic, append.payloads))
        return self._append_once(append)

    def _append_once(self, append: Append) -> bytes:
        topic, producer_id, epoch, sequence, payloads = (
            append.topic,
            append.producer_id,
            append.epoch,
            append.sequence,
            append.payloads,
        )
        if not 0 < producer_id < self._next_producer:
            return encode_answer(KafkaError.UNKNOWN_PRODUCER_ID)
        verdict = self._producers.judge(producer_id, epoch, topic, sequence, len(payloads))
        if verdict.error or verdict.skipped == len(payloads):
            return encode_answer(verdict.error, verdict.number)
        rest = payloads[verdict.skipped :]
        number = self._publish_all(topic, rest)
        self._producers.append(producer_id, epoch, topic, (sequence + verdict.skipped) % SEQUENCES, len(rest), number)
        return encode_answer(KafkaError.NONE, verdict.number if verdict.skipped else number)

    def _publish_all(self, topic: str, payloads: Sequence[bytes]) -> int:
        if getattr(self.take_record, "__func__", None) is TAKE and getattr(self.publish, "__func__", None) is PUBLISH:
            first = self.cluster.publish(topic, *payloads)
            self._last[topic] = first + len(payloads) - 1
            return first
        first = 0
        for payload in payloads:
            number = self.take_record(topic, payload)
            first = first or number
        return first or -1

    def _create(self, topic: object) -> int:
        if not isinstance(topic, str) or not is_topic(topic):
            return KafkaError.INVALID_TOPIC
        if topic in self._last:
            return KafkaError.TOPIC_ALREADY_EXISTS
        if len(self._last) >= TOPICS_MAX:
            return KafkaError.POLICY_VIOLATION
        self._last[topic] = 0
        return KafkaError.NONE

    def _delete_group(self, fields: dict[str, object], now: int) -> int:
        group = str(fields.get("group"))
        error = self._coordinators.judge(group, _check_epoch(fields), now)
        if not error and self._groups.pop(group, None) is None:
            return KafkaError.GROUP_ID_NOT_FOUND
        return error

    def _commit(self, fields: dict[str, object], now: int) -> int:
        group, offsets, epoch = fields.get("group"), fields.get("offsets"), _check_epoch(fields)
        if not isinstance(group, str) or not 0 < len(group) <= GROUP_LENGTH_MAX:
            return KafkaError.INVALID_GROUP_ID
        if not isinstance(offsets, list) or len(offsets) > COMMITS_MAX:
            raise Reject("an order is damaged: the offsets of a group")
        taken: Offsets = {}
        for one in offsets:
            topic, offset, metadata = _check_offset(one)
            if topic not in self._last:
                return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
            if len(metadata) > METADATA_LENGTH_MAX:
                return KafkaError.OFFSET_METADATA_TOO_LARGE
            taken[topic] = offset, metadata
        if group not in self._groups and len(self._groups) >= GROUPS_MAX:
            return KafkaError.POLICY_VIOLATION
        if error := self._coordinators.judge(group, epoch, now):
            return error
        self._groups.setdefault(group, {}).update(taken)
        return KafkaError.NONE

    def on_query(self, payload: bytes) -> bytes:
        """Answer a query of the door. Raises Reject for others."""
        try:
            order = split_order(payload)
            kind, body = order or (None, b"")
            fields = decode_fields(body) if order else {}
        except DecodeError as error:
            raise Reject(error.message) from None
        found: object
        if kind is OrderKind.TOPICS:
            found = self._last
        elif kind is OrderKind.OFFSETS:
            found = self._groups.get(str(fields.get("group")), {})
        elif kind is OrderKind.GROUPS:
            found = list(self._groups)
        elif kind is OrderKind.DOORS:
            found = self._coordinators.doors(self.cluster.time)
        elif kind is OrderKind.COORDINATORS:
            found = self._coordinators.held(self.cluster.time)
        else:
            raise Reject(NOT_A_QUERY)
        return json.dumps(found, separators=(",", ":")).encode()

    def on_time_unit(self, former: TimeUnit, unit: TimeUnit) -> None:
        """Give the leases of doors the log's new unit of time; what else the service keeps has no times."""
        self._coordinators.rescale(former, unit)

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        """Write one line of JSON for each part of the state, and one that ends them."""

        def write(*values: object) -> None:
            writer.write_message(json.dumps(values, separators=(",", ":")).encode())

        write("next", self._next_producer)
        for topic, number in self._last.items():
            write("topic", topic, number)
        for values in self._producers.state():
            write("producer", *values)
        for group, offsets in self._groups.items():
            write("group", group)
            for topic, (offset, metadata) in offsets.items():
                write("offset", group, topic, offset, metadata)
        for line in self._coordinators.state():
            write(*line)
        writer.write_message(SNAPSHOT_END)

    def _restore(self, line: list[object]) -> None:
        match line:
            case ["next", int(number)]:
                self._next_producer = number
            case ["topic", str(topic), int(number)]:
                self._last[topic] = number
            case ["producer", int(producer_id), str(topic), int(epoch), list(runs)]:
                self._producers.restore(producer_id, topic, epoch, [Run(*one) for one in runs])
            case ["group", str(group)]:
                self._groups[group] = {}
            case ["offset", str(group), str(topic), int(offset), str(metadata)]:
                self._groups[group][topic] = offset, metadata
            case _:
                self._coordinators.restore(line)


TAKE, PUBLISH = Topics.take_record, Topics.publish
"""Where a service overrides neither, nothing happens to a record but that it is published."""


def is_door_address(address: str) -> bool:
    """Return whether a door may be registered with an address."""
    found = ADDRESS.fullmatch(address)
    return found is not None and 0 < int(found[1]) <= PORT_MAX


def _check_offset(one: object) -> tuple[str, int, str]:
    """Return topic, offset and metadata of a commit. Raises Reject."""
    match one:
        case [str(topic), int(offset), str(metadata)] if -1 <= offset < 1 << 63:
            return topic, offset, metadata
    raise Reject("an order is damaged: the offset of a group")


def _check_epoch(fields: dict[str, object]) -> int | None:
    """Return the epoch of what is done for a group; None from a door that knows none. Raises Reject."""
    match fields.get("epoch"):
        case None:
            return None
        case int(epoch):
            return epoch
    raise Reject("an order is damaged: the epoch of a group")


def _check_door(fields: dict[str, object]) -> tuple[str, str, str, int]:
    """Return a door's address, process, network, and the milliseconds of its lease. Raises Reject."""
    match fields:
        case {"address": str(address), "process": str(process), "network": str(network), "lease_ms": int(length)}:
            is_sound = is_door_address(address) and NAME.fullmatch(process) and NAME.fullmatch(network)
            if is_sound and LEASE_MS_MIN <= length <= LEASE_MS_MAX:
                return address, process, network, length
    raise Reject("an order is damaged: the door's address, name, network or lease")


def _check_release(one: object) -> tuple[str, int]:
    """Return a group and its epoch. Raises Reject."""
    match one:
        case [str(group), int(epoch)]:
            return group, epoch
    raise Reject("an order is damaged: the groups that a door lets go")
