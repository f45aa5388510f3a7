"""The archive of a cluster with [[tokens]]: who has no role for it copies nothing of the log, and sends nothing through
it in a member's name. Where datagrams are encrypted the stranger holds the key of a client, which all members trust."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ordo.archive.client.client import ArchiveClient
from ordo.archive.protocol import codecs
from ordo.archive.protocol.codes import CONTROL_STREAM_ID_DEFAULT, PROTOCOL_VERSION, ErrorCode
from ordo.cli import run
from ordo.cluster.client.connection.endpoints import archive_endpoint
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.streams import EGRESS_STREAM_ID, LOG_STREAM_ID
from ordo.deploy.launcher import LocalCluster
from ordo.follow.entries import EntryKind
from ordo.follow.reader import LogReader
from ordo.follow.recordings.ranges import Access, RangeReader, survey
from ordo.runtime.errors import ArchiveError
from ordo.runtime.security.tokens import new_token
from tests.attacks.test_authentication import SERVICE, connect, token_table
from tests.attacks.test_sessions import stranger
from tests.cluster.integration.agreement import counter_of
from tests.cluster.integration.conftest import StartCluster, start_cluster
from tests.patience import patient

__all__ = ["start_cluster"]
TRADER, AUDITOR = new_token(), new_token()
TABLES = {"tokens": [token_table("trader", TRADER, "ingress"), token_table("auditor", AUDITOR, "log")]}


def archives(cluster: LocalCluster) -> list[str]:
    return [archive_endpoint(one) for one in cluster.ingress_endpoints.values()]


def refused(cluster: LocalCluster) -> int:
    return sum(counter_of(cluster, one, CounterType.INVALID_REQUESTS) for one in cluster.member_ids)


@pytest.fixture(params=[False, True], ids=["plain", "encrypted"])
def cluster(
    request: pytest.FixtureRequest, start_cluster: StartCluster, monkeypatch: pytest.MonkeyPatch
) -> LocalCluster:
    """With three messages in its log; keys are in the environment."""
    started = start_cluster(SERVICE, tables=TABLES, encrypted=request.param)
    for name, path in started.client_keys.items():
        monkeypatch.setenv(f"ORDO_{name.upper()}", str(path))
    with connect(started, TRADER.encode()) as client:
        for number in range(3):
            client.request(b"secret %d" % number)
    return started


def test_who_has_no_role_reads_nothing_of_the_log(cluster: LocalCluster, tmp_path: Path) -> None:
    for address in archives(cluster):
        for wrong in (b"", b"auditor", TABLES["tokens"][1]["hash"].encode()):  # type: ignore[attr-defined]
            before = refused(cluster)
            with pytest.raises(ArchiveError, match="authentication rejected") as error:
                ArchiveClient.connect(address, credentials=wrong)
            assert error.value.code == ErrorCode.AUTHENTICATION_REJECTED
            assert refused(cluster) == before + 1
    before = refused(cluster)
    with ArchiveClient.connect(archives(cluster)[0], credentials=TRADER.encode()) as trader:
        for look in (
            trader.list_recordings,
            lambda: trader.describe_recording(0),
            lambda: trader.max_recorded_position(0),
            lambda: trader.start_replay(0, "aeron:udp?endpoint=127.0.0.1:9", 5),
        ):
            with pytest.raises(ArchiveError, match="do not have the role log") as error:
                look()
            assert error.value.code == ErrorCode.UNAUTHORISED_ACTION
    assert refused(cluster) == before + 4
    for credentials in (b"", TRADER.encode()):
        with (
            LogReader(archives(cluster), credentials=credentials) as reader,
            pytest.raises(ArchiveError, match="takes credentials with the role log"),
        ):
            next(reader.entries(timeout_s=30))
    with pytest.raises(ArchiveError, match="takes a token with the role log"):
        survey(archives(cluster), Access(timeout_s=30))
    file = tmp_path / "token"
    file.write_text(TRADER)
    assert run(["log", *archives(cluster), "--token-file", str(file), "--timeout", "30"]) != 0


def test_who_has_the_role_reads_the_log(
    cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LogReader(archives(cluster), credentials=AUDITOR.encode(), kinds=[EntryKind.REQUEST]) as reader:
        entries = [entry.payload for _, entry in zip(range(3), reader.entries(timeout_s=30), strict=False)]
    assert entries == [b"secret 0", b"secret 1", b"secret 2"]
    file = tmp_path / "token"
    file.write_text(AUDITOR + "\n")
    access = Access(timeout_s=30, token_file=str(file))
    found = survey(archives(cluster), access)
    with RangeReader(archives(cluster), found.start_position, found.end_position, access) as ranges:
        assert b"secret 1" in b"".join(frames for _, frames in ranges)
    assert run(["log", *archives(cluster), "--token-file", str(file), "--until", str(found.end_position)]) == 0
    assert "secret 2" in capsys.readouterr().out
    with ArchiveClient.connect(archives(cluster)[0], credentials=AUDITOR.encode()) as archive:
        with pytest.raises(ArchiveError, match="can be read only"):
            archive.purge_recording(0)
        with pytest.raises(ArchiveError, match="can be read only"):
            archive.start_recording("aeron:udp?endpoint=127.0.0.1:0", 5)


def test_an_archive_sends_nothing_in_a_members_name(cluster: LocalCluster) -> None:
    """Responses under the session of the log, and replays into the streams of another member."""
    leader = cluster.await_leader()
    follower = next(one for one in cluster.member_ids if one != leader)
    host, _, first = cluster.ingress_endpoints[follower].rpartition(":")
    address = archive_endpoint(cluster.ingress_endpoints[leader])
    credentials = AUDITOR.encode()
    with ArchiveClient.connect(address, credentials=credentials) as archive:
        (log,) = archive.list_recordings(stream_id=LOG_STREAM_ID)
        before = refused(cluster)
        for port in range(int(first), int(first) + 5):
            channel = f"aeron:udp?endpoint={host}:{port}|session-id={log.session_id}"
            with pytest.raises(ArchiveError, match="a member listens to it there"):
                archive.start_replay(log.recording_id, channel, LOG_STREAM_ID)
        for other in (
            f"aeron:udp?endpoint={host}:4000|tags=1",
            f"aeron:udp?control={host}:4000|control-mode=dynamic",
            "aeron:ipc",
        ):
            with pytest.raises(ArchiveError, match="is refused"):
                archive.start_replay(log.recording_id, other, 5)
        with pytest.raises(ArchiveError, match="clients listen to it for their answers"):
            archive.start_replay(log.recording_id, f"aeron:udp?endpoint={host}:4000", EGRESS_STREAM_ID)
        assert refused(cluster) == before + 9
    before = refused(cluster)
    connect_request = codecs.AUTH_CONNECT_REQUEST.encode(
        correlation_id=1,
        response_stream_id=LOG_STREAM_ID,
        version=PROTOCOL_VERSION,
        response_channel=f"aeron:udp?endpoint={host}:{int(first) + 2}|session-id={log.session_id}",
        encoded_credentials=credentials,
        client_info="name=stranger",
    )
    session = f"{address}|session-id={log.session_id}"
    with stranger(session, CONTROL_STREAM_ID_DEFAULT, **cluster.client_keys) as send:
        send(connect_request)
        deadline_s = time.monotonic() + patient(10)
        while refused(cluster) == before and time.monotonic() < deadline_s:
            time.sleep(0.01)
    assert refused(cluster) == before + 1
