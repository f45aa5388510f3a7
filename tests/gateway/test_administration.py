"""What operators ask of a gateway, in front of one cluster: members, records, versions, consumers, applications."""

from __future__ import annotations

import queue
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import tomlkit

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.settings.config import load_config
from ordo.cluster.wire.levels import PROTOCOL_LEVEL
from ordo.cluster.wire.members import ENDPOINT_NAMES
from ordo.consumers.consumer import Consumer
from ordo.deploy.launcher import ROOT, LocalCluster
from ordo.errors import RejectedError
from ordo.runtime.security.tokens import hash_token
from ordo.runtime.version import VERSION
from ordo.service_api import ordo_pb2 as pb
from ordo.service_api import ordo_pb2_grpc
from tests.cluster.integration.agreement import await_that, await_value
from tests.clusters import ready_cluster
from tests.gateway.conftest import refusal_of
from tests.patience import patient
from tests.snippets import Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240), pytest.mark.xdist_group("gateway-administration")]
TRADER, OPERATOR, STRANGER = "t" * 40, "o" * 40, "s" * 40
TOTALS = "tests.cluster.integration.poison:Totals"
WATCHING = "tests.sequencer.applications:Ledger"
"""Follows the log and writes nothing into it, which Totals could not execute."""
TIMEOUT_S = patient(60.0)
GROUP = "watching"
TOKENS = [
    {"principal": "trader", "hash": hash_token(TRADER), "roles": ["ingress", "queries"]},
    {
        "principal": "root",
        "hash": hash_token(OPERATOR),
        "roles": ["operator", "ingress", "log", "consumers", "administration"],
    },
]
CALLS = [
    pytest.param(service.name, method, id=method.name)
    for service in (pb.DESCRIPTOR.services_by_name[name] for name in ("Administration", "Consumers"))
    for method in service.methods
]
REQUESTS: dict[str, dict[str, Any]] = {
    "AddLearner": {"member_id": 7, "endpoints": "127.0.0.1:9"},
    "Upgrade": {"version": "2"},
    "SkipRecord": {"log_position": 64},
    "UpgradeGroup": {"group": GROUP, "version": "2"},
    "ListDifferences": {"group": GROUP},
    "Consume": {"begin": {"name": "billing"}},
    **{f"{verb}Consumer": {"name": "billing"} for verb in ("Describe", "Pause", "Resume", "Seek", "Remove")},
}
"""What a request must say to be let through to the cluster."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    service = {"versions": {"1": TOTALS, "2": TOTALS}, "on_error": "restore"}
    root = tmp_path_factory.mktemp("administration") / "cluster"
    tables: Any = {"tokens": TOKENS, "service": service}
    with ready_cluster("", root=root, tables=tables, member_count=1, sync="none") as started:
        yield started


@pytest.fixture
def members(channel: grpc.Channel) -> Any:
    return ordo_pb2_grpc.AdministrationStub(channel)  # type: ignore[no-untyped-call]


@pytest.fixture
def consumers(channel: grpc.Channel) -> Any:
    return ordo_pb2_grpc.ConsumersStub(channel)  # type: ignore[no-untyped-call]


def shown(token: str = OPERATOR) -> dict[str, Any]:
    return {"metadata": [("authorization", f"Bearer {token}")], "timeout": TIMEOUT_S}


def refusal(call: Any, request: Any, token: str = OPERATOR) -> tuple[grpc.StatusCode, str]:
    return refusal_of(call, request, **shown(token))


def _staying(request: Any) -> Iterator[Any]:
    """A caller's side that stays open."""
    yield request
    yield from iter(queue.SimpleQueue[Any]().get, None)


def settings(token: str) -> ClientSettings:
    return ClientSettings(credentials=token.encode())


@pytest.mark.parametrize(("service", "method"), CALLS)
def test_every_call_needs_the_right_role(channel: grpc.Channel, service: str, method: Any) -> None:
    stub = getattr(ordo_pb2_grpc, f"{service}Stub")(channel)
    request = getattr(pb, method.input_type.name)(**REQUESTS.get(method.name, {}))
    sent = _staying(request) if method.client_streaming else request
    code, text = refusal(getattr(stub, method.name), sent, TRADER)
    assert code is grpc.StatusCode.PERMISSION_DENIED, text


def test_who_is_nobody_is_told_so(members: Any, consumers: Any) -> None:
    nobody = {grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED}
    assert refusal(members.LookAtMembers, pb.LookAtMembersRequest(), STRANGER)[0] in nobody
    assert refusal(consumers.ListConsumers, pb.ListConsumersRequest(), STRANGER)[0] in nobody


def test_a_member_comes_votes_and_goes(members: Any, cluster: LocalCluster) -> None:
    found = members.LookAtMembers(pb.LookAtMembersRequest(), **shown())
    (only,) = found.members
    assert (found.leader_member_id, only.member_id, only.role, only.has_quorum) == (0, 0, "LEADER", True)
    assert (only.state, only.lost, only.trouble, only.ordo_version) == ("ACTIVE", "NONE", "", VERSION)
    assert only.commit_position > 0
    code, text = refusal(members.AddLearner, pb.AddLearnerRequest(member_id=1, endpoints="nonsense"))
    assert code is grpc.StatusCode.INVALID_ARGUMENT and "HOST:PORT" in text

    learner = cluster.add_member()
    path = cluster.config_path(learner)
    written = tomlkit.parse(path.read_text()).unwrap()
    assert written["service"]["versions"] == {"1": TOTALS, "2": TOTALS}
    _, _, endpoints = cluster.new_member(learner).partition("=")
    added = members.AddLearner(pb.AddLearnerRequest(member_id=learner, endpoints=endpoints), **shown())
    cluster.start_member(learner)

    def is_promoted() -> bool:
        try:
            return bool(members.Promote(pb.PromoteRequest(member_id=learner), **shown()).log_position)
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.FAILED_PRECONDITION, error  # it has not caught up
            return False

    await_that(is_promoted, "the learner's vote", 60)
    assert [one.role for one in members.Status(pb.StatusRequest(), **shown()).members] == ["voter", "voter"]
    demoted = members.Demote(pb.DemoteRequest(member_id=learner), **shown())
    assert demoted.log_position > added.log_position > 0
    removed = members.Remove(pb.RemoveRequest(member_id=learner), **shown())
    assert removed.log_position > demoted.log_position
    assert cluster.wait(learner) == 0
    assert len(members.Status(pb.StatusRequest(), **shown()).members) == 1


def test_a_member_told_at_length(members: Any, cluster: LocalCluster) -> None:
    (only,) = members.Status(pb.StatusRequest(), **shown()).members
    own = load_config(cluster.config_path(0)).own_member
    assert [getattr(only, f"{name}_endpoint") for name in ENDPOINT_NAMES] == [
        getattr(own, name) for name in ENDPOINT_NAMES
    ]
    before = members.ListSnapshots(pb.ListSnapshotsRequest(), **shown()).snapshots
    members.TakeSnapshot(pb.TakeSnapshotRequest(), **shown())
    *rest, taken = members.ListSnapshots(pb.ListSnapshotsRequest(), **shown()).snapshots
    assert len(rest) == len(before) and taken.member_id == 0
    with ClusterClient(cluster.ingress_endpoints, settings=settings(TRADER)) as client:
        client.request(b"1", timeout_s=patient(40))
        found = members.DescribeMember(pb.DescribeMemberRequest(member_id=0), **shown())
    assert list(found.snapshots) == [*rest, taken]
    terms = [(one.leadership_term_id, one.base_position) for one in found.terms]
    assert terms[0] == (0, 0) and terms == sorted(terms), "with two voters there may have been elections"
    assert taken.leadership_term_id in dict(terms)
    assert "trader" in [one.principal for one in found.sessions if one.active_ms > taken.timestamp]
    assert found.log_start_position == 0 < found.sessions[-1].opened_log_position
    code, text = refusal(members.DescribeMember, pb.DescribeMemberRequest(member_id=9))
    assert code is grpc.StatusCode.INVALID_ARGUMENT and "member 9: those that answer are 0" in text


def test_records_that_are_left_out(members: Any, cluster: LocalCluster) -> None:
    client = ClusterClient(cluster.ingress_endpoints, settings=settings(TRADER))
    with client, pytest.raises(RejectedError) as refused:
        client.request(b"two", timeout_s=patient(40))
    (record,) = members.ListSkipped(pb.ListSkippedRequest(), **shown()).records
    assert record.log_position == refused.value.log_position < record.skip_position
    assert "ValueError: invalid literal" in record.text
    members.SkipRecord(pb.SkipRecordRequest(log_position=record.log_position), **shown())
    code, text = refusal(members.SkipRecord, pb.SkipRecordRequest(log_position=record.log_position + 64))
    assert code is grpc.StatusCode.FAILED_PRECONDITION and "does not stand still" in text


def test_versions_of_the_service(members: Any) -> None:
    before = members.ListVersions(pb.ListVersionsRequest(), **shown())
    (member,) = before.members
    assert (before.in_force, list(member.versions), member.lacks) == ("1", ["1", "2"], "")
    code, text = refusal(members.Upgrade, pb.UpgradeRequest(version="3"))
    assert code is grpc.StatusCode.FAILED_PRECONDITION and "not every voter has code of version 3" in text
    assert refusal(members.Upgrade, pb.UpgradeRequest(version="new"))[0] is grpc.StatusCode.INVALID_ARGUMENT
    done = members.Upgrade(pb.UpgradeRequest(version="2"), **shown())
    after = members.ListVersions(pb.ListVersionsRequest(), **shown())
    assert (after.in_force, after.since_position) == ("2", done.log_position)
    assert [(one.version, one.since_position) for one in after.services] == [("2", done.log_position)]
    assert [list(one.versions) for one in after.members[0].services] == [["1", "2"]]


def test_an_upgrade_of_one_service(members: Any) -> None:
    def level() -> int:
        return int(members.ListVersions(pb.ListVersionsRequest(), **shown()).protocol_level)

    await_that(lambda: level() == PROTOCOL_LEVEL, "the log has the level of this release")
    code, text = refusal(members.Upgrade, pb.UpgradeRequest(version="2", service_id=1))
    assert code is grpc.StatusCode.FAILED_PRECONDITION and "there is no service 1: the last one is 0" in text
    code, text = refusal(members.Upgrade, pb.UpgradeRequest(version="3", service_id=0))
    assert code is grpc.StatusCode.FAILED_PRECONDITION and "not every voter has code of version 3" in text


def test_no_evidence(members: Any) -> None:
    assert list(members.ListEvidence(pb.ListEvidenceRequest(), **shown()).evidence) == []


def test_durable_consumers(consumers: Any, cluster: LocalCluster) -> None:
    named: dict[str, Any] = {"name": "billing"}
    unknown = refusal(consumers.DescribeConsumer, pb.DescribeConsumerRequest(**named))
    assert unknown[0] is grpc.StatusCode.FAILED_PRECONDITION
    endpoints = list(cluster.ingress_endpoints.values())
    with ClusterClient(endpoints, settings=settings(TRADER)) as client:
        client.request(b"1", timeout_s=patient(40))
    with Consumer(endpoints, "billing", settings=settings(OPERATOR)) as consumer:
        next(consumer.entries(timeout_s=patient(30)))
        found = consumers.DescribeConsumer(pb.DescribeConsumerRequest(**named), **shown())
        assert [one.is_active for one in found.sessions] == [True]
        assert (found.consumer.mode, found.consumer.member_count) == ("exclusive", 1)
    consumers.PauseConsumer(pb.PauseConsumerRequest(**named), **shown())
    (one,) = consumers.ListConsumers(pb.ListConsumersRequest(), **shown()).consumers
    assert (one.name, one.is_paused, one.position, one.lag_bytes) == ("billing", True, 0, one.log_position)
    live = consumers.SeekConsumer(pb.SeekConsumerRequest(**named), **shown()).position
    assert live >= one.log_position
    assert consumers.SeekConsumer(pb.SeekConsumerRequest(**named, position=0), **shown()).position == 0
    consumers.ResumeConsumer(pb.ResumeConsumerRequest(**named), **shown())
    (one,) = consumers.ListConsumers(pb.ListConsumersRequest(), **shown()).consumers
    assert not one.is_paused
    consumers.RemoveConsumer(pb.RemoveConsumerRequest(**named), **shown())
    assert list(consumers.ListConsumers(pb.ListConsumersRequest(), **shown()).consumers) == []


class Consuming:
    """A call of `Consume`, whose steps come when the test wants."""

    def __init__(self, consumers: Any, **begin: Any) -> None:
        self._steps: queue.SimpleQueue[pb.ConsumeRequest | None] = queue.SimpleQueue()
        self._steps.put(pb.ConsumeRequest(begin=pb.BeginConsuming(**begin)))
        self.responses = consumers.Consume(iter(self._steps.get, None), **shown())

    def await_response(self, is_wanted: Callable[[pb.ConsumeResponse], bool]) -> Any:
        """The next response that is wanted."""
        return next(one for one in self.responses if is_wanted(one))

    def send(self, **step: Any) -> None:
        self._steps.put(pb.ConsumeRequest(**step))

    def finish(self, *acknowledgements: pb.Acknowledgement) -> None:
        self.send(acknowledgements=pb.Acknowledgements(acknowledgements=acknowledgements))

    def end(self) -> list[pb.ConsumeResponse]:
        """The responses after which the call has ended in good order."""
        self._steps.put(None)
        return list(self.responses)


def _run_page(channel: grpc.Channel) -> list[bytes]:
    """Payloads that the page's program hands to its `handle`."""
    found: list[bytes] = []

    class HandledError(Exception):
        """Ends the program."""

    def handle(payload: bytes) -> None:
        found.append(payload)
        if len(found) == 2:  # the first one was committed
            raise HandledError

    program = Page("GATEWAY.md").take("python", "BeginConsuming")
    for old, new in (
        ("import ordo_pb2 as pb\nimport ordo_pb2_grpc", "from ordo.service_api import ordo_pb2 as pb, ordo_pb2_grpc"),
        ('grpc.insecure_channel("10.0.0.9:50051")', "channel"),
        ("iter(steps.get, None))", "iter(steps.get, None), **shown())"),
    ):
        assert old in program
        program = program.replace(old, new)
    with pytest.raises(HandledError):
        exec(program, {"channel": channel, "shown": shown, "handle": handle})
    return found


def test_a_call_consumes_what_another_one_has_left(
    channel: grpc.Channel, consumers: Any, cluster: LocalCluster
) -> None:
    with ClusterClient(list(cluster.ingress_endpoints.values()), settings=settings(TRADER)) as client:
        for _ in range(3):
            client.request(b"1", timeout_s=patient(40))
    first = Consuming(consumers, name="invoices", kinds=["request"])
    found = first.await_response(lambda one: len(one.entries) > 0)
    assert found.is_active
    entries = [one.entry for one in found.entries]
    while len(entries) < 2:
        entries += [one.entry for one in first.await_response(lambda one: len(one.entries) > 0).entries]
    done = entries[0]
    first.send(commit_position=done.position)
    assert first.end()[-1].committed_position == done.position
    second = Consuming(consumers, name="invoices", kinds=["request"])
    left = second.await_response(lambda one: len(one.entries) > 0)
    assert left.entries[0].entry.position > done.position
    assert left.committed_position == done.position
    assert left.epoch > found.epoch
    second.end()
    assert _run_page(channel) == [one.payload for one in entries[:2]], "the page's consumer has a name of its own"


def test_what_is_given_back_twice_is_a_dead_letter(consumers: Any, cluster: LocalCluster) -> None:
    with ClusterClient(list(cluster.ingress_endpoints.values()), settings=settings(TRADER)) as client:
        client.request(b"1", timeout_s=patient(40))
    begin: dict[str, Any] = {"name": "mail", "is_shared": True, "kinds": ["request"], "tries_max": 2}
    first = Consuming(consumers, **begin, in_flight_max=1)
    (one,) = first.await_response(lambda response: len(response.entries) > 0).entries
    assert one.try_count == 1
    first.end()  # the message goes to who comes next
    second = Consuming(consumers, **begin, in_flight_max=1)
    (again,) = second.await_response(lambda response: len(response.entries) > 0).entries
    assert (again.entry.position, again.try_count) == (one.entry.position, 2)
    second.finish(pb.Acknowledgement(position=again.entry.position, try_count=2, is_given_back=True))
    second.await_response(lambda response: not response.unsent_count)
    described = consumers.DescribeConsumer(pb.DescribeConsumerRequest(name="mail"), **shown())
    assert [dead.position for dead in described.dead_letters] == [one.entry.position]
    second.end()


def test_applications(consumers: Any, cluster: LocalCluster, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(OPERATOR)
    token.chmod(0o600)
    services = [word for version in (1, 2) for word in ("--service", f"{version}={WATCHING}")]
    words = [sys.executable, "-m", "ordo.cli", "app", *services, "--group", GROUP, "--instance", "first"]
    words += ["--endpoints", ",".join(cluster.ingress_endpoints.values())]
    words += ["--folder", str(tmp_path / "app"), "--token-file", str(token)]

    def instance() -> Any:
        found = list(consumers.ListInstances(pb.ListInstancesRequest(), **shown()).instances)
        return found[0] if found else None

    with (tmp_path / "app.log").open("wb") as log:
        running = subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log)
    try:
        one = await_value(lambda: found if (found := instance()) and found.version else None, "the instance")
        assert (one.group, one.name, one.is_active, one.is_canary) == (GROUP, "first", True, False)
        assert (one.version, one.newest_version) == ("1", "2")
        wanted = pb.ListDifferencesRequest(group=GROUP)
        assert list(consumers.ListDifferences(wanted, **shown()).differences) == []
        upgrade = pb.UpgradeGroupRequest(group=GROUP, version="2")
        position = consumers.UpgradeGroup(upgrade, **shown()).log_position
        assert position > 0
        await_that(lambda: instance().version == "2", "the code of version 2", 60)
        nobody = refusal(consumers.UpgradeGroup, pb.UpgradeGroupRequest(group="unknown", version="2"))
        assert nobody[0] is grpc.StatusCode.FAILED_PRECONDITION and "no instance runs" in nobody[1]
    finally:
        running.terminate()
        running.wait(TIMEOUT_S)


def test_the_cluster_ends(members: Any, cluster: LocalCluster) -> None:
    members.ShutDown(pb.ShutDownRequest(), **shown())
    assert cluster.wait(0) == 0
