"""The service container over a recorded log: callbacks, egress, control, snapshots, failures."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from ordo.archive.recorder import Recording
from ordo.cluster.container.execution import ContainerState
from ordo.cluster.container.service_container import ServiceContainer
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.counters.mark_file import read_mark_file
from ordo.cluster.wire.levels import REQUEST_ID_LEVEL
from ordo.runtime.errors import ClusterError, MessageError, ServiceError, SnapshotError
from ordo.runtime.native.error_log import read_errors
from ordo.service_api.native import Header
from ordo.service_api.service import (
    ClientSession,
    CloseReason,
    Cluster,
    ClusteredService,
    NewLeadershipTermEvent,
    OfferResult,
    Role,
    TimeUnit,
)
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter
from tests.cluster.container.service_node import CLIENT_ID, ServiceNode

Start: TypeAlias = Callable[..., ServiceContainer]


class Recorder(ClusteredService):
    """Writes down every callback; messages that are commands do something."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.results: list[int] = []
        self.state: dict[str, str] = {}

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster
        if snapshot is not None:
            self.state = json.loads(snapshot.read())
        self.calls.append(("start", cluster.log_position, [session.id for session in cluster.client_sessions]))

    def on_session_open(self, session: ClientSession, timestamp: int) -> None:
        self.calls.append(("open", session.id, timestamp, self.cluster.role))
        self.results.append(session.offer(b"welcome"))

    def on_session_close(self, session: ClientSession, timestamp: int, close_reason: CloseReason) -> None:
        self.calls.append(("close", session.id, close_reason))
        self.results.append(session.offer(b"late"))

    def on_session_message(self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header) -> None:
        self.calls.append(("message", session and session.id, timestamp, payload, header.position))
        self.state[str(len(self.state))] = payload.decode("latin-1")[:8]
        if payload == b"timer":
            assert self.cluster.schedule_timer(9, timestamp + 50)
            assert self.cluster.cancel_timer(8)
        elif payload == b"offer":
            self.results.append(self.cluster.offer(b"to the log"))
        elif payload == b"bye":
            assert session is not None
            session.close()
            session.close()
        elif payload == b"raise":
            raise KeyError("no such order")
        elif session is not None:
            self.results.append(session.offer(payload))

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        self.calls.append(("timer", correlation_id, timestamp))

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps(self.state).encode())

    def on_role_change(self, role: Role) -> None:
        self.calls.append(("role", role))

    def on_terminate(self, cluster: Cluster) -> None:
        self.calls.append(("terminate", cluster.log_position))

    def on_new_leadership_term(self, event: NewLeadershipTermEvent) -> None:
        self.calls.append(("term", event.leadership_term_id, event.term_base_log_position, event.time_unit))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServiceNode]:
    node = ServiceNode(tmp_path)
    yield node
    node.close()


@pytest.fixture
def start(node: ServiceNode) -> Iterator[Start]:
    """Starts a container without a snapshot; closes it at the end."""
    containers = []

    def start_one(service: Any = None, **options: Any) -> ServiceContainer:
        if node.recovery is None:
            node.set_recovery()
        container = node.container(service or Recorder(), **options)
        containers.append(container)
        return container

    yield start_one
    for container in containers:
        container.on_close()


def test_nothing_starts_before_the_node_says_where(node: ServiceNode, start: Start) -> None:
    container = node.container(service := Recorder())
    for _ in range(20):
        node.cycle(container)
    assert service.calls == []
    assert container.state is ContainerState.AWAITING
    node.set_recovery()
    node.run(container, lambda: container.state is ContainerState.RUNNING)
    assert service.calls == [("start", 0, [])]
    [(name, ack)] = node.asked()
    assert (name, ack.ack_id, ack.log_position, ack.relevant_id) == ("ServiceAck", 0, 0, CLIENT_ID)
    container.on_close()


def test_every_record_reaches_its_callback_in_order_with_its_position(node: ServiceNode, start: Start) -> None:
    container = start(service := Recorder())
    node.begin_term(0, leads=False)
    node.open_session(1)
    first = node.message(1, b"hello", timestamp=1001)
    asking = node.message(1, b"timer", timestamp=1001)
    service_message = node.message(-(2**63) + 1, b"from a service", timestamp=1002)
    node.time = 1051
    node.timer(9)
    node.close_session(1, CloseReason.TIMEOUT)
    node.commit()
    node.run(container)
    assert service.calls == [
        ("start", 0, []),
        ("term", 0, 0, TimeUnit.MILLIS),
        ("open", 1, 1000, Role.FOLLOWER),
        ("message", 1, 1001, b"hello", first),
        ("message", 1, 1001, b"timer", asking),
        ("message", None, 1002, b"from a service", service_message),
        ("timer", 9, 1051),
        ("close", 1, CloseReason.TIMEOUT),
    ]
    assert service.results == [OfferResult.MOCKED, OfferResult.MOCKED, OfferResult.CLOSED]
    assert container.cluster.log_position == node.log.position
    assert container.cluster.time_unit is TimeUnit.MILLIS
    assert container.cluster.client_sessions == []


def test_only_committed_records_are_executed(node: ServiceNode, start: Start) -> None:
    container = start(service := Recorder())
    node.begin_term(0, leads=False)
    node.open_session(1)
    committed = node.message(1, b"first")
    node.message(1, b"second")
    node.commit(committed)
    node.run(container)
    assert [call[3] for call in service.calls if call[0] == "message"] == [b"first"]
    node.commit()
    node.run(container)
    assert [call[3] for call in service.calls if call[0] == "message"] == [b"first", b"second"]


@pytest.mark.parametrize("length", [0, 1, 1376 - 32, 1376 - 31, 5000, 100_000])
def test_payloads_of_every_length_arrive_whole(node: ServiceNode, start: Start, length: int) -> None:
    container = start(service := Recorder())
    payload = bytes(index * 7 % 256 for index in range(length))
    node.begin_term(0, leads=False)
    node.open_session(1)
    node.message(1, payload)
    node.commit()
    node.run(container)
    assert service.calls[-1][3] == payload


def test_a_duty_cycle_is_bounded(node: ServiceNode, start: Start) -> None:
    container = start(service := Recorder())
    node.begin_term(0, leads=False)
    node.open_session(1)
    for number in range(300):
        node.message(1, b"%d" % number)
    node.commit()
    node.run(container, lambda: container.messages_executed > 0)
    assert container.messages_executed <= container.record_limit
    node.run(container)
    assert [call[3] for call in service.calls if call[0] == "message"] == [b"%d" % number for number in range(300)]


def test_only_the_leader_answers(node: ServiceNode, start: Start) -> None:
    container = start(service := Recorder())
    node.begin_term(0, leads=True)
    node.open_session(1)
    node.message(1, b"hello", timestamp=1234)
    node.commit()
    node.run(container)
    assert service.calls[1:4] == [
        ("role", Role.LEADER),
        ("term", 0, 0, TimeUnit.MILLIS),
        ("open", 1, 1000, Role.LEADER),
    ]
    (opened, welcome), (header, payload) = node.egress()
    assert (welcome, payload) == (b"welcome", b"hello")
    assert (header.leadership_term_id, header.cluster_session_id, header.timestamp) == (0, 1, 1234)
    assert opened.timestamp == 1000
    assert all(result > 0 for result in service.results)
    assert node.client.wakes > 0


def test_records_of_an_earlier_term_get_no_answer_from_the_new_leader(node: ServiceNode, start: Start) -> None:
    """cluster-client.md §6.1: what a leader inherits is executed in role FOLLOWER."""
    node.begin_term(0, leads=False)
    node.open_session(1)
    node.message(1, b"inherited")
    node.begin_term(1, leads=True)
    node.message(1, b"own")
    node.commit()
    container = start(service := Recorder())
    node.run(container)
    assert service.results == [OfferResult.MOCKED, OfferResult.MOCKED, service.results[2]]
    assert [payload for _, payload in node.egress()] == [b"own"]
    assert [call for call in service.calls if call[0] in ("role", "term")] == [
        ("term", 0, 0, TimeUnit.MILLIS),
        ("role", Role.LEADER),
        ("term", 1, service.calls[-2][2], TimeUnit.MILLIS),
    ]


def test_leadership_may_be_announced_after_the_first_record_was_executed(node: ServiceNode, start: Start) -> None:
    container = start(service := Recorder())
    node.begin_term(0, leads=False)
    node.open_session(1)
    node.commit()
    node.run(container)
    node.leader_term.set(0)
    node.run(container, lambda: container.is_leading)
    node.message(1, b"hello")
    node.commit()
    node.run(container)
    assert [payload for _, payload in node.egress()] == [b"hello"]
    assert ("role", Role.LEADER) in service.calls


def test_a_lost_leadership_ends_the_answers(node: ServiceNode, start: Start) -> None:
    container = start(service := Recorder())
    node.begin_term(0, leads=True)
    node.open_session(1)
    node.commit()
    node.run(container)
    publication = node.client.egress["aeron:udp?endpoint=client:1", 102].publication
    node.leader_term.set(-1)
    node.run(container, lambda: ("role", Role.FOLLOWER) in service.calls)
    node.message(1, b"hello")
    node.commit()
    node.run(container)
    assert service.results[-1] == OfferResult.MOCKED
    assert publication.is_closed


def test_the_first_message_of_a_session_waits_for_its_publication(node: ServiceNode, start: Start) -> None:
    node.client.answer_after = 5
    container = start(service := Recorder())
    node.begin_term(0, leads=True)
    node.open_session(1)
    node.message(1, b"hello")
    node.commit()
    node.run(container)
    assert [payload for _, payload in node.egress()] == [b"welcome", b"hello"]
    assert service.calls.index(("open", 1, 1000, Role.LEADER)) < len(service.calls) - 1


def test_a_driver_that_does_not_answer_holds_the_log_for_a_second_only(node: ServiceNode, start: Start) -> None:
    node.client.answer_after = 15_000
    container = start(service := Recorder())
    node.begin_term(0, leads=True)
    node.open_session(1)
    node.commit()
    node.run(container, cycles_max=200_000)
    assert service.results == [OfferResult.NOT_CONNECTED]
    assert not node.client.egress
    node.run(container, lambda: bool(node.client.egress), cycles_max=200_000)
    node.message(1, b"hello")
    node.commit()
    node.run(container)
    assert [payload for _, payload in node.egress()] == [b"hello"], "an answer that came late was not taken"


def test_a_refused_channel_leaves_its_session_unconnected_and_is_recorded(node: ServiceNode, start: Start) -> None:
    node.client.refused.add("aeron:udp?endpoint=bad:1")
    container = start(service := Recorder())
    node.begin_term(0, leads=True)
    node.open_session(1, "aeron:udp?endpoint=bad:1")
    node.open_session(2)
    node.commit()
    node.run(container)
    assert service.results[0] == OfferResult.NOT_CONNECTED
    assert service.results[1] > 0
    assert any("refused: aeron:udp?endpoint=bad:1" in error.text for error in errors_of(node, container))


def test_sessions_of_one_channel_share_a_publication(node: ServiceNode, start: Start) -> None:
    container = start()
    node.begin_term(0, leads=True)
    node.open_session(1)
    node.open_session(2)
    node.commit()
    node.run(container)
    assert len(node.client.egress) == 1
    publication = next(iter(node.client.egress.values())).publication
    node.close_session(1)
    node.commit()
    node.run(container)
    assert not publication.is_closed
    node.close_session(2)
    node.commit()
    node.run(container)
    assert publication.is_closed


def test_a_message_too_long_for_the_client_is_a_code(node: ServiceNode, start: Start) -> None:
    container = start(service := Recorder())
    node.begin_term(0, leads=True)
    node.open_session(1)
    node.message(1, bytes(128 * 1024 // 8 - 31))
    node.message(1, bytes(128 * 1024 // 8 - 32))
    node.commit()
    node.run(container)
    assert service.results[1] == OfferResult.MESSAGE_TOO_LONG
    assert service.results[2] > 0


def test_offers_take_any_buffer(node: ServiceNode, start: Start) -> None:
    class Buffers(Recorder):
        def on_session_message(
            self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
        ) -> None:
            assert session is not None
            for buffer in (payload, bytearray(payload), memoryview(payload)[2:], b""):
                self.results.append(session.offer(buffer))

    container = start(service := Buffers())
    node.begin_term(0, leads=True)
    node.open_session(1)
    node.message(1, b"abcd")
    node.commit()
    node.run(container)
    assert [payload for _, payload in node.egress()] == [b"welcome", b"abcd", b"abcd", b"cd", b""]
    assert all(result > 0 for result in service.results)


# Control


def test_timers_service_messages_and_closes_reach_the_consensus_module(node: ServiceNode, start: Start) -> None:
    container = start(service := Recorder())
    node.begin_term(0, leads=False)
    node.open_session(1)
    for command in (b"timer", b"offer", b"bye"):
        node.message(1, command, timestamp=2000)
    node.commit()
    node.run(container)
    (_, _), (timer, schedule), (cancel, cancelled), (_, payload), (close, closed) = node.asked()
    assert (timer, schedule.correlation_id, schedule.deadline) == ("ScheduleTimer", 9, 2050)
    assert (cancel, cancelled.correlation_id) == ("CancelTimer", 8)
    assert payload == b"to the log"
    assert (close, closed.cluster_session_id) == ("CloseSession", 1)
    session = container.cluster.get_client_session(1)
    assert session is not None
    assert session.is_closing
    assert service.results[1] == 1


def test_an_event_that_comes_too_late_for_its_timer_is_not_for_the_service(node: ServiceNode, start: Start) -> None:
    """The timer was scheduled anew, or cancelled, with the event in the log already."""
    container = start(service := Recorder())
    node.begin_term(0, leads=False)
    node.open_session(1)
    node.message(1, b"timer", timestamp=2000)
    for node.time, correlation_id in ((2049, 9), (2050, 9), (2050, 9), (2060, 8)):
        node.timer(correlation_id)
    node.commit()
    node.run(container)
    assert [call for call in service.calls if call[0] == "timer"] == [("timer", 9, 2050)]
    told = [(values.correlation_id, values.timestamp) for name, values in node.asked() if name == "TimerExecuted"]
    assert told == [(9, 2049), (9, 2050), (9, 2050), (8, 2060)], "the module hears of each"


def test_a_blocked_control_stream_holds_the_log_and_loses_nothing(node: ServiceNode, start: Start) -> None:
    class Chatty(Recorder):
        def on_session_message(
            self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
        ) -> None:
            for number in range(3000):
                self.cluster.schedule_timer(number, int(payload))

    container = start(service := Chatty())
    node.begin_term(0, leads=False)
    node.open_session(1)
    node.message(1, b"1")
    last = node.message(1, b"2")
    node.commit()
    node.run(container, lambda: container.hold)
    assert node.service_position.value < last
    found = []
    node.run(container, lambda: found.extend(node.asked()) or len(found) == 6001)
    node.run(container)
    timers = [(values.deadline, values.correlation_id) for name, values in found if name == "ScheduleTimer"]
    assert timers == [(deadline, number) for deadline in (1, 2) for number in range(3000)]
    assert service.cluster.log_position == last


def test_requested_acks_are_given_at_their_position(node: ServiceNode, start: Start) -> None:
    container = start()
    node.begin_term(0, leads=False)
    position = node.open_session(1)
    node.tell(codecs.REQUEST_SERVICE_ACK.encode(log_position=position))
    for _ in range(30):
        node.cycle(container)
    assert [values.ack_id for _, values in node.asked()] == [0]
    node.commit()
    found = []
    node.run(container, lambda: found.extend(node.asked()) or found)
    [(_, ack)] = found
    assert (ack.ack_id, ack.log_position, ack.relevant_id, ack.service_id) == (1, position, -1, 0)


def test_termination_at_its_position(node: ServiceNode, start: Start) -> None:
    container = start(service := Recorder())
    node.begin_term(0, leads=False)
    position = node.open_session(1)
    node.tell(codecs.SERVICE_TERMINATION_POSITION.encode(log_position=position, ack_required=1))
    for _ in range(30):
        node.cycle(container)
    assert not container.terminated
    node.commit()
    node.run(container, lambda: container.terminated)
    assert service.calls[-1] == ("terminate", position)
    assert [values.log_position for _, values in node.asked()] == [0, position]
    node.message(1, b"after")
    node.commit()
    for _ in range(30):
        node.cycle(container)
    assert service.calls[-1] == ("terminate", position)


def test_termination_behind_a_record_that_is_not_for_services(node: ServiceNode, start: Start) -> None:
    """Nothing comes after it any more that the service could wait for."""
    container = start(service := Recorder())
    node.begin_term(0, leads=False)
    opened = node.open_session(1)
    event = ordo_codecs.CONFIGURATION_EVENT.encode(leadership_term_id=0, timestamp=node.time, voters="", learners="")
    position = node.append(event)
    node.commit()
    node.tell(codecs.SERVICE_TERMINATION_POSITION.encode(log_position=position, ack_required=1))
    node.run(container, lambda: container.terminated)
    assert service.calls[-1] == ("terminate", opened)
    assert [values.log_position for _, values in node.asked()] == [0, position]


def test_termination_after_a_record_of_the_protocol_level(node: ServiceNode, start: Start) -> None:
    """The container takes it, so the service ends at its position: what is kept of requests depends on the level."""
    container = start(service := Recorder())
    node.begin_term(0, leads=False)
    event = ordo_codecs.LEVEL_EVENT.encode(
        leadership_term_id=0, timestamp=node.time, level=REQUEST_ID_LEVEL, member_id=0
    )
    position = node.append(event)
    node.commit()
    node.tell(codecs.SERVICE_TERMINATION_POSITION.encode(log_position=position, ack_required=1))
    node.run(container, lambda: container.terminated)
    assert service.calls[-1] == ("terminate", position)
    assert container.requests.ids.is_in_force


def test_closing_ends_a_running_service_once(node: ServiceNode, start: Start) -> None:
    container = start(service := Recorder())
    node.run(container, lambda: container.state is ContainerState.RUNNING)
    container.on_close()
    container.on_close()
    assert [call for call in service.calls if call[0] == "terminate"] == [("terminate", 0)]


@pytest.mark.parametrize("callback", ["on_start", "on_role_change", "do_background_work", "on_terminate"])
def test_calls_from_where_they_are_not_allowed_end_the_service(node: ServiceNode, start: Start, callback: str) -> None:
    class Eager(Recorder):
        def call(self, *arguments: Any) -> None:
            cluster = arguments[0] if callback == "on_start" else self.cluster
            cluster.schedule_timer(1, 2)

    setattr(Eager, callback, Eager.call)
    container = start(Eager())
    node.begin_term(0, leads=True)
    node.commit()
    if callback == "on_terminate":
        node.run(container)
        container.on_close()
        assert any("not allowed from" in error.text for error in errors_of(node, container))
        return
    with pytest.raises(ServiceError, match=f"schedule_timer is not allowed from {callback}"):
        node.run(container)


# Snapshots


def record_snapshot(node: ServiceNode, container: ServiceContainer, stream_id: int = 106) -> Recording:
    """What the node's archive does for every snapshot stream; the recording of it."""
    node.run(container, lambda: stream_id in node.client.by_stream)
    stream = node.client.by_stream.pop(stream_id)
    node.client.egress["snapshot", len(node.client.egress)] = stream
    return node.archive.record(stream.image)


def take_snapshot(node: ServiceNode, container: ServiceContainer, flags: int = 0) -> tuple[int, int, Any]:
    position = node.snapshot_action(flags)
    node.commit()
    recording = record_snapshot(node, container)
    acks: list[Any] = []

    def is_recorded() -> bool:
        acks.extend(values for name, values in node.asked() if name == "ServiceAck")
        return any(ack.relevant_id == recording.recording_id for ack in acks)

    node.run(container, is_recorded)
    while node.archive.do_work(0):
        pass
    node.archive.stop(recording)
    return position, recording.recording_id, acks[-1]


def test_a_snapshot_restores_state_and_sessions_and_the_log_goes_on(node: ServiceNode, start: Start) -> None:
    container = start(service := Recorder())
    node.begin_term(3, leads=False)
    node.open_session(1)
    node.open_session(2, "aeron:udp?endpoint=other:2", 103)
    node.message(1, b"timer")
    node.commit()
    node.run(container)
    position, recording_id, ack = take_snapshot(node, container)
    assert (ack.ack_id, ack.log_position, ack.timestamp) == (1, position, 1000)
    node.message(2, b"after")
    node.time = 1050
    node.timer(9)
    node.commit()
    node.run(container)
    container.on_close()

    node.set_recovery(leadership_term_id=3, position=position, timestamp=1000, recording_id=recording_id)
    restarted = start(again := Recorder())
    node.run(restarted, lambda: restarted.state is ContainerState.RUNNING)
    assert again.calls[0] == ("start", position, [1, 2])
    session = again.cluster.get_client_session(2)
    assert session is not None
    assert (session.response_channel, session.response_stream_id) == ("aeron:udp?endpoint=other:2", 103)
    assert session.encoded_principal == b"principal"
    assert again.cluster.time_unit is TimeUnit.MILLIS
    node.run(restarted)
    assert again.state == service.state
    assert [call[3] for call in again.calls if call[0] == "message"] == [b"after"]
    assert again.calls[-1] == ("timer", 9, 1050)


def test_nothing_is_executed_while_a_snapshot_is_being_recorded(node: ServiceNode, start: Start) -> None:
    container = start(service := Recorder())
    node.begin_term(0, leads=False)
    node.open_session(1)
    position = node.snapshot_action()
    node.message(1, b"after")
    node.commit()
    node.run(container, lambda: 106 in node.client.by_stream)
    for _ in range(50):
        node.cycle(container)
    assert node.service_position.value < position
    record_snapshot(node, container)
    node.run(container)
    assert service.calls[-1][3] == b"after"


def test_a_large_snapshot_goes_over_many_duty_cycles(node: ServiceNode, start: Start) -> None:
    class Large(Recorder):
        size = 3_000_000

        def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
            self.cluster = cluster
            self.restored = b"" if snapshot is None else snapshot.read()

        def on_take_snapshot(self, writer: SnapshotWriter) -> None:
            writer.write(bytes(range(250)) * (self.size // 250))

    container = start(Large())
    node.begin_term(0, leads=False)
    node.commit()
    node.run(container)
    position, recording_id, _ = take_snapshot(node, container)
    container.on_close()
    node.set_recovery(leadership_term_id=0, position=position, timestamp=1000, recording_id=recording_id)
    restarted = start(again := Large())
    node.run(restarted, lambda: restarted.state is ContainerState.RUNNING)
    assert again.restored == bytes(range(250)) * (Large.size // 250)


def test_a_failing_snapshot_is_refused_and_the_service_goes_on(node: ServiceNode, start: Start) -> None:
    class Broken(Recorder):
        def on_take_snapshot(self, writer: SnapshotWriter) -> None:
            raise OSError("disk on fire")

    container = start(service := Broken())
    node.begin_term(0, leads=False)
    node.open_session(1)
    position = node.snapshot_action()
    node.message(1, b"after")
    node.commit()
    node.run(container)
    acks = [values for name, values in node.asked() if name == "ServiceAck"]
    assert [(ack.log_position, ack.relevant_id) for ack in acks[1:]] == [(position, -1)]
    assert service.calls[-1][3] == b"after"
    assert any("disk on fire" in error.text for error in errors_of(node, container))


def test_standby_snapshots_are_not_for_us(node: ServiceNode, start: Start) -> None:
    container = start()
    node.begin_term(0, leads=False)
    node.snapshot_action(flags=1)
    node.commit()
    node.run(container)
    assert 106 not in node.client.by_stream


def test_a_snapshot_of_another_position_is_refused(node: ServiceNode, start: Start) -> None:
    container = start()
    node.begin_term(0, leads=False)
    node.commit()
    node.run(container)
    position, recording_id, _ = take_snapshot(node, container)
    container.on_close()
    node.set_recovery(leadership_term_id=0, position=position + 32, timestamp=1000, recording_id=recording_id)
    restarted = start()
    with pytest.raises(SnapshotError, match=f"snapshot at position {position}, the node recovers from {position + 32}"):
        node.run(restarted, lambda: restarted.state is ContainerState.RUNNING)
    assert node.asked()[-1][1].relevant_id == -1


# Failures


def errors_of(node: ServiceNode, container: ServiceContainer) -> list[Any]:
    memory = node.memory.open(f"{node.directory}/cluster/cluster-mark-service-0.dat", False)
    return read_errors(memory.slice(8192, len(memory) - 8192, False))


def test_a_service_that_raises_ends_the_container_and_says_where(node: ServiceNode, start: Start) -> None:
    container = start(service := Recorder())
    node.begin_term(0, leads=False)
    node.open_session(1)
    position = node.message(1, b"raise")
    node.message(1, b"never")
    node.commit()
    with pytest.raises(ServiceError, match=f"Recorder raised in on_session_message at position {position}: KeyError"):
        node.run(container)
    assert container.state is ContainerState.FAILED
    [error] = errors_of(node, container)
    assert f"at position {position}" in error.text
    assert "Traceback" in error.text
    assert "no such order" in error.text
    before = list(service.calls)
    node.cycle(container)
    assert service.calls == before
    assert node.service_position.value < position


def test_a_service_that_cannot_convert_its_times_is_not_told_of_the_term(node: ServiceNode, start: Start) -> None:
    """It stands still at the term's first record until the node says what to do."""

    class Unable(Recorder):
        def on_new_leadership_term(self, event: NewLeadershipTermEvent) -> None:
            if event.time_unit is not TimeUnit.MILLIS:
                raise AssertionError("a service that failed is called")

    container = start(Unable())
    node.begin_term(0, leads=False)
    node.commit()
    node.run(container)
    container.execution.orders.is_supported = True
    position = node.begin_term(1, leads=False, time_unit=TimeUnit.MICROS)
    node.commit()
    node.run(container, lambda: container.state is ContainerState.FAILED)
    failure = container.execution.orders.failure
    assert f"Unable raised in on_time_unit at position {position}" in str(failure)


class Unwritable(ClusteredService):
    """Answers with a message that cannot be written."""

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes | None:
        raise MessageError("Balance.cents is -1: allowed are 0 to 9")

    def on_take_snapshot(self, writer: SnapshotWriter) -> None: ...


def test_an_error_of_a_message_that_a_service_raises_is_its_failure(node: ServiceNode, start: Start) -> None:
    """As any other exception: the record is named, so that it can be left out."""
    container = start(Unwritable())
    node.begin_term(0, leads=False)
    node.open_session(1)
    position = node.message(1, b"buy")
    node.commit()
    says = f"Unwritable raised in on_session_message at position {position}: MessageError: Balance.cents is -1"
    with pytest.raises(ServiceError, match=says):
        node.run(container)


def test_a_term_of_a_version_that_had_no_time_unit_is_in_milliseconds(node: ServiceNode, start: Start) -> None:
    container = start()
    node.begin_term(0, leads=False, time_unit=-(2**31))
    node.commit()
    node.run(container)
    assert container.cluster.time_unit is TimeUnit.MILLIS


def test_a_time_unit_that_is_none_is_refused(node: ServiceNode, start: Start) -> None:
    container = start()
    node.begin_term(0, leads=False, time_unit=7)
    node.commit()
    with pytest.raises(ClusterError, match="time_unit=7 at position=96 is none"):
        node.run(container)


def test_time_goes_over_to_a_finer_unit_and_not_back(node: ServiceNode, start: Start) -> None:
    class Converting(Recorder):
        def on_time_unit(self, former: TimeUnit, unit: TimeUnit) -> None:
            self.calls.append(("time_unit", former, unit, self.cluster.time_unit))

    container = start(service := Converting())
    node.begin_term(0, leads=False)
    node.begin_term(1, leads=False, time_unit=TimeUnit.NANOS)
    node.commit()
    node.run(container)
    assert ("time_unit", TimeUnit.MILLIS, TimeUnit.NANOS, TimeUnit.NANOS) in service.calls
    node.begin_term(2, leads=False, time_unit=TimeUnit.MICROS)
    node.commit()
    with pytest.raises(ClusterError, match="time unit MICROS"):
        node.run(container)


def test_a_message_of_no_open_session_is_skipped_and_recorded(node: ServiceNode, start: Start) -> None:
    container = start(service := Recorder())
    node.begin_term(0, leads=False)
    node.message(7, b"ghost")
    node.commit()
    node.run(container)
    assert [call for call in service.calls if call[0] == "message"] == []
    assert any("session_id=7" in error.text for error in errors_of(node, container))


def test_background_work_runs_every_duty_cycle(node: ServiceNode, start: Start) -> None:
    class Busy(Recorder):
        cycles = 0

        def do_background_work(self, now_ns: int) -> int:
            self.cycles += 1
            return 1

    container = start(service := Busy())
    node.run(container, lambda: container.state is ContainerState.RUNNING)
    before = service.cycles
    assert [node.cycle(container) for _ in range(10)] >= [1] * 10
    assert service.cycles == before + 10


def test_the_mark_file_says_who_runs(node: ServiceNode, start: Start) -> None:
    start()
    path = f"{node.directory}/cluster/cluster-mark-service-0.dat"
    mark = read_mark_file(node.memory, path)
    assert (mark.component_type, mark.service_id, mark.service_name) == (2, 0, "Recorder")
    assert mark.activity_timestamp == node.clock.epoch_ms()
