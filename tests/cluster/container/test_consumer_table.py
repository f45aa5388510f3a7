"""Durable consumers as a function of commands, their positions and their times."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ordo.cluster.container.tables.consumer_table import CONSUMERS_MAX, MEMBERS_MAX, ConsumerTable, Notice
from ordo.cluster.container.tables.consumer_work import DEAD_MAX, WINDOW_MAX, SharedWork
from ordo.cluster.wire.sessions.consumer_codec import (
    AnswerFlag,
    CommandFlag,
    CommandKind,
    ConsumerAnswer,
    ConsumerCommand,
    ConsumerMode,
    ConsumerStatus,
    Row,
    RowKind,
    Work,
    decode_answer,
    decode_command,
    encode_answer,
    encode_command,
)
from ordo.runtime.errors import DecodeError, SnapshotError
from ordo.runtime.native.sentinels import NULL_VALUE

ACTIVE, STANDBY = AnswerFlag.ACTIVE, AnswerFlag.NONE


class Consumers:
    """A table, and members of a consumer "risk" who number their commands. Each record is 100 bytes long."""

    def __init__(self, mode: ConsumerMode = ConsumerMode.EXCLUSIVE, **settings: int) -> None:
        self.table = ConsumerTable()
        self.position = 1000
        self.time = 0
        self.told: list[Notice] = []
        self._mode = mode
        self._settings = {"ack_timeout": 100, "in_flight_max": 2, "tries_max": 2, **settings}
        self._numbers: dict[int, int] = {}

    def do(self, member: int, kind: CommandKind, **fields: Any) -> ConsumerAnswer:
        """The answer to a command; `told` is what others heard of it. Member n has session 10 n."""
        self.position += 100
        number = self._numbers[member] = self._numbers.get(member, 0) + 1
        values: dict[str, Any] = {
            "name": "risk",
            "mode": self._mode,
            "member_key": member,
            "number": number,
            **self._settings,
        }
        first, *self.told = self.table.execute(
            ConsumerCommand(kind, **{**values, **fields}), member * 10, self.position, self.time
        )
        assert first.session_id == member * 10
        return first.answer

    def join(self, member: int, **fields: Any) -> ConsumerAnswer:
        return self.do(member, CommandKind.JOIN, **{"position": 0, **fields})

    def commit(self, member: int, position: int, epoch: int) -> ConsumerAnswer:
        return self.do(member, CommandKind.COMMIT, position=position, epoch=epoch)

    def close(self, member: int) -> list[Notice]:
        self.position += 100
        return self.table.close_session(member * 10, self.position, self.time)

    def restart(self) -> None:
        """Goes on from a snapshot."""
        states = list(self.table.snapshot())
        self.table = ConsumerTable()
        self.table.restore(states)
        assert list(self.table.snapshot()) == states


def test_the_first_member_is_active_and_its_successor_takes_over() -> None:
    consumers = Consumers()
    first, second = consumers.join(1), consumers.join(2)
    assert (first.flags, second.flags) == (ACTIVE, STANDBY)
    assert consumers.commit(1, 500, first.epoch).position == 500
    (told,) = consumers.close(1)
    assert (told.session_id, told.answer.flags, told.answer.position) == (20, ACTIVE, 500)
    assert told.answer.epoch > first.epoch


def test_only_the_active_member_commits_and_only_in_its_epoch() -> None:
    consumers = Consumers()
    epoch = consumers.join(1).epoch
    consumers.join(2)
    assert consumers.commit(2, 500, epoch).status is ConsumerStatus.NOT_ACTIVE
    assert consumers.commit(1, 500, epoch - 1).status is ConsumerStatus.NOT_ACTIVE
    consumers.close(1)
    assert consumers.commit(1, 500, epoch).status is ConsumerStatus.NO_MEMBER
    assert consumers.join(1).flags is STANDBY


@pytest.mark.parametrize("position", [-5, 499, 10**6])
def test_a_position_neither_goes_back_nor_beyond_the_log(position: int) -> None:
    consumers = Consumers()
    epoch = consumers.join(1).epoch
    consumers.commit(1, 500, epoch)
    assert consumers.commit(1, position, epoch).status is ConsumerStatus.REFUSED
    assert consumers.join(1).position == 500


def test_a_repeated_command_is_answered_and_not_executed_again() -> None:
    consumers = Consumers()
    epoch = consumers.join(1).epoch
    command = ConsumerCommand(CommandKind.COMMIT, "risk", 1, 2, epoch=epoch, position=500)
    (first,) = consumers.table.execute(command, 10, 1200, 0)
    consumers.restart()
    (again,) = consumers.table.execute(command._replace(position=700), 11, 1300, 0)
    assert (first.answer.position, again.answer.position, again.session_id) == (500, 500, 11)
    assert consumers.table.execute(command._replace(number=1), 10, 1400, 0) == []


def test_a_member_with_a_new_session_stays() -> None:
    consumers = Consumers()
    first = consumers.join(1)
    command = ConsumerCommand(CommandKind.JOIN, "risk", 1, 2, position=0)
    (told,) = consumers.table.execute(command, 99, 1200, 0)
    assert (told.answer.flags, told.answer.epoch) == (ACTIVE, first.epoch)
    assert consumers.close(1) == []
    assert consumers.table.close_session(99, 1500, 0) == []
    assert consumers.join(2).flags is ACTIVE


@pytest.mark.parametrize(("start", "position"), [(NULL_VALUE, 1100), (0, 0), (700, 700)])
def test_a_new_consumer_begins_where_it_is_told_and_an_old_one_where_it_is(start: int, position: int) -> None:
    consumers = Consumers()
    assert consumers.join(1, position=start).position == position
    assert consumers.join(2, position=300).position == position


def test_what_does_not_fit_is_refused_in_words() -> None:
    consumers = Consumers()
    assert "the log ends at 1100" in consumers.join(1, position=5000).text
    consumers.join(1)
    assert "is exclusive" in consumers.join(2, mode=ConsumerMode.SHARED).text
    assert "another choice of entries" in consumers.join(2, filter_hash=5).text
    assert "is exclusive" in consumers.do(1, CommandKind.WORK).text
    assert consumers.do(1, CommandKind.COMMIT, name="other").status is ConsumerStatus.UNKNOWN
    shared = Consumers(ConsumerMode.SHARED)
    for name in ("ack_timeout", "in_flight_max", "tries_max"):
        assert f"{name}=0: allowed is 1 to " in shared.join(1, **{name: 0}).text


def test_there_are_limits() -> None:
    consumers = Consumers()
    for index in range(CONSUMERS_MAX):
        consumers.join(1, name=f"c{index}")
    assert "is the limit" in consumers.join(1, name="more").text
    for member in range(2, MEMBERS_MAX + 1):
        consumers.join(member, name="c0")
    assert "64 members, which is the limit" in consumers.join(99, name="c0").text


def test_a_seek_moves_it_and_shuts_out_what_is_under_way() -> None:
    consumers = Consumers()
    epoch = consumers.join(1).epoch
    consumers.commit(1, 900, epoch)
    assert consumers.do(9, CommandKind.SEEK, position=200, epoch=epoch).status is ConsumerStatus.OK
    (told,) = consumers.told
    assert (told.session_id, told.answer.position, told.answer.flags) == (10, 200, ACTIVE)
    assert consumers.commit(1, 950, epoch).status is ConsumerStatus.NOT_ACTIVE
    assert consumers.do(9, CommandKind.SEEK, position=0, epoch=epoch).status is ConsumerStatus.NOT_ACTIVE
    assert consumers.join(1).position == 200


def test_pause_and_removal_are_told() -> None:
    consumers = Consumers()
    consumers.join(1)
    for kind, flags in ((CommandKind.PAUSE, ACTIVE | AnswerFlag.PAUSED), (CommandKind.RESUME, ACTIVE)):
        consumers.do(9, kind)
        assert [notice.answer.flags for notice in consumers.told] == [flags]
    consumers.do(9, CommandKind.REMOVE)
    assert [notice.answer.status for notice in consumers.told] == [ConsumerStatus.UNKNOWN]
    assert len(consumers.table) == 0


def test_a_member_that_comes_back_after_a_removal_does_not_begin_it_anew() -> None:
    consumers = Consumers()
    consumers.join(1)
    consumers.do(2, CommandKind.REMOVE)
    again = consumers.join(1, flags=CommandFlag.EXISTING)
    assert (again.status, len(consumers.table)) == (ConsumerStatus.UNKNOWN, 0)
    assert consumers.join(1).status is ConsumerStatus.OK


def test_the_log_is_held_from_the_consumer_that_is_furthest_behind() -> None:
    consumers = Consumers()
    assert consumers.table.hold_position == NULL_VALUE
    epoch = consumers.join(1).epoch
    consumers.join(2, name="live", position=NULL_VALUE)
    assert consumers.table.hold_position == 0
    consumers.commit(1, 600, epoch)
    assert consumers.table.hold_position == 600


def test_consumers_are_listed_and_described() -> None:
    consumers = Consumers()
    consumers.join(1)
    consumers.join(1, name="audit")
    rows = json.loads(consumers.do(9, CommandKind.LIST, name="").text)
    assert [(row["name"], row["lag"], row["members"]) for row in rows] == [("audit", 1300, 1), ("risk", 1300, 1)]
    assert [row["name"] for row in json.loads(consumers.do(9, CommandKind.LIST, name="audit").text)] == ["risk"]
    found = json.loads(consumers.do(9, CommandKind.DESCRIBE).text)
    assert found["sessions"] == [{"session": 10, "active": True, "in_flight": 0}]
    assert consumers.do(9, CommandKind.DESCRIBE, name="none").status is ConsumerStatus.UNKNOWN


# -- shared ------------------------------------------------------------------------------------------------------------


def work(consumers: Consumers, member: int, *rows: Row, to: int = NULL_VALUE, start: int = 0) -> ConsumerAnswer:
    found = consumers.table.get("risk")
    assert found is not None
    return consumers.do(member, CommandKind.WORK, epoch=found.epoch, position=to, from_position=start, rows=tuple(rows))


def found(*positions: int, key: int = 0) -> list[Row]:
    return [Row(RowKind.FOUND, position, key) for position in positions]


def done(position: int) -> Row:
    return Row(RowKind.ACKNOWLEDGED, position)


def shared(**settings: int) -> Consumers:
    """Two members, and four messages that were found."""
    consumers = Consumers(ConsumerMode.SHARED, **settings)
    consumers.join(1)
    consumers.join(2)
    work(consumers, 1, *found(100, 200, 300, 400), to=450)
    return consumers


def held(consumers: Consumers) -> dict[int, tuple[Work, ...]]:
    consumer = consumers.table.get("risk")
    assert consumer is not None and consumer.work is not None
    return {key: consumer.work.work_of(key) for key in consumer.members}


def test_work_goes_to_members_in_turn_as_far_as_they_have_room() -> None:
    consumers = shared()
    assert sorted(one.position for works in held(consumers).values() for one in works) == [100, 200, 300, 400]
    assert [len(works) for works in held(consumers).values()] == [2, 2]
    work(consumers, 1, *found(500), to=500, start=450)
    assert sum(len(works) for works in held(consumers).values()) == 4


def test_what_is_acknowledged_moves_the_floor_and_is_never_handed_out_again() -> None:
    consumers = shared(tries_max=9)
    owner = {one.position: key for key, works in held(consumers).items() for one in works}
    assert work(consumers, owner[200], done(200)).position == 0
    answer = work(consumers, owner[100], done(100))
    assert (answer.position, answer.accepted) == (200, 1)
    consumers.restart()
    consumers.time = 10_000
    consumers.close(1)
    consumers.close(2)
    assert [one.position for one in consumers.join(3).work] == [300, 400]


def test_an_acknowledgement_of_another_members_message_does_not_count() -> None:
    consumers = shared()
    owner = {one.position: key for key, works in held(consumers).items() for one in works}
    assert work(consumers, 3 - owner[100], done(100)).accepted == 0
    assert work(consumers, owner[100], done(100), done(100), done(77)).accepted == 1


def test_what_is_not_acknowledged_in_time_is_handed_out_again_and_dies_after_so_many_tries() -> None:
    consumers = shared()
    before = held(consumers)
    consumers.time = 100
    answer = consumers.join(1)
    assert all(one.tries == 2 for works in held(consumers).values() for one in works)
    assert held(consumers) != before and answer.due == 200
    consumers.time = 200
    consumers.join(1)
    assert held(consumers) == {1: (), 2: ()}
    described = json.loads(consumers.do(9, CommandKind.DESCRIBE).text)
    assert described["dead_letters"] == [{"position": position, "tries": 2} for position in (100, 200, 300, 400)]
    assert described["position"] == 450


def test_a_late_acknowledgement_counts_while_nobody_has_taken_the_message_back() -> None:
    consumers = shared()
    (first, _) = held(consumers)[1]
    consumers.time = 5000
    assert work(consumers, 1, done(first.position)).accepted == 1


def test_what_is_given_back_waits_for_its_delay() -> None:
    consumers = shared(tries_max=5)
    (first, _) = held(consumers)[1]
    answer = work(consumers, 1, Row(RowKind.GIVEN_BACK, first.position, 0, 50))
    assert first.position not in [one.position for works in held(consumers).values() for one in works]
    assert answer.due == 50
    consumers.time = 50
    consumers.join(1)
    assert first._replace(tries=2) in [one for works in held(consumers).values() for one in works]


def test_the_work_of_a_member_that_is_gone_goes_to_the_others() -> None:
    consumers = shared(in_flight_max=4)
    mine, others = held(consumers)[1], held(consumers)[2]
    (told,) = consumers.close(2)
    assert told.session_id == 10
    assert set(told.answer.work) == {*mine, *(one._replace(tries=2) for one in others)}


def counting(*, in_force: bool = True, **settings: int) -> Consumers:
    """As `shared`, with one member, which asks that only refusals count."""
    consumers = Consumers(ConsumerMode.SHARED, **settings)
    consumers.table.counts_refusals = in_force
    consumers.join(1, flags=CommandFlag.COUNTS_REFUSALS)
    work(consumers, 1, *found(100, 200), to=250)
    return consumers


def leave(consumers: Consumers) -> None:
    consumers.do(1, CommandKind.LEAVE)
    consumers.join(1, flags=CommandFlag.COUNTS_REFUSALS)


def lose(consumers: Consumers) -> None:
    consumers.close(1)
    consumers.join(1, flags=CommandFlag.COUNTS_REFUSALS)


def be_slow(consumers: Consumers) -> None:
    consumers.time += 100
    consumers.join(1)


@pytest.mark.parametrize("end_tries", [leave, lose, be_slow])
def test_where_only_refusals_count_nothing_else_makes_dead_letters(end_tries: Callable[[Consumers], None]) -> None:
    consumers = counting()
    for number in range(2, 22):
        end_tries(consumers)
        assert held(consumers) == {1: (Work(100, number, 1), Work(200, number, 1))}
    for number in (21, 22):
        work(consumers, 1, Row(RowKind.GIVEN_BACK, 100, number))
    assert held(consumers) == {1: (Work(200, 21, 1),)}
    described = json.loads(consumers.do(9, CommandKind.DESCRIBE).text)
    assert described["dead_letters"] == [{"position": 100, "tries": 2}]


def test_a_refusal_that_is_told_again_counts_once() -> None:
    """Its answer was lost with the member's session, and the message is with it again."""
    consumers = counting(tries_max=3)
    refusal = Row(RowKind.GIVEN_BACK, 100, 1)
    work(consumers, 1, refusal)
    for _ in range(5):
        assert Work(100, 2, 2) in work(consumers, 1, refusal).work


def pause_and_lose(consumers: Consumers) -> None:
    """The message is with nobody when the refusal is told."""
    consumers.do(9, CommandKind.PAUSE)
    lose(consumers)


@pytest.mark.parametrize("lose_session", [lose, pause_and_lose])
def test_a_refusal_that_is_first_told_in_the_next_session_counts_and_keeps_its_delay(
    lose_session: Callable[[Consumers], None],
) -> None:
    consumers = counting()
    lose_session(consumers)
    consumers.restart()
    for _ in range(2):  # the second time it was heard before
        work(consumers, 1, Row(RowKind.GIVEN_BACK, 100, 1, 3600))
        consumers.restart()
        consumers.do(9, CommandKind.RESUME)
        assert held(consumers) == {1: (Work(200, 2, 1),)}
    consumers.time = 3600
    assert {one.position: one.counted for one in consumers.join(1).work} == {100: 2, 200: 1}


def test_the_last_refusal_gives_up_also_where_it_is_told_in_the_next_session() -> None:
    consumers = counting()
    work(consumers, 1, Row(RowKind.GIVEN_BACK, 100, 1))
    lose(consumers)
    work(consumers, 1, Row(RowKind.GIVEN_BACK, 100, 2))
    assert held(consumers) == {1: (Work(200, 2, 1),)}
    assert json.loads(consumers.do(9, CommandKind.DESCRIBE).text)["dead"] == 1


@pytest.mark.parametrize("number", [-1, 0, 2, 2**62])
def test_a_refusal_of_no_try_of_a_message_that_nobody_has_changes_nothing(number: int) -> None:
    consumers = counting(tries_max=1)
    work(consumers, 1, done(200))
    consumers.do(9, CommandKind.PAUSE)
    lose(consumers)
    work(consumers, 1, Row(RowKind.GIVEN_BACK, 100, number), Row(RowKind.GIVEN_BACK, 200, 1))
    consumers.do(9, CommandKind.RESUME)
    assert held(consumers) == {1: (Work(100, 2, 1),)}
    assert json.loads(consumers.do(9, CommandKind.DESCRIBE).text)["dead"] == 0


def test_a_refusal_of_what_another_member_has_by_now_leaves_it_there() -> None:
    consumers = counting()
    consumers.join(2)
    consumers.close(1)
    assert Work(100, 2, 1) in held(consumers)[2]
    consumers.join(1)
    work(consumers, 1, Row(RowKind.GIVEN_BACK, 100, 1))
    assert Work(100, 2, 1) in held(consumers)[2]


def test_a_busy_member_that_joined_before_the_level_asks_with_its_work() -> None:
    consumers = counting(in_force=False)
    consumers.table.counts_refusals = True
    work(consumers, 1)
    assert not json.loads(consumers.do(9, CommandKind.DESCRIBE).text)["counts_refusals"]
    consumers.do(1, CommandKind.WORK, flags=CommandFlag.COUNTS_REFUSALS)
    assert json.loads(consumers.do(9, CommandKind.DESCRIBE).text)["counts_refusals"]
    for _ in range(5):
        consumers.close(1)
        consumers.join(1)
    assert held(consumers) == {1: (Work(100, 6, 1), Work(200, 6, 1))}


def test_that_only_refusals_count_waits_for_the_protocol_level() -> None:
    """Until then the state is what earlier releases make of the same commands, and is written as they write it."""
    asking, other = counting(in_force=False), Consumers(ConsumerMode.SHARED)
    other.join(1)
    work(other, 1, *found(100, 200), to=250)
    for consumers in (asking, other):
        work(consumers, 1, Row(RowKind.GIVEN_BACK, 100, 7))
        lose(consumers)
    assert list(asking.table.snapshot()) == list(other.table.snapshot())
    assert held(asking) == {1: (Work(200, 2),)}


def test_a_consumer_that_was_begun_before_counts_refusals_once_a_member_asks_for_it() -> None:
    consumers = counting(in_force=False, tries_max=3)
    consumers.table.counts_refusals = True
    consumers.restart()
    consumers.join(2)
    lose(consumers)
    for _ in range(5):
        lose(consumers)
        consumers.restart()
    assert {one.counted for works in held(consumers).values() for one in works} == {1}
    assert not json.loads(consumers.do(9, CommandKind.DESCRIBE).text)["dead_letters"]


def test_what_two_members_have_read_is_taken_once() -> None:
    consumers = shared()
    answer = work(consumers, 2, *found(100, 200, 300, 400, 500), to=500)
    assert answer.frontier == 450
    assert work(consumers, 2, *found(600, 500), to=700, start=450).frontier == 450
    assert work(consumers, 2, *found(500), to=499, start=450).frontier == 450
    assert work(consumers, 2, *found(500), to=10**9, start=450).frontier == 450
    assert work(consumers, 2, *found(500), to=500, start=450).frontier == 500


def test_the_window_is_bounded_and_so_are_dead_letters() -> None:
    one = SharedWork(0, ack_timeout=1, in_flight_max=256, tries_max=1, by_key=False)
    positions = range(1, WINDOW_MAX + 2)
    assert not one.extend(0, 9999, [Row(RowKind.FOUND, position) for position in positions])
    assert one.extend(0, 9999, [Row(RowKind.FOUND, position) for position in positions[:-1]])
    assert one.room == 0
    for time in range(0, 20, 2):
        one.hand_out([1], time)
        one.take_back(time + 1, notes_silence=False)
    assert (len(one.dead), one.dead_count, one.floor) == (DEAD_MAX, WINDOW_MAX, 9999)


def test_messages_of_a_key_go_to_one_member_at_a_time_in_order() -> None:
    consumers = Consumers(ConsumerMode.SHARED, in_flight_max=2, tries_max=9)
    consumers.join(1, flags=CommandFlag.BY_KEY)
    consumers.join(2, flags=CommandFlag.BY_KEY)
    work(consumers, 1, *found(100, 200, 300, key=7), *found(400, key=8), to=450)
    (owner,) = [key for key, works in held(consumers).items() if Work(100, 1) in works]
    assert held(consumers) == {owner: (Work(100, 1), Work(200, 1)), 3 - owner: (Work(400, 1),)}
    work(consumers, owner, Row(RowKind.GIVEN_BACK, 100, 0, 50), done(200))
    assert held(consumers)[owner] == ()  # 300 waits for 100
    consumers.time = 50
    consumers.join(1)
    assert [one.position for key in (1, 2) for one in held(consumers)[key] if one.position != 400] == [100, 300]


def test_a_paused_consumer_hands_nothing_out() -> None:
    consumers = shared(in_flight_max=1)
    consumers.do(9, CommandKind.PAUSE)
    owner = next(key for key, works in held(consumers).items() if works)
    work(consumers, owner, done(held(consumers)[owner][0].position))
    assert held(consumers)[owner] == ()
    consumers.do(9, CommandKind.RESUME)
    assert len(held(consumers)[owner]) == 1


def test_a_seek_of_shared_work_begins_anew() -> None:
    consumers = shared()
    consumers.do(9, CommandKind.SEEK, position=150)
    assert held(consumers) == {1: (), 2: ()}
    assert {notice.answer.frontier for notice in consumers.told} == {150}


# -- bytes -------------------------------------------------------------------------------------------------------------


def test_commands_and_answers_travel() -> None:
    rows = Row(RowKind.FOUND, 5, -9), Row(RowKind.GIVEN_BACK, 6, 0, 70)
    command = ConsumerCommand(
        CommandKind.WORK, "risk.eu-1", 7, 8, 9, 10, 11, ConsumerMode.SHARED, -12, 13, 14, 15, 1, rows
    )
    assert decode_command(encode_command(command, 3, 4)) == command
    answer = ConsumerAnswer(1, 2, ConsumerStatus.OK, ACTIVE, 3, 4, 5, 6, 7, 8, 9, 10, (Work(11, 12), Work(13, 1)), "")
    assert decode_answer(encode_answer(answer, 3, 4)) == answer
    refusal = answer._replace(status=ConsumerStatus.REFUSED, work=(), text="not so")
    assert decode_answer(encode_answer(refusal, 3, 4)) == refusal


@pytest.mark.parametrize("name", ["", "-a", "a b", "a" * 65, "ä"])
def test_a_name_that_is_none_is_no_command(name: str) -> None:
    assert decode_command(encode_command(ConsumerCommand(CommandKind.JOIN, name), 1, 1)) is None


def test_bytes_that_make_no_sense_are_no_command() -> None:
    record = bytearray(encode_command(ConsumerCommand(CommandKind.WORK, "risk", rows=(Row(0, 5),)), 1, 1))
    assert decode_command(bytes(record[:-1])) is None
    for offset, value in ((88, 77), (92, 5), (104, 2**30), (104, -1)):  # kind, mode, length of the name
        changed = bytearray(record)
        changed[offset : offset + 4] = value.to_bytes(4, "little", signed=True)
        assert decode_command(bytes(changed)) is None
    for cut in range(8, len(record)):
        decode_command(bytes(record[:cut]))
    answer = ConsumerAnswer(1, 2, ConsumerStatus.OK, ACTIVE, 3, 4, 5, 6, 7, 8, 9, 10, (), "")
    with pytest.raises(DecodeError):
        decode_answer(encode_answer(answer, 1, 1)[:-30])


@pytest.mark.parametrize("text", [b"{", b"{}", b"[]", b'{"name": 5}'])
def test_a_snapshot_that_cannot_be_read_is_said(text: bytes) -> None:
    with pytest.raises(SnapshotError, match="durable consumer"):
        ConsumerTable().restore([text])


def silent_worker(level: bool = True, members: int = 3, **settings: int) -> Consumers:
    """Member 1 was given two messages, and was killed; the others have as many, and no room."""
    consumers = Consumers(ConsumerMode.SHARED, tries_max=3, **settings)
    consumers.table.counts_refusals = level
    for member in range(1, members + 1):
        consumers.join(member)
    work(consumers, 2, *found(*range(50, 1000, 50)), to=1000)
    return consumers


def kept_by_others(consumers: Consumers, *others: int) -> None:
    """The others are done with what they have before their time is over, and get as much again; twice."""
    for _ in range(2):
        consumers.time += 60
        for member in others:
            work(consumers, member, *(done(one.position) for one in held(consumers)[member]))


def test_a_killed_member_costs_each_message_one_try_at_most() -> None:
    consumers = silent_worker()
    lost: list[int] = [one.position for one in held(consumers)[1]]
    assert len(lost) == 2
    for _ in range(8):
        kept_by_others(consumers, 2, 3)
        consumers.restart()
        mine = held(consumers)[1]
        assert len(mine) <= 1 and all(one.tries == 1 for one in mine), "one at a time, that nobody had before"
        lost += [one.position for one in mine if one.position not in lost]
    assert len(lost) > 2
    everything = {one.position: one.tries for works in held(consumers).values() for one in works}
    assert max(everything.values(), default=1) <= 2
    assert consumers.do(2, CommandKind.DESCRIBE).text.count('"dead": 0') == 1


def test_before_the_level_a_killed_member_is_given_as_much_as_others() -> None:
    consumers = silent_worker(level=False)
    kept_by_others(consumers, 2, 3)
    assert len(held(consumers)[1]) == 2
    assert "silent" not in b"".join(consumers.table.snapshot()).decode()


def test_a_member_that_is_heard_again_is_given_as_much_as_others() -> None:
    consumers = silent_worker(members=2)
    kept_by_others(consumers, 2)
    assert len(held(consumers)[1]) <= 1
    work(consumers, 1)
    assert len(held(consumers)[1]) == 2


def test_where_all_are_silent_nobody_is_left_out() -> None:
    consumers = silent_worker(members=2)
    consumers.time += 101
    consumers.join(3)
    assert len(held(consumers)[3]) == 2
    consumers.time += 101
    consumers.close(3)
    consumers.join(2)
    consumers.close(2)
    assert len(held(consumers)[1]) == 2, "the last one is handed what is left, as if it had been heard"
