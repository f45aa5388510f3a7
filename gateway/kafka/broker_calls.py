"""What clients ask about the door itself, its topics and producers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from ordo.gateway.kafka.caller import PARTITION, Caller, error_of_order, is_final
from ordo.gateway.kafka.door_lease import DoorLease
from ordo.gateway.kafka.log_topic import LOG_TOPIC
from ordo.gateway.kafka.service.orders import KafkaError, OrderKind, encode_order
from ordo.gateway.kafka.settings import KafkaSettings
from ordo.gateway.kafka.topic_table import TopicTable
from ordo.gateway.kafka.wire.messages import VERSIONS
from ordo.runtime.errors import OrdoError
from ordo.service_api.feeds import PAYLOAD_BYTES_MAX

Values = Mapping[str, object]
Configs = tuple[tuple[str, str, int], ...]
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
STRING, BOOLEAN, NUMBER, LIST = 2, 1, 5, 7
TOPICS_ASKED_MAX = 1_024
GROUPS_ASKED_MAX = 256
TOPIC_CONFIGS: Configs = (
    ("cleanup.policy", "delete", LIST),
    ("max.message.bytes", str(PAYLOAD_BYTES_MAX), NUMBER),
    ("message.timestamp.type", "CreateTime", STRING),
    ("min.insync.replicas", "1", NUMBER),
    ("retention.bytes", "-1", NUMBER),
    ("retention.ms", "-1", NUMBER),
)
BROKER_CONFIGS: Configs = (
    ("auto.create.topics.enable", "", BOOLEAN),
    ("log.cleanup.policy", "delete", LIST),
    ("message.max.bytes", str(PAYLOAD_BYTES_MAX), NUMBER),
    ("num.partitions", "1", NUMBER),
)
NO_CONFIGS: Configs = ()
BATCH_VERSION = 4
"""From this version on FindCoordinator asks for several groups at once."""
NOT_FOR_TRANSACTIONS = "transactions are not supported"


def api_versions(error: int = KafkaError.NONE) -> Values:
    """Return which requests are answered, in which versions."""
    keys = [
        {"api_key": int(api), "min_version": lowest, "max_version": highest}
        for api, (lowest, highest) in VERSIONS.items()
    ]
    return {"error_code": error, "api_keys": keys}


class BrokerCalls:
    """Carries out these requests."""

    def __init__(self, settings: KafkaSettings, topics: TopicTable, lease: DoorLease) -> None:
        self._settings = settings
        self._topics = topics
        self._lease = lease

    async def metadata(self, caller: Caller, request: Any, version: int) -> Values:
        """Return the doors as brokers, and which of them leads the one partition of each topic.

        Raises OrdoError where nothing is known: before this door has a place among the doors, and where all topics are
        asked for and none is known, for no topics at all would be an answer, too.
        """
        await self._lease.await_place()
        is_all = request.topics is None or (version == 0 and not request.topics)
        asked = [] if is_all else [one.name for one in request.topics[:TOPICS_ASKED_MAX]]
        may_create = self._settings.creates_topics and getattr(request, "allow_auto_topic_creation", True)
        try:
            await self._topics.refresh(caller.session)
            names = self._topics.names if is_all else asked
            errors = await self._errors_of(caller, names, may_create)
        except OrdoError as trouble:
            names = self._topics.names if is_all else asked
            if is_all and not names:
                raise
            errors = [_error_of_metadata(trouble)] * len(names)
        doors = self._lease.doors(caller)  # from here on nothing is awaited, and no door comes or goes
        return {
            "brokers": doors.brokers,
            "cluster_id": "ordo",
            "controller_id": doors.node_id,
            "topics": [
                {
                    "error_code": error,
                    "name": name,
                    "is_internal": name == LOG_TOPIC,
                    "partitions": [] if error else [_partition(doors.leader_of(name))],
                }
                for name, error in zip(names, errors, strict=True)
            ],
        }

    async def _errors_of(self, caller: Caller, names: Sequence[str], may_create: bool) -> list[int]:
        """Return the error of each topic. One that is not there yet is created, if it may be."""
        errors: list[int] = []
        for name in names:
            error: int = KafkaError.NONE if name in self._topics else KafkaError.UNKNOWN_TOPIC_OR_PARTITION
            if error and may_create:
                try:
                    error = await self._topics.create(caller.session, name)
                except OrdoError as trouble:  # the client may have no right to; others of the topics may be there
                    error = _error_of_metadata(trouble)
                    may_create = False
            errors.append(KafkaError(error if error != KafkaError.TOPIC_ALREADY_EXISTS else 0))
        return errors

    async def create_topics(self, caller: Caller, request: Any) -> Values:
        """Create topics with one partition."""
        results = []
        for topic in request.topics[:TOPICS_ASKED_MAX]:
            error, text = KafkaError.NONE, ""
            is_strange = topic.num_partitions not in (-1, 1) or len(topic.assignments) > 1
            if is_strange:
                error, text = KafkaError.INVALID_PARTITIONS, "a topic has one partition"
            elif topic.configs:
                error, text = KafkaError.INVALID_CONFIG, "topics have no settings of their own"
            elif not getattr(request, "validate_only", False):
                try:
                    error = KafkaError(await self._topics.create(caller.session, topic.name))
                except OrdoError as trouble:
                    error, text = KafkaError(error_of_order(trouble)), trouble.message
            elif topic.name in self._topics:
                error = KafkaError.TOPIC_ALREADY_EXISTS
            results.append(
                {
                    "name": topic.name,
                    "error_code": error,
                    "error_message": text or None,
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "configs": None,
                }
            )
        return {"topics": results}

    async def find_coordinator(self, caller: Caller, request: Any, version: int) -> Values:
        """Return the door that coordinates each group; there is none of transactions."""
        is_batch = version >= BATCH_VERSION
        keys = request.coordinator_keys[:GROUPS_ASKED_MAX] if is_batch else [request.key]
        if getattr(request, "key_type", 0) == 0:
            found = await asyncio.gather(*(self._lease.find(caller, one) for one in keys))
        else:
            error = KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            text = NOT_FOR_TRANSACTIONS
            found = [{"error_code": error, "error_message": text, "node_id": -1, "host": "", "port": -1}] * len(keys)
        if not is_batch:
            return found[0]
        return {"coordinators": [{**one, "key": key} for one, key in zip(found, keys, strict=True)]}

    async def init_producer_id(self, caller: Caller, request: Any) -> Values:
        """Give a producer an id."""
        if request.transactional_id is not None:
            error: int = KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return {"error_code": error, "producer_id": -1, "producer_epoch": -1}
        try:
            answer = await caller.session.order(encode_order(OrderKind.NEW_PRODUCER))
        except OrdoError as trouble:
            is_over = is_final(trouble)  # of the errors that pass, this is the one that all clients try again
            error = KafkaError.INVALID_REQUEST if is_over else KafkaError.COORDINATOR_LOAD_IN_PROGRESS
            return {"error_code": error, "producer_id": -1, "producer_epoch": -1}
        return {"error_code": answer.error, "producer_id": answer.number, "producer_epoch": 0}

    async def describe_configs(self, caller: Caller, request: Any) -> Values:
        """Return the few settings that tools look at."""
        results = []
        for one in request.resources[:TOPICS_ASKED_MAX]:
            error, found = KafkaError.NONE, TOPIC_CONFIGS
            if one.resource_type == BROKER_RESOURCE:
                creates = str(self._settings.creates_topics).lower()
                found = tuple((name, value or creates, kind) for name, value, kind in BROKER_CONFIGS)
            elif one.resource_type != TOPIC_RESOURCE:
                error, found = KafkaError.INVALID_REQUEST, NO_CONFIGS
            elif lack := await self._lack_of(caller, one.resource_name):
                error, found = KafkaError(lack), NO_CONFIGS
            keys = one.configuration_keys
            configs = [
                {"name": name, "value": value, "read_only": True, "config_source": 5, "config_type": kind}
                for name, value, kind in found
                if keys is None or name in keys
            ]
            results.append(
                {
                    "error_code": error,
                    "error_message": None,
                    "resource_type": one.resource_type,
                    "resource_name": one.resource_name,
                    "configs": configs,
                }
            )
        return {"results": results}

    async def _lack_of(self, caller: Caller, topic: str) -> int:
        """Return why nothing can be said of a topic."""
        try:
            is_known = await self._topics.has(caller.session, topic)
        except OrdoError as trouble:
            return error_of_order(trouble)
        return KafkaError.NONE if is_known else KafkaError.UNKNOWN_TOPIC_OR_PARTITION


def _error_of_metadata(trouble: OrdoError) -> int:
    return KafkaError.INVALID_REQUEST if is_final(trouble) else KafkaError.LEADER_NOT_AVAILABLE


def _partition(leader: int) -> Values:
    return {
        "error_code": KafkaError.NONE,
        "partition_index": PARTITION,
        "leader_id": leader,
        "replica_nodes": [leader],
        "isr_nodes": [leader],
    }
