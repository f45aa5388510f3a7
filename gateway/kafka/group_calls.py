"""Requests of consumer groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ordo.gateway.kafka.caller import PARTITION, Caller, error_of_group, is_final
from ordo.gateway.kafka.door_lease import Coordinator, DoorLease
from ordo.gateway.kafka.groups.groups import GROUPS_MAX, Groups
from ordo.gateway.kafka.groups.members import Group, GroupState, Join, Reply, join_failure
from ordo.gateway.kafka.log_topic import LOG_TOPIC
from ordo.gateway.kafka.service.orders import METADATA_LENGTH_MAX, KafkaError, OrderKind, encode_order
from ordo.runtime.errors import OrdoError

Values = Mapping[str, object]
Offset = tuple[str, int, str]
"""Topic, offset, metadata."""
JOIN_AGAIN_VERSION = 4
"""From this version on a member is told its id before it joins."""


class GroupCalls:
    """Carries them out: membership here, what was read in the cluster.

    Only the groups that this door coordinates have members here; of others, clients are told to look for theirs.
    """

    def __init__(self, groups: Groups, lease: DoorLease) -> None:
        self._groups = groups
        self._lease = lease
        self._was_held = True
        self._loop = asyncio.get_running_loop()

    def tick(self) -> None:
        """Run what is due by time. While the lease may be over, nothing is."""
        if self._lease.is_held:
            if not self._was_held:
                self._groups.extend(self._loop.time())
            self._groups.tick(self._loop.time())
        self._was_held = self._lease.is_held

    async def _answer(self, begin: Callable[[Reply], None]) -> Values:
        """Return what `begin` replies, now or later."""
        future: asyncio.Future[Values] = self._loop.create_future()

        def reply(values: Values) -> None:
            if not future.done():
                future.set_result(values)

        begin(reply)
        return await future

    async def join(self, caller: Caller, request: Any, version: int) -> Values:
        """Join a group."""
        session_s = request.session_timeout.total_seconds()
        rebalance = getattr(request, "rebalance_timeout", request.session_timeout)
        join = Join(
            request.member_id,
            _instance_of(request),
            request.protocol_type,
            [(one.name, one.metadata) for one in request.protocols],
            session_s,
            max(rebalance.total_seconds(), session_s),
            caller.client_id,
            caller.host,
            version >= JOIN_AGAIN_VERSION,
        )
        found = await self._lease.claim(request.group_id)
        if not found.epoch:
            return join_failure(found.error, request.member_id)
        now_s = self._loop.time()
        return await self._answer(lambda reply: self._groups.join(request.group_id, join, now_s, reply))

    async def sync(self, request: Any) -> Values:
        """Return a member's assignment."""
        if not self._lease.epoch_of(request.group_id):
            return {"error_code": KafkaError.NOT_COORDINATOR}
        assignments = {one.member_id: one.assignment for one in request.assignments}
        now_s, group_id = self._loop.time(), request.group_id
        return await self._answer(
            lambda reply: self._groups.sync(
                group_id, request.member_id, request.generation_id, assignments, now_s, reply, _instance_of(request)
            )
        )

    def heartbeat(self, request: Any) -> Values:
        """Keep a member."""
        if not self._lease.epoch_of(request.group_id):
            return {"error_code": KafkaError.NOT_COORDINATOR}
        error = self._groups.heartbeat(
            request.group_id, request.member_id, request.generation_id, self._loop.time(), _instance_of(request)
        )
        return {"error_code": error}

    def leave(self, request: Any) -> Values:
        """Take members out."""
        if not self._lease.epoch_of(request.group_id):
            return {"error_code": KafkaError.NOT_COORDINATOR}
        now_s = self._loop.time()
        members = getattr(request, "members", None)
        if members is None:
            return {"error_code": self._groups.leave(request.group_id, request.member_id, None, now_s)}
        results = [
            {
                "member_id": one.member_id,
                "group_instance_id": one.group_instance_id,
                "error_code": self._groups.leave(request.group_id, one.member_id, one.group_instance_id, now_s),
            }
            for one in members
        ]
        return {"error_code": KafkaError.NONE, "members": results}

    async def commit(self, caller: Caller, request: Any) -> Values:
        """Keep in the cluster what a group has read."""
        wanted = [(topic, one) for topic in request.topics for one in topic.partitions]
        is_long = any(len(one.committed_metadata or "") > METADATA_LENGTH_MAX for _, one in wanted)
        found = (
            Coordinator(KafkaError.OFFSET_METADATA_TOO_LARGE) if is_long else await self._lease.claim(request.group_id)
        )
        error = found.error or self._groups.commit_error(
            request.group_id,
            request.member_id,
            request.generation_id_or_member_epoch,
            self._loop.time(),
            _instance_of(request),
        )
        offsets: list[Offset] = [
            (topic.name, one.committed_offset, one.committed_metadata or "")
            for topic, one in wanted
            if one.partition_index == PARTITION
        ]
        of_log = error
        if not error and offsets:
            error, of_log = await self._commit(caller, request.group_id, offsets, found.epoch)
        topics = []
        for topic in request.topics:
            code = of_log if topic.name == LOG_TOPIC else error
            partitions = [
                {
                    "partition_index": one.partition_index,
                    "error_code": code if one.partition_index == PARTITION else KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
                }
                for one in topic.partitions
            ]
            topics.append({"name": topic.name, "partitions": partitions})
        return {"topics": topics}

    async def _commit(self, caller: Caller, group: str, offsets: list[Offset], epoch: int) -> tuple[int, int]:
        """Have offsets kept; return the error of topics, and that of the log.

        For a topic that the cluster does not know, it keeps nothing of a commit: then that of the log is kept alone.
        """

        async def keep(kept: list[Offset]) -> int:
            order = encode_order(OrderKind.COMMIT, group=group, offsets=kept, epoch=epoch)
            return await self._order(caller, group, order, epoch)

        of_others = [one for one in offsets if one[0] != LOG_TOPIC]
        error = await keep(offsets)
        if error != KafkaError.UNKNOWN_TOPIC_OR_PARTITION or len(of_others) == len(offsets):
            return error, error
        if of_log := await self._keep_log(caller):
            return await keep(of_others) if of_others else of_log, of_log
        error = await keep(offsets)
        if error != KafkaError.UNKNOWN_TOPIC_OR_PARTITION:
            return error, error
        return error, await keep([one for one in offsets if one[0] == LOG_TOPIC])

    async def _keep_log(self, caller: Caller) -> int:
        """Have the cluster know the log by name, as it keeps offsets of what it knows, and return why it does not.

        So members of all releases take such offsets alike.
        """
        try:
            answer = await caller.session.order(encode_order(OrderKind.CREATE, topic=LOG_TOPIC))
        except OrdoError as trouble:
            return error_of_group(trouble)
        return KafkaError.NONE if answer.error == KafkaError.TOPIC_ALREADY_EXISTS else answer.error

    async def _order(self, caller: Caller, group: str, order: bytes, epoch: int) -> int:
        """Have something done for a group that this door coordinates, and return the error."""
        try:
            error = (await caller.session.order(order)).error
        except OrdoError as trouble:
            return error_of_group(trouble)
        if error == KafkaError.NOT_COORDINATOR:
            self._lease.lose(group, epoch)
        return error

    async def fetch_offsets(self, caller: Caller, request: Any) -> Values:
        """Return what a group has read."""
        code = (await self._lease.claim(request.group_id)).error
        try:
            found = {} if code else await caller.session.query(OrderKind.OFFSETS, group=request.group_id)
        except OrdoError as trouble:
            code = error_of_group(trouble)
        if code:
            topics = [_offsets_of(one.name, one.partition_indexes, None, code) for one in request.topics or ()]
            return {"topics": topics, "error_code": code}
        if request.topics is None:
            topics = [_offsets_of(name, [PARTITION], kept) for name, kept in found.items()]
        else:
            topics = [_offsets_of(one.name, one.partition_indexes, found.get(one.name)) for one in request.topics]
        return {"topics": topics, "error_code": KafkaError.NONE}

    async def describe(self, caller: Caller, request: Any) -> Values:
        """Return the members of groups; one that has only offsets, in the cluster, is empty."""
        names = request.groups[:GROUPS_MAX]
        is_known = all(self._groups.get(one) or not self._lease.epoch_of(one) for one in names)
        kept: list[str] = []
        error = int(KafkaError.NONE)
        try:
            kept = [] if is_known else await caller.session.query(OrderKind.GROUPS)
        except OrdoError as trouble:
            error = error_of_group(trouble)
        groups = []
        for one in names:
            group, is_here = self._groups.get(one), self._lease.epoch_of(one)
            code = KafkaError.NOT_COORDINATOR if not is_here else error if group is None else KafkaError.NONE
            groups.append({"group_id": one, "error_code": code} if code else _describe(one, group, one in kept))
        return {"groups": groups}

    async def list(self, caller: Caller, request: Any) -> Values:
        """Return the groups that no other door coordinates; those without members here are empty."""
        try:
            others = await self._lease.coordinated_by_others()
            kept = await caller.session.query(OrderKind.GROUPS)
        except OrdoError as trouble:  # this code is the one that tools try again
            code = KafkaError.INVALID_REQUEST if is_final(trouble) else KafkaError.COORDINATOR_NOT_AVAILABLE
            return {"error_code": code, "groups": ()}
        active = [one for one in self._groups.all() if self._lease.epoch_of(one.group_id)]
        groups = [
            {"group_id": one.group_id, "protocol_type": one.protocol_type, "group_state": one.state.value}
            for one in active
        ]
        names = {one.group_id for one in active} | others
        groups += [
            {"group_id": name, "protocol_type": "", "group_state": GroupState.EMPTY.value}
            for name in kept
            if name not in names
        ]
        states = getattr(request, "states_filter", ())
        return {"groups": [one for one in groups if not states or one["group_state"] in states]}

    async def delete(self, caller: Caller, request: Any) -> Values:
        """Forget what groups without members have read."""
        results = []
        for name in request.groups_names[:GROUPS_MAX]:
            found, group = await self._lease.claim(name), self._groups.get(name)
            error = found.error
            if not error and group is not None and group.members:
                error = KafkaError.NON_EMPTY_GROUP
            if not error:
                order = encode_order(OrderKind.DELETE_GROUP, group=name, epoch=found.epoch)
                error = await self._order(caller, name, order, found.epoch)
            results.append({"group_id": name, "error_code": error})
        return {"results": results}


def _instance_of(request: object) -> str | None:
    """Return the instance id of a static member; older versions of requests have none."""
    return getattr(request, "group_instance_id", None)


def _offsets_of(name: str, indexes: Any, kept: Any, error: int = KafkaError.NONE) -> Values:
    partitions = []
    for index in indexes:
        offset, metadata = kept if kept is not None and index == PARTITION else (-1, "")
        values = {"partition_index": index, "committed_offset": offset, "metadata": metadata, "error_code": error}
        partitions.append(values)
    return {"name": name, "partitions": partitions}


def _describe(name: str, group: Group | None, has_offsets: bool) -> Values:
    if group is None:
        state = GroupState.EMPTY.value if has_offsets else "Dead"
        return {"group_id": name, "group_state": state, "error_code": KafkaError.NONE}
    members = [
        {
            "member_id": member_id,
            "group_instance_id": one.join.instance_id,
            "client_id": one.join.client_id,
            "client_host": one.join.host,
            "member_metadata": dict(one.join.protocols).get(group.protocol, b""),
            "member_assignment": one.assignment,
        }
        for member_id, one in group.members.items()
    ]
    return {
        "group_id": name,
        "group_state": group.state.value,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol,
        "members": members,
        "error_code": KafkaError.NONE,
    }
