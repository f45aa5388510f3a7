"""An instance of an application as a function of the log: what counts once, what comes back, what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from ordo.applications.app_executor import AppExecutor
from ordo.applications.canary import CanaryExecutor, Difference
from ordo.applications.outputs import GROUP_INCARNATION, NULL_SESSION_ID, Output, group_identity
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.levels import OUTPUT_ID_LEVEL, SEQUENCE_LEVEL
from ordo.cluster.wire.sessions.difference_codec import DifferenceKind
from ordo.follow.entries import decode_entry
from ordo.runtime.errors import ConfigurationError, Reject, ServiceCallError, ServiceError, SnapshotError
from ordo.service_api.request_ids import digest_request_id
from ordo.service_api.requests import NO_IDENTITY
from ordo.service_api.service import CloseReason, ClusteredService, TimeUnit
from tests.sequencer.applications import Changed, Numbered

CLIENT, FIRST, SECOND = 1, 2, 3
STEP_BYTES = 96
WEEK_MS = 7 * 24 * 3_600_000


class Log:
    """A log that is written by hand, and the instances that read it."""

    def __init__(self, *executors: AppExecutor) -> None:
        self.executors = list(executors)
        self.position = 0
        self.time = 1000
        for session_id in (CLIENT, FIRST, SECOND):
            self.append(
                codecs.SESSION_OPEN_EVENT.encode(
                    correlation_id=session_id,
                    response_stream_id=102,
                    response_channel="aeron:ipc",
                    encoded_principal=b"",
                    **self.stamp(session_id),
                )
            )

    def stamp(self, session_id: int) -> dict[str, int]:
        return {"leadership_term_id": 1, "cluster_session_id": session_id, "timestamp": self.time}

    def append(self, record: bytes) -> int:
        self.position += STEP_BYTES
        entry = decode_entry(self.position, record)
        assert entry is not None
        for executor in self.executors:
            executor.execute(entry)
        return self.position

    def message(self, payload: bytes, session_id: int = CLIENT) -> int:
        return self.append(codecs.SESSION_MESSAGE_HEADER.encode(**self.stamp(session_id)) + payload)

    def close_session(self, session_id: int) -> None:
        self.append(codecs.SESSION_CLOSE_EVENT.encode(close_reason=CloseReason.TIMEOUT, **self.stamp(session_id)))

    def open_identity(
        self, session_id: int, group: str = "tested", incarnation: int = GROUP_INCARNATION, ends: int = 0
    ) -> int:
        """`ends`: the generation that an instance that stands for election wants to end."""
        return self.append(
            ordo_codecs.OPEN_IDENTITY.encode(
                incarnation=incarnation,
                known_position=ends,
                **ordo_codecs.split_identity(group_identity(group)),
                **self.stamp(session_id),
            )
        )

    def write(self, session_id: int, open_position: int, number: int, output: Output, confirmed: int = 0) -> int:
        digest = ordo_codecs.split_request_digest(output.id_digest) if output.id_digest else {}
        record = (ordo_codecs.OUTPUT_BY_ID if digest else ordo_codecs.OUTPUT).encode(
            open_position=open_position,
            number=number,
            confirmed=confirmed,
            input_position=output.input_position,
            target_session_id=output.target_session_id,
            output_index=output.output_index,
            **digest,
            **self.stamp(session_id),
        )
        return self.append(record + output.payload)


def instance(**options: Any) -> AppExecutor:
    return AppExecutor(Numbered(), "tested", **options)


def test_outputs_are_numbered_alike_and_carry_what_they_answer() -> None:
    one, other = instance(), instance()
    log = Log(one, other)
    first, second = log.message(b"abc"), log.message(b"de")
    assert one.cluster.pending == other.cluster.pending
    assert list(one.cluster.pending) == [
        Output(1, first, 0, NULL_SESSION_ID, b"1.0 3"),
        Output(2, first, 1, NULL_SESSION_ID, b"1.1 3"),
        Output(3, second, 0, NULL_SESSION_ID, b"2.0 5"),
        Output(4, second, 1, NULL_SESSION_ID, b"2.1 5"),
    ]


def test_the_first_copy_comes_back_once_and_the_others_are_dropped() -> None:
    one = instance()
    log = Log(one)
    log.message(b"abc")
    opened = log.open_identity(FIRST)
    outputs = list(one.cluster.pending)
    log.write(FIRST, opened, 1, outputs[0])
    log.open_identity(SECOND)
    log.write(SECOND, opened, 1, outputs[0])
    log.write(SECOND, opened, 2, outputs[1])
    log.write(FIRST, opened, 2, outputs[1], confirmed=1)
    assert isinstance(one.service, Numbered)
    assert (one.outputs_accepted, one.service.came_back) == (2, 2)
    assert [output.number for output in one.cluster.pending] == [2]


@pytest.mark.parametrize("change", [{"payload": b"9.9 9"}, {"output_index": 1}, {"input_position": 1}])
def test_an_output_that_this_instance_did_not_make_stops_it(change: dict[str, Any]) -> None:
    one = instance()
    log = Log(one)
    log.message(b"abc")
    opened = log.open_identity(FIRST)
    with pytest.raises(ServiceError, match=r"this instance made .*not deterministic"):
        log.write(FIRST, opened, 1, one.cluster.pending[0]._replace(**change))


def test_an_output_of_another_group_is_a_message_like_any_and_counts_once() -> None:
    one = instance()
    log = Log(one)
    opened = log.open_identity(FIRST, "other")
    output = Output(1, 96, 0, NULL_SESSION_ID, b"four")
    log.write(FIRST, opened, 1, output)
    log.write(FIRST, opened, 1, output)
    assert [output.payload for output in one.cluster.pending] == [b"1.0 4", b"1.1 4"]


def test_a_restored_instance_goes_on_with_what_was_under_way() -> None:
    one = instance()
    log = Log(one)
    log.message(b"abc")
    opened = log.open_identity(FIRST)
    log.write(FIRST, opened, 1, one.cluster.pending[0])
    restored = instance(snapshot=one.take_snapshot())
    assert restored.position == one.position
    log.executors.append(restored)
    log.write(FIRST, opened, 1, one.cluster.pending[0])
    log.message(b"d")
    log.write(FIRST, opened, 2, one.cluster.pending[1], confirmed=1)
    assert list(restored.take_snapshot()) == list(one.take_snapshot())
    assert restored.outputs_accepted == 2


def test_the_first_to_end_a_generation_is_the_writer_and_what_names_an_ended_one_does_not_count() -> None:
    one = instance()
    log = Log(one)
    log.message(b"abc")
    assert not one.is_writer_there
    first = log.open_identity(FIRST, incarnation=11, ends=NO_IDENTITY)
    log.open_identity(SECOND, incarnation=22, ends=NO_IDENTITY)
    assert (one.writer_session_id, one.is_writer_there) == (FIRST, True)
    log.write(FIRST, first, 1, one.cluster.pending[0])
    second = log.open_identity(SECOND, incarnation=22, ends=first)
    log.open_identity(CLIENT, incarnation=33, ends=first)
    assert one.identity is not None
    assert (one.writer_session_id, one.identity.incarnation, one.identity.open_position) == (SECOND, 22, second)
    log.write(FIRST, first, 2, one.cluster.pending[1])
    assert one.outputs_accepted == 1, "the one that was replaced writes in its own generation"
    log.write(SECOND, second, 2, one.cluster.pending[1])
    assert (one.outputs_accepted, one.outputs_before_identity) == (2, 0)
    restored = instance(snapshot=one.take_snapshot())
    log.executors.append(restored)
    log.close_session(SECOND)
    assert not one.is_writer_there and not restored.is_writer_there


FORMER_CHECKPOINT = """
280064006f00110002000000000000004002000000000000010000000000000000000000000000000000000001000000
0c0066006f001100010000000000000066000000090000006165726f6e3a69706300000000
0c0066006f001100020000000000000066000000090000006165726f6e3a69706300000000
0c0066006f001100030000000000000066000000090000006165726f6e3a69706300000000
38002c0085030100b31fb43bc66a5ed55d97403a4053b0ef0000000000000000e00100000000000001000000000000000000000000000000e803000000
00000000000000
14002d0085030100010000000000000040020000000000000000000000000000
280064006f00110002000000000000004002000000000000010000000000000000000000020000000000000001000000
2400010086030100e8030000000000000200000000000000010000000000000000000000000000000200000006000000746573746564
1c0002008603010001000000000000008001000000000000ffffffffffffffff0000000005000000312e302033
1c0002008603010002000000000000008001000000000000ffffffffffffffff0100000005000000312e312033
5b332c20312c20315d
"""
"""Written before checkpoints told who writes: one client's message was answered, and the first output was executed."""


def test_a_checkpoint_that_does_not_tell_who_writes_is_taken_up() -> None:
    joined = FORMER_CHECKPOINT.replace("e803000000\n00", "e80300000000")
    one = instance(snapshot=[bytes.fromhex(line) for line in joined.split()])
    assert (one.position, one.outputs_accepted, one.is_writer_there) == (576, 1, False)
    assert [output.payload for output in one.cluster.pending] == [b"1.0 3", b"1.1 3"]
    assert one.identity is not None
    generation = one.identity.open_position
    log = Log()
    log.executors, log.position = [one], one.position
    log.write(FIRST, generation, 2, one.cluster.pending[1])
    assert one.outputs_accepted == 2, "the group writes on as before"
    opened = log.open_identity(SECOND, incarnation=22, ends=generation)
    assert (one.identity.open_position, one.is_writer_there) == (opened, True)


def test_a_canary_tells_what_it_would_have_written_otherwise_and_goes_on() -> None:
    found: list[Difference] = []
    group = instance()
    canary = CanaryExecutor(Changed(), "tested", on_difference=found.append)
    log = Log(group, canary)
    opened = log.open_identity(FIRST)
    inputs = [log.message(b"x" * length_bytes) for length_bytes in (3, 13, 14, 3)]
    for number, output in enumerate(list(group.cluster.pending), 1):
        log.write(FIRST, opened, number, output, confirmed=number - 1)
        if number == 4:
            canary = CanaryExecutor(Changed(), "tested", canary.take_snapshot(), on_difference=found.append)
            log.executors[1] = canary
    assert [(one.input_position, one.output_index, one.kind.text) for one in found] == [
        (inputs[1], 0, "another payload"),
        (inputs[1], 1, "the canary does not write this output"),
        (inputs[2], 2, "only the canary writes this output"),
    ]
    assert not canary.cluster.pending
    assert isinstance(canary.service, Changed) and canary.service.came_back == 8
    with pytest.raises(SnapshotError, match="is a canary's"):
        instance(snapshot=canary.take_snapshot())


def test_what_the_group_never_writes_is_told_when_too_much_of_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ordo.applications.canary.UNMATCHED_MAX", 3)
    found: list[Difference] = []
    log = Log(CanaryExecutor(Numbered(), "tested", on_difference=found.append))
    first = log.message(b"x")
    assert found == []
    log.message(b"x")
    assert [(one.input_position, one.output_index, one.written) for one in found] == [(first, 0, None)]


def test_a_checkpoint_of_another_group_is_refused() -> None:
    with pytest.raises(SnapshotError, match="of group 'tested', not 'wrong'"):
        AppExecutor(Numbered(), "wrong", instance().take_snapshot())


def test_outputs_are_counted_anew_when_the_identity_has_expired() -> None:
    one = instance()
    log = Log(one)
    log.message(b"abc")
    opened = log.open_identity(FIRST)
    log.write(FIRST, opened, 1, one.cluster.pending[0])
    log.time += WEEK_MS + 1
    anew = log.open_identity(SECOND)
    assert one.outputs_before_identity == 1
    assert [output.number for output in one.cluster.pending] == [2]
    log.write(SECOND, opened, 2, one.cluster.pending[0])
    assert one.outputs_accepted == 1
    log.write(SECOND, anew, 1, one.cluster.pending[0])
    assert one.outputs_accepted == 2


class Timed(ClusteredService):
    """`set N` sets a timer in N ms; `bad` is refused when something was written; anything else is answered."""

    def on_start(self, cluster: Any, snapshot: Any) -> None:
        self.cluster = cluster

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes | None:
        if session is None:
            return None
        if payload == b"bad":
            self.cluster.offer(b"half")
            raise Reject("no")
        if payload.startswith(b"set "):
            self.cluster.schedule_timer(7, timestamp + int(payload[4:]))
            return None
        return payload.upper()

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        self.cluster.offer(b"timer %d at %d" % (correlation_id, timestamp))

    def on_time_unit(self, former: TimeUnit, unit: TimeUnit) -> None:
        self.cluster.offer(f"{former.symbol} to {unit.symbol} at {self.cluster.time}".encode())


def test_timers_fire_at_the_first_record_that_is_late_enough() -> None:
    one = AppExecutor(Timed(), "tested")
    log = Log(one)
    log.message(b"set 50")
    log.time += 49
    log.message(b"a")
    log.time += 20
    late = log.message(b"b")
    made = [(output.payload, output.input_position, output.output_index) for output in one.cluster.pending][1:]
    assert made == [(b"timer 7 at 1069", late, 0), (b"B", late, 1)]
    assert one.next_timer() is None


def test_timers_are_those_of_the_new_unit_where_the_logs_time_goes_over() -> None:
    one = AppExecutor(Timed(), "tested")
    log = Log(one)
    log.time = 1_700_000_000_000

    def begin_term(unit: TimeUnit) -> None:
        log.append(
            codecs.NEW_LEADERSHIP_TERM_EVENT.encode(
                leadership_term_id=int(unit), log_position=log.position + STEP_BYTES, timestamp=log.time,
                term_base_log_position=log.position, leader_member_id=0, log_session_id=5, time_unit=unit,
                app_version=1,
            )
        )  # fmt: skip

    begin_term(TimeUnit.MILLIS)
    log.message(b"set 50")
    log.time = log.time * 1000 + 49_999
    begin_term(TimeUnit.MICROS)
    assert one.next_timer() == (1_700_000_000_050_000, 7), "it did not fire as one that is long due"
    log.time += 1
    log.message(b"b")
    said = [output.payload for output in one.cluster.pending]
    assert said == [b"ms to us at 1700000000049999", b"timer 7 at 1700000000050000", b"B"]


def test_answers_name_their_client_and_refused_messages_leave_nothing() -> None:
    one = AppExecutor(Timed(), "tested")
    log = Log(one)
    log.message(b"a")
    log.message(b"bad")
    assert [(output.payload, output.target_session_id) for output in one.cluster.pending] == [(b"A", CLIENT)]
    assert one.refused == 1
    opened = log.open_identity(FIRST)
    log.write(FIRST, opened, 1, one.cluster.pending[0])
    assert one.outputs_accepted == 1


def test_what_an_application_may_not_do() -> None:
    one = instance()
    Log(one)
    with pytest.raises(ServiceCallError, match="offer is not allowed"):
        one.cluster.offer(b"outside of a callback")
    with pytest.raises(ServiceCallError, match="cannot close a client's session"):
        one.cluster.close_client_session(CLIENT)
    with pytest.raises(ServiceError, match="unknown session"):
        one.cluster.close_client_session(99)


# -- ids ---------------------------------------------------------------------------------------------------------------


class Paying(Numbered):
    """Each message is an output for the id that its first word names."""

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes | None:
        if session is None:
            self.came_back += 1
        else:
            self.cluster.offer(payload, id=payload.split(b" ")[0])
        return None


def paying(**options: Any) -> AppExecutor:
    return AppExecutor(Paying(), "tested", **options)


def test_an_output_whose_id_was_used_has_its_number_and_is_not_executed() -> None:
    one, reader = paying(), AppExecutor(Numbered(), "other")
    log = Log(one, reader)
    for payload in (b"a 1", b"a 1", b"a 2", b"b 1"):
        log.message(payload)
    opened = log.open_identity(FIRST)
    outputs = list(one.cluster.pending)
    assert [output.id_digest for output in outputs] == [digest_request_id(name) for name in (b"a", b"a", b"a", b"b")]
    for number, output in enumerate(outputs, start=1):
        for session_id in (FIRST, SECOND):
            log.write(session_id, opened, number, output, confirmed=number - 1)
    assert isinstance(one.service, Paying) and isinstance(reader.service, Numbered)
    assert (one.outputs_accepted, one.outputs_repeated, one.service.came_back) == (4, 2, 2)
    assert reader.service.messages == 6, "four messages, and what was executed of the outputs"


def test_a_checkpoint_keeps_the_ids_of_outputs_under_way_and_those_that_were_used() -> None:
    one = paying()
    log = Log(one)
    log.message(b"a 1")
    opened = log.open_identity(FIRST)
    log.write(FIRST, opened, 1, one.cluster.pending[0])
    log.message(b"a 1")
    restored = paying(snapshot=iter(list(one.take_snapshot())))
    assert restored.cluster.pending == one.cluster.pending
    log.executors.append(restored)
    log.write(SECOND, opened, 2, one.cluster.pending[1])
    assert [executor.outputs_repeated for executor in log.executors] == [1, 1]


def test_an_output_with_another_id_is_another_one() -> None:
    seen: list[Difference] = []
    one = paying()
    canary = CanaryExecutor(Paying(), "tested", on_difference=seen.append)
    log = Log(canary, one)
    log.message(b"a 1")
    opened = log.open_identity(FIRST)
    with pytest.raises(ServiceError, match=r"with another id: the service is not deterministic"):
        log.write(FIRST, opened, 1, one.cluster.pending[0]._replace(id_digest=digest_request_id(b"b")))
    assert [difference.kind for difference in seen] == [DifferenceKind.PAYLOAD]


def test_an_id_must_be_one_that_clients_may_use() -> None:
    class Wrong(Paying):
        def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes | None:
            self.cluster.offer(payload, id=payload)
            return None

    for payload in (b"", bytes(65)):
        with pytest.raises(ConfigurationError, match="from 1 to 64"):
            Log(AppExecutor(Wrong(), "tested")).message(payload)


def test_an_instance_reads_in_the_log_that_outputs_may_have_ids() -> None:
    """It may have opened its identity before, when the cluster could not say so."""
    one = paying()
    log = Log(one)
    for level, is_there in ((OUTPUT_ID_LEVEL - 1, False), (OUTPUT_ID_LEVEL, True)):
        stamp = {"leadership_term_id": 1, "timestamp": log.time}
        log.append(ordo_codecs.LEVEL_EVENT.encode(level=level, member_id=0, **stamp))
        assert one.takes_output_ids is is_there


def says_sequence(message: bytes) -> bool:
    found = ordo_codecs.decode_any(message)
    return found is not None and found[0] is ordo_codecs.MESSAGE_SEQUENCE


class Sequenced(ClusteredService):
    """Keeps the number of each message."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> None:
        self.numbers.append(header.sequence)

    def on_take_snapshot(self, writer: Any) -> None: ...


def test_messages_have_the_numbers_that_they_have_in_the_cluster() -> None:
    """Outputs of the group are counted, though it does not see them, and messages of the service inside the cluster."""
    one = AppExecutor(service := Sequenced(), "tested")
    log = Log(one)
    log.message(b"first")
    log.message(b"of the service", session_id=-1)
    log.message(b"third")
    level = ordo_codecs.LEVEL_EVENT.encode(leadership_term_id=1, timestamp=1, level=SEQUENCE_LEVEL, member_id=0)
    action = codecs.CLUSTER_ACTION_REQUEST.encode(leadership_term_id=1, log_position=0, timestamp=1, action=2, flags=0)
    log.append(action)
    log.message(b"without")
    position = log.append(level)
    log.message(b"next")
    assert service.numbers == [1, 3, 0, position + 1]
    again = AppExecutor(service := Sequenced(), "tested", snapshot=list(one.take_snapshot()))
    log.executors = [again]
    log.append(action)
    log.message(b"and next")
    assert service.numbers == [position + 2]


def test_an_instance_that_does_not_know_how_many_messages_there_were_tells_no_numbers() -> None:
    """Its checkpoint is of an earlier release, and the cluster may have counted: until nobody counts any more."""
    level = ordo_codecs.LEVEL_EVENT.encode(leadership_term_id=1, timestamp=1, level=SEQUENCE_LEVEL, member_id=0)
    action = codecs.CLUSTER_ACTION_REQUEST.encode(leadership_term_id=1, log_position=0, timestamp=1, action=2, flags=0)
    for records, is_known in (([level], False), ([level, action], False), ([action, level], True)):
        log = Log(one := AppExecutor(Sequenced(), "tested"))
        log.message(b"first")
        old = [message for message in one.take_snapshot() if not says_sequence(message)]
        again = AppExecutor(service := Sequenced(), "tested", snapshot=old)
        log.executors = [again]
        log.message(b"before")
        for record in records:
            log.append(record)
        log.message(b"after")
        assert service.numbers[0] == 0 and (service.numbers[1] > 0) is is_known
        held = [message for message in again.take_snapshot() if says_sequence(message)]
        assert bool(held) is is_known


def test_an_instance_that_begins_again_before_the_level_counts_from_it_as_the_members_do() -> None:
    """Its checkpoint has no number since nobody has one, which is not what one of an earlier release says."""
    level = ordo_codecs.LEVEL_EVENT.encode(leadership_term_id=1, timestamp=1, level=SEQUENCE_LEVEL, member_id=0)
    action = codecs.CLUSTER_ACTION_REQUEST.encode(leadership_term_id=1, log_position=0, timestamp=1, action=2, flags=0)
    log = Log(one := AppExecutor(Sequenced(), "tested"))
    log.message(b"first")
    log.append(action)
    again = AppExecutor(service := Sequenced(), "tested", snapshot=list(one.take_snapshot()))
    log.executors = [again]
    log.message(b"without")
    position = log.append(level)
    log.message(b"next")
    assert service.numbers == [0, position + 1]
