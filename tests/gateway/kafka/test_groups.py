"""Consumer groups in virtual time: rebalances, members that are silent or leave, and what a member must not do."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

import pytest

from ordo.gateway.kafka.groups.groups import FIRST_WAIT_S, MEMBERS_MAX, Groups
from ordo.gateway.kafka.groups.members import MEMBER_BYTES, Join
from ordo.gateway.kafka.service.orders import KafkaError

Values = Mapping[str, object]


class Coordinator:
    """Groups, their time, and the replies that came."""

    def __init__(self) -> None:
        numbers = count(1)
        self.groups = Groups(lambda: str(next(numbers)))
        self.now_s = 100.0

    def join(self, member_id: str = "", *, protocols: tuple[str, ...] = ("range",), **more: object) -> list[Values]:
        """Join, and return a list in which the reply will be."""
        fields: dict[str, object] = {"session_timeout_s": 10.0, "rebalance_timeout_s": 30.0, "client_id": "c"}
        fields |= {"instance_id": None, "protocol_type": "consumer", "host": "here", "needs_id": False} | more
        offers = [(name, b"topics") for name in protocols]
        replies: list[Values] = []
        join = Join(member_id=member_id, protocols=offers, **fields)  # type: ignore[arg-type]
        self.groups.join("g", join, self.now_s, replies.append)
        return replies

    def sync(self, member_id: str, generation: int, assignments: Mapping[str, bytes] | None = None) -> list[Values]:
        replies: list[Values] = []
        self.groups.sync("g", member_id, generation, assignments or {}, self.now_s, replies.append)
        return replies

    def heartbeat(self, member_id: str, generation: int) -> int:
        return self.groups.heartbeat("g", member_id, generation, self.now_s)

    def leave(self, member_id: str, instance_id: str | None = None) -> int:
        return self.groups.leave("g", member_id, instance_id, self.now_s)

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        self.groups.tick(self.now_s)

    def stable(self, members: int = 2) -> list[str]:
        """Bring a group to its first generation, and return its members, the leader first."""
        replies = [self.join() for _ in range(members)]
        self.pass_time(FIRST_WAIT_S)
        names = [str(one[0]["member_id"]) for one in replies]
        synced = [
            self.sync(one, 1, {name: name.encode() for name in names}) for name, one in zip(names, names, strict=False)
        ]
        assert [one[0]["assignment"] for one in synced] == [name.encode() for name in names]
        return names


def error_of(replies: list[Values]) -> object:
    assert len(replies) == 1, "a request is answered once"
    return replies[0]["error_code"]


def test_members_that_join_together_share_the_first_generation() -> None:
    group = Coordinator()
    first, second = group.join(), group.join(protocols=("range", "sticky"))
    assert first == second == []
    group.pass_time(FIRST_WAIT_S)
    assert first[0]["generation_id"] == second[0]["generation_id"] == 1
    assert first[0]["leader"] == second[0]["leader"] == first[0]["member_id"] == "c-1"
    assert [one["member_id"] for one in first[0]["members"]] == ["c-1", "c-2"]  # type: ignore[attr-defined]
    assert second[0]["members"] == [] and second[0]["protocol_name"] == "range"
    waiting = group.sync("c-2", 1)
    assert waiting == []
    leading = group.sync("c-1", 1, {"c-1": b"one", "c-2": b"two"})
    assert leading[0]["assignment"] == b"one" and waiting[0]["assignment"] == b"two"
    assert group.heartbeat("c-1", 1) == KafkaError.NONE


def test_a_member_that_comes_later_has_all_join_again() -> None:
    group = Coordinator()
    first, second = group.stable()
    third = group.join()
    assert third == [] and group.heartbeat(first, 1) == KafkaError.REBALANCE_IN_PROGRESS
    again = [group.join(first), group.join(second)]
    assert [one[0]["generation_id"] for one in (*again, third)] == [2, 2, 2]
    assert group.heartbeat(second, 1) == KafkaError.ILLEGAL_GENERATION


def test_who_does_not_join_again_in_time_is_out() -> None:
    group = Coordinator()
    first, second = group.stable()
    third = group.join()
    again = group.join(first)
    for _ in range(4):
        group.pass_time(8)
        group.heartbeat(second, 1)
    assert again[0]["generation_id"] == third[0]["generation_id"] == 2
    assert error_of(group.join(second)) == KafkaError.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_out_and_the_others_share_anew() -> None:
    group = Coordinator()
    first, second = group.stable()
    group.pass_time(9)
    assert group.heartbeat(first, 1) == KafkaError.NONE
    group.pass_time(2)
    assert group.heartbeat(first, 1) == KafkaError.REBALANCE_IN_PROGRESS
    assert group.heartbeat(second, 1) == KafkaError.UNKNOWN_MEMBER_ID
    assert group.join(first)[0]["generation_id"] == 2


def test_the_last_member_to_leave_ends_the_group() -> None:
    group = Coordinator()
    first, second = group.stable()
    assert group.leave(first) == group.leave(second) == KafkaError.NONE
    assert group.leave(second) == KafkaError.UNKNOWN_MEMBER_ID
    assert group.groups.all() == []


def test_a_leader_that_leaves_while_others_wait_for_it_is_followed() -> None:
    group = Coordinator()
    replies = [group.join(), group.join()]
    group.pass_time(FIRST_WAIT_S)
    waiting = group.sync("c-2", 1)
    assert group.leave("c-1") == KafkaError.NONE
    assert error_of(waiting) == KafkaError.REBALANCE_IN_PROGRESS
    assert group.join("c-2")[0]["leader"] == "c-2"
    assert len(replies) == 2


def test_a_member_without_an_id_is_told_one_first() -> None:
    group = Coordinator()
    told = group.join(needs_id=True)
    assert error_of(told) == KafkaError.MEMBER_ID_REQUIRED
    joined = group.join("c-1", needs_id=True)
    group.pass_time(FIRST_WAIT_S)
    assert joined[0]["generation_id"] == 1
    assert error_of(group.join("c-9")) == KafkaError.UNKNOWN_MEMBER_ID
    late = group.join(needs_id=True)
    group.pass_time(11)
    assert error_of(group.join(str(late[0]["member_id"]))) == KafkaError.UNKNOWN_MEMBER_ID


def test_a_static_member_that_starts_again_takes_its_own_place() -> None:
    group = Coordinator()
    first = group.join(instance_id="i")
    group.pass_time(FIRST_WAIT_S)
    group.sync("c-1", 1)
    second = group.join(instance_id="i")
    assert second[0]["generation_id"] == 2 and group.heartbeat("c-1", 1) == KafkaError.UNKNOWN_MEMBER_ID
    assert group.leave("", "i") == KafkaError.NONE
    assert len(first) == 1


def test_a_static_member_whose_place_is_taken_is_told_so_and_does_not_come_back() -> None:
    group = Coordinator()
    group.join(instance_id="i")
    group.pass_time(FIRST_WAIT_S)
    first = group.join("c-1", instance_id="i", protocols=("range", "sticky"))
    second = group.join(instance_id="i")
    assert error_of(first) == KafkaError.NONE and error_of(second) == KafkaError.NONE
    waiting, third = group.join("c-2", instance_id="i"), group.join(instance_id="i")
    codes = [
        group.groups.heartbeat("g", "c-2", 2, group.now_s, "i"),
        group.groups.commit_error("g", "c-2", 2, group.now_s, "i"),
        error_of(group.join("c-2", instance_id="i")),
    ]
    group.groups.sync("g", "c-2", 2, {}, group.now_s, lambda values: codes.append(values["error_code"]), "i")
    assert set(codes) == {KafkaError.FENCED_INSTANCE_ID}, "or it would drive out the one that took its place"
    assert error_of(waiting) == KafkaError.NONE and error_of(third) == KafkaError.NONE
    assert group.groups.heartbeat("g", "c-9", 2, group.now_s, "other") == KafkaError.UNKNOWN_MEMBER_ID


def test_a_follower_that_asks_again_is_told_the_same_and_disturbs_nobody() -> None:
    group = Coordinator()
    first, second = group.stable()
    assert group.join(second)[0]["generation_id"] == 1
    assert group.heartbeat(first, 1) == KafkaError.NONE


def test_the_protocol_is_one_that_all_have_and_most_like_best() -> None:
    group = Coordinator()
    replies = [
        group.join(protocols=("a", "b")),
        group.join(protocols=("b", "a")),
        group.join(protocols=("c", "b", "a")),
    ]
    group.pass_time(FIRST_WAIT_S)
    assert [one[0]["protocol_name"] for one in replies] == ["b", "b", "b"]
    assert error_of(group.join(protocols=("c",))) == KafkaError.INCONSISTENT_GROUP_PROTOCOL
    assert error_of(group.join(protocol_type="connect")) == KafkaError.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"session_timeout_s": 0.5}, KafkaError.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_s": 1e9}, KafkaError.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, KafkaError.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": tuple(map(str, range(99)))}, KafkaError.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, KafkaError.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_member_that_asks_for_nonsense_is_refused(fields: dict[str, object], error: int) -> None:
    group = Coordinator()
    assert error_of(group.join(**fields)) == error  # type: ignore[arg-type]
    assert group.groups.all() == []


@pytest.mark.parametrize("needs_id", [True, False])
def test_a_group_of_a_thousand_members_is_refused(needs_id: bool) -> None:
    group = Coordinator()
    replies = [group.join(needs_id=needs_id) for _ in range(1_000)]
    refused = [one for one in replies if one and one[0]["error_code"] == KafkaError.GROUP_MAX_SIZE_REACHED]
    assert len(refused) == 1_000 - MEMBERS_MAX


def test_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ordo.gateway.kafka.groups.groups.GROUPS_MAX", 0)
    assert error_of(Coordinator().join()) == KafkaError.GROUP_MAX_SIZE_REACHED


def test_who_may_commit() -> None:
    group = Coordinator()
    assert group.groups.commit_error("g", "", -1, 0.0) == KafkaError.NONE
    first, _ = group.stable()
    assert group.groups.commit_error("g", "", -1, group.now_s) == KafkaError.UNKNOWN_MEMBER_ID
    assert group.groups.commit_error("g", first, 1, group.now_s) == KafkaError.NONE
    assert group.groups.commit_error("g", first, 2, group.now_s) == KafkaError.ILLEGAL_GENERATION
    third = group.join()
    assert group.groups.commit_error("g", first, 1, group.now_s) == KafkaError.NONE, "what it has read counts"
    group.join(first)
    group.pass_time(30)
    assert third[0]["generation_id"] == 2
    assert group.groups.commit_error("g", first, 2, group.now_s) == KafkaError.REBALANCE_IN_PROGRESS


def test_what_all_groups_hold_is_counted_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Coordinator()
    weight = MEMBER_BYTES + len("range") + len(b"topics")
    names = group.stable()
    assert group.groups.held_bytes == 2 * weight + sum(map(len, names))
    monkeypatch.setattr("ordo.gateway.kafka.groups.groups.HELD_BYTES_MAX", group.groups.held_bytes)
    assert error_of(group.join()) == KafkaError.GROUP_MAX_SIZE_REACHED
    assert group.join(names[1])[0]["error_code"] == KafkaError.NONE, "who is a member may join again"
    assert group.leave(names[1]) == KafkaError.NONE
    assert group.groups.held_bytes == weight + len(names[0])
    again = group.join(names[0])
    assert group.groups.held_bytes == weight, "what was assigned in the last generation is forgotten"
    generation = int(str(again[0]["generation_id"]))
    assert error_of(group.sync(names[0], generation, {names[0]: bytes(4 * weight)})) == KafkaError.INVALID_REQUEST
    group.pass_time(20)
    assert group.groups.held_bytes == 0 and group.groups.all() == []


def test_members_that_never_join_again_are_not_counted_for_ever() -> None:
    group = Coordinator()
    assert error_of(group.join(needs_id=True)) == KafkaError.MEMBER_ID_REQUIRED
    assert group.groups.held_bytes == MEMBER_BYTES
    group.pass_time(11)
    assert group.groups.held_bytes == 0
