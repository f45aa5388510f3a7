"""What operators see of members' recordings through a gateway: one cluster, whose third member has a damaged log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import grpc
import pytest

from ordo.archive.client.replay import REPLAY_STREAM_ID_DEFAULT
from ordo.archive.inspection import recording_inspection as archive_tools
from ordo.archive.segments.reader import RecordedMessage
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.settings.config import load_config
from ordo.deploy.launcher import LocalCluster
from ordo.gateway.callers.batches import BATCH_BYTES_MAX
from ordo.runtime.security.tokens import hash_token
from ordo.service_api import ordo_pb2 as pb
from ordo.service_api import ordo_pb2_grpc
from ordo.transport.inspection.driver_folder import read_streams
from tests.cluster.integration.agreement import await_that
from tests.cluster.integration.conftest import StartCluster
from tests.cluster.integration.damage import LOG_STREAM_ID, flip, log_files
from tests.clusters import ready_cluster
from tests.gateway.conftest import StartGateway, refusal_of
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240), pytest.mark.xdist_group("gateway-archives")]
READER, OPERATOR, TRADER, STRANGER = "r" * 40, "o" * 40, "t" * 40, "s" * 40
TOKENS = [
    {"principal": "trader", "hash": hash_token(TRADER), "roles": ["ingress"]},
    {"principal": "reader", "hash": hash_token(READER), "roles": ["log"]},
    {"principal": "root", "hash": hash_token(OPERATOR), "roles": ["operator"]},
]
SEGMENT_BYTES = 1 << 20
OPTIONS = {"log_term_length": "1m", "segment_length": "1m"}
NO_SCRUBBER = {"archive": {"scrub": 0}}
"""It mends what a test has just damaged."""
MESSAGE_BYTES = 16_384
MESSAGE_COUNT = 2_400
UNDER_WAY_MAX = 64
DAMAGED = 2
TIMEOUT_S = patient(60.0)
SILENT_S = 4.5
"""An archive does not give up a receiver that says nothing for so long,"""
STILL_S = 7.0
"""and has given it up after this."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    root = tmp_path_factory.mktemp("archives") / "cluster"
    tables: Any = {"tokens": TOKENS, **NO_SCRUBBER}
    with ready_cluster("ordo.bench.loads.echo:Echo", root=root, sync="none", cluster=OPTIONS, tables=tables) as started:
        write(started)
        flip(log_files(started, DAMAGED)[1], 40)
        yield started


def write(cluster: LocalCluster) -> None:
    """Messages that are each different, until all members have them."""
    settings = ClientSettings(credentials=TRADER.encode())
    answers: list[int] = []
    with ClusterClient(cluster.ingress_endpoints, settings=settings, on_message=lambda *_: answers.append(1)) as client:
        for number in range(MESSAGE_COUNT):
            message = number.to_bytes(8, "little") * (MESSAGE_BYTES // 8)
            while number - len(answers) > UNDER_WAY_MAX or client.offer(message) <= 0:
                client.poll()
        await_that(lambda: client.poll() < 0 or len(answers) == MESSAGE_COUNT, "all answers")
    whole = MESSAGE_COUNT * MESSAGE_BYTES // SEGMENT_BYTES
    await_that(lambda: all(len(log_files(cluster, one)) > whole for one in cluster.member_ids), "the log of all")


@pytest.fixture
def archives(channel: grpc.Channel) -> Any:
    return ordo_pb2_grpc.ArchivesStub(channel)  # type: ignore[no-untyped-call]


def shown(token: str = READER, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    return {"metadata": [("authorization", f"Bearer {token}")], "timeout": timeout_s}


def refusal(call: Any, request: Any, token: str = READER, **more: Any) -> tuple[grpc.StatusCode, str]:
    return refusal_of(call, request, **shown(token, **more))


def folder(cluster: LocalCluster, member_id: int) -> str:
    return str(cluster.data_dir(member_id) / "archive")


def log_id(cluster: LocalCluster, member_id: int) -> int:
    found = archive_tools.list_recordings(folder(cluster, member_id))
    return next(one.recording_id for one in found if one.stream_id == LOG_STREAM_ID)


def read(archives: Any, **fields: Any) -> list[Any]:
    call = archives.ReadRecording(pb.ReadRecordingRequest(**fields), **shown())
    return [one for batch in call for one in batch.messages]


def plain(one: Any) -> RecordedMessage:
    return RecordedMessage(one.payload, one.start_position, one.position, one.term_id)


def replay_positions(cluster: LocalCluster, member_id: int) -> list[int]:
    """How far a member has sent each replay of an archive's client."""
    found = read_streams(cluster.aeron_dir(member_id))
    return [one.value for one in found if (one.name, one.stream_id) == ("snd-pos", REPLAY_STREAM_ID_DEFAULT)]


def test_every_field_of_every_recording(archives: Any, cluster: LocalCluster) -> None:
    found = archives.ListRecordings(pb.ListRecordingsRequest(), **shown()).members
    assert [(one.member_id, one.trouble) for one in found] == [(member_id, "") for member_id in cluster.member_ids]
    for one in found:
        assert one.archive_endpoint == load_config(cluster.config_path(one.member_id)).own_member.archive
        on_disk = archive_tools.list_recordings(folder(cluster, one.member_id))
        fields = [row._asdict() | {"state": row.state.name} for row in on_disk]
        assert [{name: getattr(row, name) for name in fields[0]} for row in one.recordings] == fields
    (only,) = archives.ListRecordings(pb.ListRecordingsRequest(member_id=1), **shown()).members
    assert only == found[1]


def test_a_whole_recording_and_a_damaged_one(archives: Any, cluster: LocalCluster) -> None:
    good = list(archives.VerifyRecordings(pb.VerifyRecordingsRequest(member_id=0), **shown()))
    on_disk = archive_tools.list_recordings(folder(cluster, 0))
    assert [one.recording_id for one in good] == [one.recording_id for one in on_disk]
    log = next(one for one in good if one.recording_id == log_id(cluster, 0))
    assert log.is_good and log.is_active and log.damage == "" and log.start_position == 0
    assert log.stop_position > MESSAGE_COUNT * MESSAGE_BYTES
    asked = pb.VerifyRecordingsRequest(member_id=DAMAGED, recording_id=log_id(cluster, DAMAGED))
    (bad,) = archives.VerifyRecordings(asked, **shown())
    assert not bad.is_good and f"position={SEGMENT_BYTES}" in bad.damage
    assert bad.recording_id == asked.recording_id and bad.stop_position > SEGMENT_BYTES


def test_all_of_a_recording_is_what_the_disk_has(archives: Any, cluster: LocalCluster) -> None:
    number = log_id(cluster, 0)
    found = [plain(one) for one in read(archives, member_id=0, recording_id=number)]
    on_disk = list(archive_tools.dump(folder(cluster, 0), number))
    assert len(found) > MESSAGE_COUNT and found == on_disk[: len(found)]
    later = read(archives, member_id=0, recording_id=number, from_position=found[9].position, message_count_max=3)
    assert [plain(one) for one in later] == found[10:13]


def test_a_damaged_recording_is_not_read_beyond_its_damage(archives: Any, cluster: LocalCluster) -> None:
    asked = pb.ReadRecordingRequest(member_id=DAMAGED, recording_id=log_id(cluster, DAMAGED))
    found: list[Any] = []
    with pytest.raises(grpc.RpcError) as refused:
        for batch in archives.ReadRecording(asked, **shown()):
            found.extend(batch.messages)
    assert refused.value.code() is grpc.StatusCode.DATA_LOSS and f"position={SEGMENT_BYTES}" in refused.value.details()
    assert all(one.position <= SEGMENT_BYTES for one in found)


def test_who_reads_slowly_holds_up_the_archive_and_nobody_else(
    archives: Any, cluster: LocalCluster, channel: grpc.Channel
) -> None:
    asked = pb.ReadRecordingRequest(member_id=0, recording_id=log_id(cluster, 0))
    slow = [archives.ReadRecording(asked, **shown()) for _ in range(2)]
    firsts = [next(one) for one in slow]
    assert all(sum(len(one.payload) for one in batch.messages) < 2 * BATCH_BYTES_MAX for batch in firsts)
    positions: list[int] = []
    still_since_s = time.monotonic()
    while time.monotonic() < still_since_s + STILL_S:
        if (now := replay_positions(cluster, 0)) != positions:
            positions, still_since_s = now, time.monotonic()
        time.sleep(0.05)
    assert len(positions) == 2 and max(positions) < MESSAGE_COUNT * MESSAGE_BYTES // 2

    code, text = refusal(archives.ReadRecording, asked)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED and "--archive-calls-max" in text
    administration = ordo_pb2_grpc.AdministrationStub(channel)  # type: ignore[no-untyped-call]
    administration.TakeSnapshot(pb.TakeSnapshotRequest(), **shown(OPERATOR))
    assert len(archives.ListRecordings(pb.ListRecordingsRequest(), **shown()).members) == 3

    slow[1].cancel()
    await_that(lambda: len(replay_positions(cluster, 0)) == 1, "the end of the replay", SILENT_S)
    rest = [one for batch in slow[0] for one in batch.messages]
    found = [plain(one) for one in (*firsts[0].messages, *rest)]
    assert found == list(archive_tools.dump(folder(cluster, 0), asked.recording_id))[: len(found)]
    assert len(found) > MESSAGE_COUNT
    await_that(lambda: not replay_positions(cluster, 0), "the end of the replay")
    assert read(archives, member_id=0, recording_id=asked.recording_id, message_count_max=1), "there is room again"


@pytest.mark.thorough
def test_a_deadline_ends_the_replay(archives: Any, cluster: LocalCluster) -> None:
    asked = pb.ReadRecordingRequest(member_id=1, recording_id=log_id(cluster, 1))
    call = archives.ReadRecording(asked, **shown(timeout_s=patient(2.0)))
    next(call)
    assert replay_positions(cluster, 1)
    await_that(lambda: not replay_positions(cluster, 1), "the end of the replay", 2.0 + SILENT_S)
    with pytest.raises(grpc.RpcError) as refused:
        list(call)
    assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_who_may_not(archives: Any) -> None:
    calls = (
        (archives.ListRecordings, pb.ListRecordingsRequest()),
        (archives.VerifyRecordings, pb.VerifyRecordingsRequest()),
        (archives.ReadRecording, pb.ReadRecordingRequest()),
    )
    nobody = {grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED}
    for call, request in calls:
        code, text = refusal(call, request, OPERATOR)
        assert code is grpc.StatusCode.PERMISSION_DENIED and "role log" in text
        code, text = refusal(call, request, TRADER)
        assert code is grpc.StatusCode.PERMISSION_DENIED and "operator" in text
        assert refusal(call, request, STRANGER)[0] in nobody


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"recording_id": 999}, grpc.StatusCode.NOT_FOUND, "recording 999"),
        ({"member_id": 9}, grpc.StatusCode.INVALID_ARGUMENT, "member 9: the members are 0, 1, 2"),
        ({"recording_id": -1}, grpc.StatusCode.INVALID_ARGUMENT, "recording_id must be 0 or above"),
        ({"from_position": -1}, grpc.StatusCode.INVALID_ARGUMENT, "from_position must be 0 or above"),
        ({"from_position": 33}, grpc.StatusCode.OUT_OF_RANGE, "position=33"),
        ({"from_position": (1 << 63) - 32}, grpc.StatusCode.OUT_OF_RANGE, "position="),
    ],
)
def test_what_is_not_there(archives: Any, fields: dict[str, int], code: grpc.StatusCode, words: str) -> None:
    found = [refusal(archives.ReadRecording, pb.ReadRecordingRequest(**fields))]
    if "from_position" not in fields:
        found.append(refusal(archives.VerifyRecordings, pb.VerifyRecordingsRequest(**fields)))
    for status, text in found:
        assert status is code and words in text, text


def test_a_member_that_is_down_is_told_of(archives: Any, cluster: LocalCluster) -> None:
    down = next(one for one in (0, 1) if one != cluster.await_leader())
    cluster.kill(down)
    found = archives.ListRecordings(pb.ListRecordingsRequest(), **shown(timeout_s=patient(16))).members
    assert [one.member_id for one in found] == [0, 1, DAMAGED]
    assert [one.member_id for one in found if one.trouble] == [down]
    assert "no session with the archive" in found[down].trouble and not found[down].recordings
    assert all(one.recordings for one in found if one.member_id != down)
    for call, request in (
        (archives.ListRecordings, pb.ListRecordingsRequest(member_id=down)),
        (archives.VerifyRecordings, pb.VerifyRecordingsRequest(member_id=down)),
        (archives.ReadRecording, pb.ReadRecordingRequest(member_id=down)),
    ):
        await_that(partial(is_told_down, call, request), "what is wrong with the archive")


def is_told_down(call: Any, request: Any) -> bool:
    """Whether the archive is told to be the one that does not answer. Members that answer late are, too."""
    code, text = refusal(call, request, timeout_s=patient(6))
    assert code is grpc.StatusCode.UNAVAILABLE
    return "no session with the archive" in text


def test_a_stop_of_the_gateway_ends_what_is_read(cluster: LocalCluster, start_gateway: StartGateway) -> None:
    whole = next(one for one in cluster.member_ids if one != DAMAGED and cluster.is_running(one))
    gateway = start_gateway(cluster, "--grace", "5")
    with grpc.insecure_channel(gateway.address) as opened:
        archives = ordo_pb2_grpc.ArchivesStub(opened)  # type: ignore[no-untyped-call]
        call = archives.ReadRecording(pb.ReadRecordingRequest(member_id=whole), **shown())
        next(call)
        assert gateway.stop() == 0
        with pytest.raises(grpc.RpcError) as refused:
            list(call)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_archives_that_encrypt(start_cluster: StartCluster, start_gateway: StartGateway) -> None:
    cluster = start_cluster(member_count=1, encrypted=True)
    keys = [word for name, path in cluster.client_keys.items() for word in (f"--{name.replace('_', '-')}", path)]
    with grpc.insecure_channel(start_gateway(cluster, *keys).address) as opened:
        archives = ordo_pb2_grpc.ArchivesStub(opened)  # type: ignore[no-untyped-call]
        (only,) = archives.ListRecordings(pb.ListRecordingsRequest(), timeout=TIMEOUT_S).members
    assert only.trouble == "" and [one.recording_id for one in only.recordings] == [0]
