"""Consumer groups: who is a member, in which generation, with which assignment. Kafka's classic protocol, without I/O.

Time is handed in. A reply that has to wait is a function that is called once, now or later. What a group has read is
not here but in the cluster, so a group outlives its door: its members join again, and go on where they were.

    EMPTY -- first member joins --> PREPARING -- all joined, or time is up --> COMPLETING -- leader syncs --> STABLE
                                        ^---- a member joins, leaves, or is silent for too long ----'-----------'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ordo.gateway.kafka.groups.members import (
    MEMBER_BYTES,
    Group,
    GroupState,
    Join,
    Member,
    Reply,
    choose_protocol,
    join_failure,
    stranger_error,
    weigh,
)
from ordo.gateway.kafka.service.orders import KafkaError

MEMBERS_MAX = 256
GROUPS_MAX = 1_024
PROTOCOLS_MAX = 16
METADATA_BYTES_MAX = 64 << 10
HELD_BYTES_MAX = 64 << 20
"""So much all groups together may hold of what their members say of themselves and are assigned."""
SESSION_TIMEOUT_S_MIN, SESSION_TIMEOUT_S_MAX = 1.0, 1_800.0
REBALANCE_TIMEOUT_S_MAX = 3_600.0
FIRST_WAIT_S = 0.2
"""So long an empty group waits for more members once the first one has joined."""


class Groups:
    """All groups of a door. `new_id` makes what is random in a member's id."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._groups: dict[str, Group] = {}
        self.held_bytes = 0
        """What all groups take in memory, about; see HELD_BYTES_MAX."""

    def get(self, group_id: str) -> Group | None:
        """Return a group with members."""
        return self._groups.get(group_id)

    def all(self) -> list[Group]:
        """Return the groups with members."""
        return list(self._groups.values())

    def is_used(self, group_id: str) -> bool:
        """Return whether a group has members, or expects some."""
        return group_id in self._groups

    def drop_all(self) -> None:
        """Forget all groups: other doors may coordinate them."""
        for group_id in list(self._groups):
            self.drop(group_id)

    def drop(self, group_id: str) -> None:
        """Forget a group: another door may coordinate it."""
        group = self._groups.pop(group_id, None)
        if group is not None:
            self.held_bytes -= group.held_bytes
            for one in group.members.values():
                self._answer_waiting(one, KafkaError.NOT_COORDINATOR)

    def extend(self, now_s: float) -> None:
        """Give all members and rebalances their time anew, after the door could not hear them."""
        for group in self._groups.values():
            for one in group.members.values():
                one.deadline_s = now_s + one.join.session_timeout_s
            for name in group.expected:
                group.expected[name] = now_s + SESSION_TIMEOUT_S_MIN
            longest_s = max((one.join.rebalance_timeout_s for one in group.members.values()), default=0.0)
            group.end_s = now_s + min(longest_s, REBALANCE_TIMEOUT_S_MAX)

    # Joining

    def join(self, group_id: str, join: Join, now_s: float, reply: Reply) -> None:
        """Let a member join, or join again."""
        error = self._join_error(group_id, join)
        if error:
            reply(join_failure(error, join.member_id))
            return
        group = self._groups.setdefault(group_id, Group(group_id))
        if not join.member_id:
            self._replace_instance(group, join.instance_id)
            join = join._replace(member_id=f"{join.client_id[:64]}-{self._new_id()}")
            if join.needs_id and join.instance_id is None:
                group.expected[join.member_id] = now_s + join.session_timeout_s
                self._recount(group)
                reply(join_failure(KafkaError.MEMBER_ID_REQUIRED, join.member_id))
                return
        elif join.member_id not in group.members and join.member_id not in group.expected:
            self._drop_unused(group)
            reply(join_failure(stranger_error(group, join.instance_id), join.member_id))
            return
        self._take(group, join, now_s, reply)
        self._recount(group)

    def _recount(self, group: Group) -> None:
        """Count a group anew, after it has changed."""
        held = sum(one.held_bytes for one in group.members.values()) + MEMBER_BYTES * len(group.expected)
        self.held_bytes += held - group.held_bytes
        group.held_bytes = held

    def _join_error(self, group_id: str, join: Join) -> int:
        group = self._groups.get(group_id)
        if not group_id:
            return KafkaError.INVALID_GROUP_ID
        if not SESSION_TIMEOUT_S_MIN <= join.session_timeout_s <= SESSION_TIMEOUT_S_MAX:
            return KafkaError.INVALID_SESSION_TIMEOUT
        too_long = any(len(metadata) > METADATA_BYTES_MAX for _, metadata in join.protocols)
        if not join.protocol_type or not 0 < len(join.protocols) <= PROTOCOLS_MAX or too_long:
            return KafkaError.INCONSISTENT_GROUP_PROTOCOL
        known = None if group is None else group.members.get(join.member_id)
        if self.held_bytes + weigh(join) - (0 if known is None else weigh(known.join)) > HELD_BYTES_MAX:
            return KafkaError.GROUP_MAX_SIZE_REACHED
        if group is None:
            return KafkaError.GROUP_MAX_SIZE_REACHED if len(self._groups) >= GROUPS_MAX else KafkaError.NONE
        is_new = join.member_id not in group.members and join.member_id not in group.expected
        if is_new and len(group.members) + len(group.expected) >= MEMBERS_MAX:
            return KafkaError.GROUP_MAX_SIZE_REACHED
        others = [one.join for name, one in group.members.items() if name != join.member_id]
        names = {name for name, _ in join.protocols}
        for other in others:
            names &= {name for name, _ in other.protocols}
        if others and (group.protocol_type != join.protocol_type or not names):
            return KafkaError.INCONSISTENT_GROUP_PROTOCOL
        return KafkaError.NONE

    def _replace_instance(self, group: Group, instance_id: str | None) -> None:
        """Take out the member that a static one was before it started again."""
        for name, one in list(group.members.items()):
            if instance_id is not None and one.join.instance_id == instance_id:
                self._answer_waiting(one, KafkaError.FENCED_INSTANCE_ID)
                del group.members[name]

    def _take(self, group: Group, join: Join, now_s: float, reply: Reply) -> None:
        group.expected.pop(join.member_id, None)
        known = group.members.get(join.member_id)
        is_same = known is not None and list(known.join.protocols) == list(join.protocols)
        is_settled = group.state is GroupState.COMPLETING or (
            group.state is GroupState.STABLE and join.member_id != group.leader
        )
        if known is not None and known.on_joined is not None:
            known.on_joined(join_failure(KafkaError.REBALANCE_IN_PROGRESS, join.member_id))
            known.on_joined = None
        if known is not None and is_same and is_settled:
            known.deadline_s = now_s + join.session_timeout_s
            reply(self._joined(group, join.member_id))
            return
        member = known or Member(join, 0.0)
        member.join, member.on_joined = join, reply
        member.deadline_s = now_s + join.session_timeout_s
        group.members[join.member_id] = member
        group.protocol_type = join.protocol_type
        self._prepare(group, now_s)
        self._advance(group, now_s)

    def _prepare(self, group: Group, now_s: float) -> None:
        """Begin a rebalance, unless there is one."""
        if group.state is GroupState.PREPARING:
            return
        wait_s = FIRST_WAIT_S if group.state is GroupState.EMPTY else 0.0
        longest_s = max((one.join.rebalance_timeout_s for one in group.members.values()), default=0.0)
        group.begin_s, group.end_s = now_s + wait_s, now_s + min(longest_s, REBALANCE_TIMEOUT_S_MAX)
        group.state = GroupState.PREPARING
        for one in group.members.values():
            self._answer_sync(one, KafkaError.REBALANCE_IN_PROGRESS)

    def _advance(self, group: Group, now_s: float) -> None:
        """End a rebalance for which all have joined, or which has taken too long."""
        if group.state is not GroupState.PREPARING or now_s < group.begin_s:
            return
        missing = [name for name, one in group.members.items() if one.on_joined is None]
        if missing and now_s < group.end_s:
            return
        for name in missing:
            del group.members[name]
        if not group.members:
            group.state, group.leader = GroupState.EMPTY, ""
            return
        group.generation += 1
        group.state = GroupState.COMPLETING
        group.protocol = choose_protocol([one.join.protocols for one in group.members.values()])
        if group.leader not in group.members:
            group.leader = next(iter(group.members))
        for name, one in group.members.items():
            one.assignment, one.deadline_s = b"", now_s + one.join.session_timeout_s
            on_joined, one.on_joined = one.on_joined, None
            if on_joined is not None:
                on_joined(self._joined(group, name))

    def _joined(self, group: Group, member_id: str) -> Mapping[str, object]:
        members = []
        if member_id == group.leader:
            members = [
                {
                    "member_id": name,
                    "group_instance_id": one.join.instance_id,
                    "metadata": dict(one.join.protocols)[group.protocol],
                }
                for name, one in group.members.items()
            ]
        return {
            "error_code": KafkaError.NONE,
            "generation_id": group.generation,
            "protocol_type": group.protocol_type,
            "protocol_name": group.protocol,
            "leader": group.leader,
            "member_id": member_id,
            "members": members,
        }

    # Members

    def _error_of(self, group_id: str, member_id: str, generation: int, instance_id: str | None) -> int:
        group = self._groups.get(group_id)
        if group is None or member_id not in group.members:
            return stranger_error(group, instance_id)
        return KafkaError.NONE if generation == group.generation else KafkaError.ILLEGAL_GENERATION

    def sync(
        self,
        group_id: str,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes],
        now_s: float,
        reply: Reply,
        instance_id: str | None = None,
    ) -> None:
        """Give a member its assignment, once the leader has said what it is."""
        error = self._error_of(group_id, member_id, generation, instance_id)
        group = self._groups.get(group_id)
        if not error and group is not None and group.state is GroupState.PREPARING:
            error = KafkaError.REBALANCE_IN_PROGRESS
        if error or group is None:
            reply({"error_code": error})
            return
        member = group.members[member_id]
        member.deadline_s = now_s + member.join.session_timeout_s
        self._answer_sync(member, KafkaError.REBALANCE_IN_PROGRESS)
        member.on_synced = reply
        if group.state is GroupState.COMPLETING and member_id == group.leader:
            if self.held_bytes + sum(map(len, assignments.values())) > HELD_BYTES_MAX:
                self._answer_sync(member, KafkaError.INVALID_REQUEST)
                return
            for name, one in group.members.items():
                one.assignment = assignments.get(name, b"")
            group.state = GroupState.STABLE
            self._recount(group)
        if group.state is GroupState.STABLE:
            for one in group.members.values():
                self._answer_sync(one, KafkaError.NONE, group)

    def _answer_sync(self, member: Member, error: int, group: Group | None = None) -> None:
        on_synced, member.on_synced = member.on_synced, None
        if on_synced is None:
            return
        values: dict[str, object] = {"error_code": error}
        if group is not None:
            values |= {"protocol_type": group.protocol_type, "protocol_name": group.protocol}
            values["assignment"] = member.assignment
        on_synced(values)

    def _answer_waiting(self, member: Member, error: int) -> None:
        on_joined, member.on_joined = member.on_joined, None
        if on_joined is not None:
            on_joined(join_failure(error, member.join.member_id))
        self._answer_sync(member, error)

    def heartbeat(
        self, group_id: str, member_id: str, generation: int, now_s: float, instance_id: str | None = None
    ) -> int:
        """Keep a member, and return what it has to know."""
        error = self._error_of(group_id, member_id, generation, instance_id)
        if error:
            return error
        group = self._groups[group_id]
        member = group.members[member_id]
        member.deadline_s = now_s + member.join.session_timeout_s
        return KafkaError.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else KafkaError.NONE

    def leave(self, group_id: str, member_id: str, instance_id: str | None, now_s: float) -> int:
        """Take a member out, by its id or as a static one."""
        group = self._groups.get(group_id)
        if group is None:
            return KafkaError.UNKNOWN_MEMBER_ID
        if not member_id and instance_id is not None:
            found = (name for name, one in group.members.items() if one.join.instance_id == instance_id)
            member_id = next(found, "")
        if group.expected.pop(member_id, None) is None:
            member = group.members.pop(member_id, None)
            if member is None:
                return KafkaError.UNKNOWN_MEMBER_ID
            self._answer_waiting(member, KafkaError.UNKNOWN_MEMBER_ID)
            self._rebalance(group, now_s)
        self._recount(group)
        self._drop_unused(group)
        return KafkaError.NONE

    def commit_error(
        self, group_id: str, member_id: str, generation: int, now_s: float, instance_id: str | None = None
    ) -> int:
        """Return why a member must not commit; a consumer that is in no group may where nobody is."""
        group = self._groups.get(group_id)
        if generation < 0 and (group is None or not group.members):
            return KafkaError.NONE
        error = self._error_of(group_id, member_id, generation, instance_id)
        if error or group is None:
            return error
        member = group.members[member_id]
        member.deadline_s = now_s + member.join.session_timeout_s
        return KafkaError.REBALANCE_IN_PROGRESS if group.state is GroupState.COMPLETING else KafkaError.NONE

    def tick(self, now_s: float) -> None:
        """Take out members that were silent for too long, and end rebalances that are due."""
        for group in list(self._groups.values()):
            before = (group.generation, len(group.members), len(group.expected))
            for name in [name for name, until_s in group.expected.items() if now_s >= until_s]:
                del group.expected[name]
            silent = [name for name, one in group.members.items() if one.on_joined is None and now_s >= one.deadline_s]
            for name in silent:
                self._answer_waiting(group.members.pop(name), KafkaError.UNKNOWN_MEMBER_ID)
            if silent:
                self._rebalance(group, now_s)
            self._advance(group, now_s)
            if before != (group.generation, len(group.members), len(group.expected)):
                self._recount(group)
            self._drop_unused(group)

    def _rebalance(self, group: Group, now_s: float) -> None:
        """Share out anew after a member has gone."""
        if group.members:
            self._prepare(group, now_s)
            self._advance(group, now_s)
        else:
            group.state, group.leader = GroupState.EMPTY, ""

    def _drop_unused(self, group: Group) -> None:
        if not group.members and not group.expected:
            self._groups.pop(group.group_id, None)
