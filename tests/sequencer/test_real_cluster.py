"""The log of real processes, read over the network while nodes are killed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ordo.archive.client.client import ArchiveClient
from ordo.archive.protocol.codes import ErrorCode
from ordo.cli import app
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.settings.config import load_config
from ordo.cluster.wire.streams import LOG_STREAM_ID
from ordo.deploy.launcher import LocalCluster
from ordo.follow.beginnings import AtSequence
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.reader import LogReader
from ordo.runtime.errors import ArchiveError
from tests.cluster.integration.conftest import PATIENT
from tests.clusters import STEADY, ready_cluster
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def endpoint(cluster: LocalCluster, member_id: int) -> str:
    return load_config(cluster.config_path(member_id)).own_member.archive


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalCluster]:
    """Three nodes; a parameter is the table `cluster` of their configuration."""
    with ready_cluster(
        "examples.counter:Counter", root=tmp_path, cluster=getattr(request, "param", {}), heartbeat=STEADY
    ) as cluster:
        yield cluster


def read_until(
    reader: LogReader, client: ClusterClient, seen: list[LogEntry], is_enough: Callable[[], object], timeout_s: float
) -> bool:
    """Reads, and lets the client's driver send what is left; whether it was enough in time."""
    deadline_s = time.monotonic() + patient(timeout_s)
    while not is_enough() and time.monotonic() < deadline_s:
        client.poll()
        reader.poll(lambda entry: seen.append(entry) if entry.kind is EntryKind.MESSAGE else None)
    return bool(is_enough())


def test_every_message_is_read_once_while_nodes_are_killed(cluster: LocalCluster) -> None:
    """`send` may lose what is under way to a leader that is killed, so a marker says when the client has the next."""
    addresses = {member_id: endpoint(cluster, member_id) for member_id in cluster.member_ids}
    sent: list[bytes] = []
    seen: list[LogEntry] = []
    with (
        ClusterClient(cluster.ingress_endpoints) as client,
        LogReader(list(addresses.values()), silence_s=0.5) as reader,
    ):
        for round_number in range(3):
            for _ in range(200):
                sent.append(b"%d " % len(sent) + b"x" * (len(sent) * 31 % 4000))
                client.send(sent[-1], timeout_s=patient(30))
                client.poll()
            last = sent[-1]
            assert read_until(reader, client, seen, lambda: seen and seen[-1].payload == last, 30), reader.problem  # noqa: B023
            if round_number == 2:
                break
            source = reader.source or ""
            (read,) = [member_id for member_id, address in addresses.items() if source.endswith(address)]
            cluster.kill(read)
            cluster.await_leader(60)
            for number in range(60):
                client.send(b"marker %d" % number, timeout_s=patient(30))
                if read_until(reader, client, seen, lambda: seen[-1].payload.startswith(b"marker"), 0.5):
                    break
            cluster.restart(read)
    assert [entry.payload for entry in seen if not entry.payload.startswith(b"marker")] == sent
    assert sorted({entry.position for entry in seen}) == [entry.position for entry in seen]


@pytest.mark.parametrize("cluster", [PATIENT], indirect=True)
def test_what_strangers_may_do_to_a_nodes_archive(cluster: LocalCluster) -> None:
    leader = cluster.await_leader()
    with ClusterClient(cluster.ingress_endpoints) as client:
        for number in range(50):
            client.send(b"%d" % number)
        client.send(b"all are committed", until="executed")
        with ArchiveClient.connect(endpoint(cluster, leader)) as archive:
            (log,) = archive.list_recordings(stream_id=LOG_STREAM_ID)
            for refused in (
                lambda: archive.truncate_recording(log.recording_id, 0),
                lambda: archive.purge_recording(log.recording_id),
                lambda: archive.stop_recording_by_id(log.recording_id),
                lambda: archive.start_recording("aeron:udp?endpoint=127.0.0.1:9", 1),
                lambda: archive.extend_recording(log.recording_id, "aeron:ipc", LOG_STREAM_ID),
                lambda: archive.stop_all_replays(),
            ):
                with pytest.raises(ArchiveError) as error:
                    refused()
                assert error.value.code == ErrorCode.UNAUTHORISED_ACTION
            committed = archive.max_recorded_position(log.recording_id)
            assert committed > 0
            assert (archive.recording_position(log.recording_id) or 0) >= committed
            assert len(list(archive.replay(log.recording_id))) >= 50
        client.send(b"still there")
    assert cluster.await_leader() == leader


def test_filters_live_and_the_command_line(cluster: LocalCluster) -> None:
    addresses = [endpoint(cluster, member_id) for member_id in cluster.member_ids]
    with ClusterClient(cluster.ingress_endpoints) as first, ClusterClient(cluster.ingress_endpoints) as second:
        for number in range(20):
            (first if number % 2 else second).send(b"%d" % number, timeout_s=patient(30), until="sequenced")
        with LogReader(addresses, session_ids=[first.session_id], kinds=[EntryKind.MESSAGE]) as reader:
            odd = list(islice(reader, 4))
            assert reader.position is not None and reader.position >= odd[-1].position, "filtered ones may be behind it"
            reader.poll(odd.append, 1)
            odd += list(islice(reader.entries(), 2))
            assert list(reader.entries(until_position=odd[-1].position)) == []
            odd += list(islice(reader, 10 - len(odd)))
            assert list(reader.entries(timeout_s=1)) == []
            odd_ends = [entry.position for entry in odd]
        with LogReader(addresses, session_ids=[first.session_id], kinds=[EntryKind.MESSAGE]) as reader:
            first_five = list(reader.entries(until_position=odd_ends[5] - 1, timeout_s=patient(30)))
            assert [*first_five, *islice(reader, 5)] == odd
        assert [entry.payload for entry in odd] == [b"%d" % number for number in range(20) if number % 2]
        with LogReader(addresses, from_position="live", kinds=[EntryKind.MESSAGE]) as reader:
            while reader.position is None:  # it knows none before it has found a node
                assert list(reader.entries(timeout_s=1)) == []
            first.send(b"news", timeout_s=patient(30))
            assert next(reader.entries(timeout_s=patient(10))).payload == b"news"
        end, by_name = odd[-1].position, {entry.payload: entry for entry in odd}
        with LogReader(addresses, kinds=[EntryKind.MESSAGE], from_position=AtSequence(1)) as reader:
            messages = list(reader.entries(until_position=end, timeout_s=patient(30)))
        numbers = {entry.position: entry.sequence for entry in messages}
        assert list(numbers.values()) == list(range(1, len(messages) + 1))
        with LogReader(addresses, from_position=odd[0].position) as reader:
            everything = list(reader.entries(until_position=end, timeout_s=patient(30)))
        found = {one.position: one.sequence for one in everything if one.kind is EntryKind.MESSAGE}
        assert found.items() <= numbers.items() and found
        with LogReader(addresses, from_position=AtSequence(numbers[by_name[b"7"].position])) as reader:
            assert next(iter(reader)).payload == b"7"
    wanted = str(numbers[by_name[b"7"].position])
    shown = CliRunner().invoke(app, ["log", *addresses, "--from-sequence", wanted, "--until", str(end)])
    assert f" sequence={wanted} " in shown.stdout.splitlines()[0] and "b'7'" in shown.stdout.splitlines()[0]
    shown = CliRunner().invoke(app, ["log", *addresses, "--from", f"{odd[0].timestamp}ms", "--until", str(end)])
    assert "b'1'" in shown.stdout, shown.output
    shown = CliRunner().invoke(app, ["log", *addresses, "--from", str(odd[0].position), "--timeout", f"{patient(2):g}"])
    assert shown.exit_code == 0, shown.output
    assert "message" in shown.stdout
    assert "b'3'" in shown.stdout
    assert "b'1'\n" not in shown.stdout


def test_a_node_told_to_serve_nobody_has_no_archive_port(tmp_path: Path) -> None:
    with ready_cluster("examples.counter:Counter", member_count=1, root=tmp_path, node={"max_replays": 0}) as cluster:
        with pytest.raises(ArchiveError, match="is it running"):
            ArchiveClient.connect(endpoint(cluster, 0), message_timeout_s=0.5)
        assert cluster.kill(0, signal.SIGTERM) == 0


def test_readers_that_have_caught_up_share_one_replay_and_a_stopped_one_goes_on_by_itself(tmp_path: Path) -> None:
    """Ten readers of a node that runs four replays at most."""
    with (
        LocalCluster("examples.counter:Counter", root=tmp_path, member_count=1) as cluster,
        ClusterClient(cluster.ingress_endpoints) as client,
        ExitStack() as stack,
    ):
        address = endpoint(cluster, cluster.await_leader(60))
        client.send(b"first", timeout_s=patient(30))
        seen: list[list[bytes]] = []
        readers: list[LogReader] = []

        def read(which: list[LogReader], is_enough: Callable[[], bool]) -> None:
            deadline_s = time.monotonic() + patient(60)
            while not is_enough() and time.monotonic() < deadline_s:
                client.poll()
                for reader in which:
                    reader.poll(lambda entry: seen[readers.index(reader)].append(entry.payload))  # noqa: B023
            assert is_enough(), [(reader.is_live, reader.problem) for reader in which]

        for _ in range(10):
            readers.append(stack.enter_context(LogReader([address])))
            seen.append([])
            read(readers, lambda: readers[-1].is_live)
        (slow, *others) = readers
        for number in range(40):
            for _ in range(25):
                client.send(b"%d" % number + b"." * 1000, timeout_s=patient(30))
            client.send(b"end %d" % number, timeout_s=patient(30))
            read(others, lambda: all(found[-1] == b"end %d" % number for found in seen[1:]))  # noqa: B023
        read([slow], lambda: seen[0][-1:] == [b"end 39"])
        assert all(found == seen[0] for found in seen)
        assert all(reader.is_live for reader in others)
