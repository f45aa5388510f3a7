"""Aeron's tools look into Ordo, and Ordo's into an Aeron driver."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ordo.cli import app
from ordo.cluster.monitoring.counters import counter_value, read_counters
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import LocalCluster
from ordo.transport.client.client import TransportClient
from ordo.transport.client.heartbeat import CLIENT_HEARTBEAT_TYPE_ID
from ordo.transport.inspection import driver_folder
from ordo.transport.inspection.log_inspector import LogInspector
from ordo.transport.inspection.stream_positions import backlogs
from tests.clusters import ready_cluster
from tests.patience import patient
from tests.peers.c_peer import start_c_driver
from tests.peers.java_peer import AERON_VERSIONS, JavaPeers
from tests.peers.ordo_peer import OrdoDriver, await_that, connect, exchange
from tests.peers.peer_process import LINE_TIMEOUT_S, PeerProcess
from tests.peers.relay import LossyRelay
from tests.thorough import few_of
from tests.transport.test_driver_threads import program

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.timeout(240)]
# Names and values of counters do not depend on the release of the tool, and its ClusterTool has other commands.
with_one_release = pytest.mark.parametrize("java_class_path", ["1.47.4"], indirect=True)
with_the_newest_release = pytest.mark.parametrize("java_class_path", AERON_VERSIONS[-1:], indirect=True)
ALLOW_TERMINATION = "io.aeron.driver.DefaultAllowTerminationValidator"
NO_FILE = (1, "java.nio.file.NoSuchFileException")
OF_THE_RECORDING_LOG = {
    "recording-log": NO_FILE,
    "seed-recording-log-from-snapshot": NO_FILE,
    "invalidate-latest-snapshot": NO_FILE,
    "describe-latest-cm-snapshot": NO_FILE,
    "sort-recording-log": (255, ""),
    "validate-recording-log": (255, "Member [0]: Failed to find control toggle"),
    "recovery-plan 1": (1, "AeronArchive.Context.controlRequestChannel must be set"),
}
"""Commands, the status they end with, and what they say."""
SAMPLES = "io.aeron.samples"
CLUSTER_TOOL = "io.aeron.cluster.ClusterTool"
STAT_LINE = re.compile(r" *(\d+): +([-\d,]+) - (.*)")
STREAM_ID = 77
JAVA_NAME = "java-echo"
LOOKS_MAX = 5


@with_one_release
def test_counters_of_an_ordo_node(java: JavaPeers, tmp_path: Path) -> None:
    """AeronStat and CountersReader find what Ordo's own reader finds: ids, types, owners, labels; values that rest."""
    with LocalCluster("ordo.bench.loads.echo:Echo", member_count=1, root=tmp_path) as cluster:
        folder = cluster.aeron_dir(cluster.await_leader(60))

        def are_named() -> bool | None:
            """Clients add their names to the labels of their heartbeats when they have first seen those counters."""
            beats = [one.label for one in read_counters(folder) if one.type_id == CLIENT_HEARTBEAT_TYPE_ID]
            return (len(beats) == 2 and all(" name=" in label for label in beats)) or None

        cluster.await_value(are_named, "the names of node and service")
        ours = {one.counter_id: one for one in read_counters(folder)}
        lines = java.run("Counters", folder)
        theirs = {int(words[0]): words for words in (line.split("\t") for line in lines)}
        assert theirs.keys() == ours.keys()
        for counter_id, (_, type_id, value, registration_id, owner_id, label) in theirs.items():
            one = ours[counter_id]
            assert (int(type_id), label) == (one.type_id, one.label)
            assert (int(registration_id), int(owner_id)) == (one.registration_id, one.owner_id)
            if one.type_id == CounterType.NODE_ROLE:
                assert int(value) == one.value == 2
        shown = [STAT_LINE.match(line) for line in java.run(f"{SAMPLES}.AeronStat", "watch=false", aeron_dir=folder)]
        assert {int(line[1]): line[3] for line in shown if line} == {key: one.label for key, one in ours.items()}


@with_one_release
def test_streams_of_an_ordo_driver(
    java: JavaPeers, start_driver: Callable[..., OrdoDriver], free_port: Callable[[], int]
) -> None:
    """StreamStat and BacklogStat find the stream, LossStat its loss, ErrorStat the error, DriverTool the process."""
    driver = start_driver()
    port = free_port()
    with LossyRelay(port, loss=0.02) as relay, driver.connect() as client:
        subscription = client.add_subscription(f"aeron:udp?endpoint=127.0.0.1:{port}", STREAM_ID)
        publication = client.add_publication(f"aeron:udp?endpoint=127.0.0.1:{relay.port}", STREAM_ID)
        await_that(lambda: publication.is_connected and subscription.is_connected, client, "the connection")
        exchange(client, publication, subscription, [10_000] * 200)
        driver.driver.record_error("a test of the error log")

        def run(tool: str, *arguments: str) -> str:
            return "\n".join(run_beside(client, java, tool, *arguments, aeron_dir=driver.directory))

        position = publication.position
        assert f"sessionId={publication.session_id} streamId={STREAM_ID}" in run("StreamStat")
        assert f"is at position {position}" in run("BacklogStat")
        assert re.search(rf",{publication.session_id},{STREAM_ID},aeron:udp", run("LossStat"))
        assert "a test of the error log" in run("ErrorStat")
        assert run("DriverTool", "pid").strip().isdigit()


@with_one_release
def test_cluster_tool(java: JavaPeers, tmp_path: Path) -> None:
    """ClusterTool describes a node, and suspends, resumes, snapshots and shuts the cluster down through its toggle."""
    with ready_cluster("ordo.bench.loads.echo:Echo", root=tmp_path) as cluster:
        leader = cluster.await_leader(60)

        def tool(command: str, member_id: int = leader) -> str:
            return "\n".join(java.run(CLUSTER_TOOL, cluster.data_dir(member_id) / "cluster", command))

        assert tool("pid").strip() == str(cluster.pid(leader))
        described = tool("describe")
        assert "componentType=CONSENSUS_MODULE" in described and "componentType=CONTAINER" in described
        assert f"aeronDirectory='{cluster.aeron_dir(leader)}'" in described
        assert "distinct errors observed" in tool("errors")
        for member_id in cluster.member_ids:
            listed = tool("list-members", member_id)
            assert f"leaderMemberId={leader}, memberId={member_id}" in listed
            assert all(endpoint in listed for endpoint in cluster.ingress_endpoints.values())

        def ordered(action: str) -> int:
            """Who led and did it: a busy machine may have elected another one meanwhile, who is not ready yet."""

            def applied() -> int | None:
                leader = cluster.await_leader()
                said = tool(action, leader)
                done = f"{action.upper()} applied successfully" in said
                assert done or "is not the leader" in said or "toggle value = INACTIVE" in said
                return leader if done else None

            return cluster.await_value(applied, action, timeout_s=60)

        ordered("suspend")
        ordered("resume")
        leader = ordered("snapshot")
        assert counter_value(cluster.aeron_dir(leader), CounterType.SNAPSHOT_COUNT) == 1
        follower = next(member_id for member_id in cluster.member_ids if member_id != leader)
        assert "applied successfully" not in tool("snapshot", follower)
        ordered("shutdown")
        cluster.await_value(
            lambda: not any(map(cluster.is_running, cluster.member_ids)) or None, "the end of all nodes"
        )


@with_the_newest_release
def test_cluster_tool_finds_no_recording_log(java: JavaPeers, tmp_path: Path) -> None:
    """What reads recording.log, or asks an archive at Aeron's default channel, fails and changes nothing."""
    with LocalCluster("ordo.bench.loads.echo:Echo", member_count=1, root=tmp_path) as cluster:
        folder = cluster.data_dir(cluster.await_leader(60)) / "cluster"

        def tool(command: str) -> tuple[int, str]:
            done = subprocess.run(
                java.command(CLUSTER_TOOL, folder, *command.split()),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=patient(LINE_TIMEOUT_S),
                check=False,
            )
            return done.returncode, done.stdout + done.stderr

        files = sorted(folder.iterdir())
        assert tool("is-leader") == (0, "")
        assert tool("backup-query") == (255, "not a cluster backup node\n")
        for command, (status, said) in OF_THE_RECORDING_LOG.items():
            seen = tool(command)
            assert seen[0] == status and said in seen[1], (command, seen)
        assert sorted(folder.iterdir()) == files


@with_one_release
def test_ordo_stat_of_a_java_driver(java: JavaPeers, shm_path: Path, free_port: Callable[[], int]) -> None:
    folder = shm_path / "java"
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
    peer = java.start("EchoStream", folder, "launch", channel, 1, "aeron:ipc", 2, "exclusive")
    peer.await_line("ready")
    named = f"name={JAVA_NAME}"
    with connect(str(folder), "") as client:
        await_that(lambda: any(named in one.label for one in read_counters(folder)), client, "the client's name")
        shown = CliRunner().invoke(app, ["stat", "--dir", str(folder)])
        theirs = [line.split("\t") for line in java.run("Counters", folder)]
    assert shown.exit_code == 0
    lines = [line.split(maxsplit=3) for line in shown.stdout.splitlines()]
    assert [(words[0], words[1], words[3]) for words in lines] == [
        (words[0], words[1], words[5].strip()) for words in theirs
    ]
    errors = CliRunner().invoke(app, ["errors", "--dir", str(folder)])
    assert errors.exit_code == 0 and "no errors" in errors.stdout
    peer.tell("end")
    peer.finish()


@pytest.mark.parametrize("media_driver", few_of(["ordo", "java", "c"], ["java"]))
def test_ordo_tools_agree_with_aerons(
    java: JavaPeers, programs: Path, shm_path: Path, free_port: Callable[[], int], media_driver: str
) -> None:
    """Streams, backlogs, losses, frames and the pid: the same numbers of one driver, and when it is dead."""
    folder = shm_path / "driver"
    with ExitStack() as stack:
        peer: PeerProcess | subprocess.Popen[bytes] | subprocess.Popen[str]
        if media_driver == "ordo":
            peer = stack.enter_context(program(folder, "--threads", "dedicated"))
        elif media_driver == "c":
            peer = stack.enter_context(start_c_driver(programs, folder))
        else:
            unused = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
            peer = java.start("EchoStream", folder, "launch", unused, 1, "aeron:ipc", 2, "exclusive")
            peer.await_line("ready")
        port = free_port()
        relay = stack.enter_context(LossyRelay(port, loss=0.02))
        client = stack.enter_context(connect(str(folder)))
        subscription = client.add_subscription(f"aeron:udp?endpoint=127.0.0.1:{port}", STREAM_ID)
        publication = client.add_exclusive_publication(
            f"aeron:udp?endpoint=127.0.0.1:{relay.port}|term-length=1m", STREAM_ID
        )
        await_that(lambda: publication.is_connected and subscription.is_connected, client, "the connection")
        exchange(client, publication, subscription, [10_000] * 200)

        options: dict[str, Any] = {"aeron_dir": folder, "aeron_log_inspector_scanOverZeroes": "true"}

        def run(tool: str, *arguments: object) -> list[str]:
            return run_beside(client, java, tool, *arguments, **options)

        compare_streams(lambda: run("StreamStat"), folder)
        await_that(lambda: publication.offer(bytes(10_000)) > 0, client, "room")
        unread_bytes = publication.position - subscription.images[0].position

        def behind_bytes() -> list[int]:
            return [one[2] for one in backlogs_of(folder) if one[0] == "subscriber"]

        await_that(lambda: behind_bytes() == [unread_bytes], client, "what the subscriber does not read")
        compare_backlogs(lambda: run("BacklogStat"), folder)
        compare_losses(run("LossStat"), folder)
        log = folder / "publications" / f"{publication.registration_id}.logbuffer"
        compare_frames(run("LogInspector", log), log)
        image = next((folder / "images").iterdir())
        compare_frames(run("LogInspector", image), image)
        assert run("DriverTool", "pid")[-1].strip() == str(driver_folder.driver_pid(folder))
        peer.kill()
        compare_streams(lambda: java.run(f"{SAMPLES}.StreamStat", **options), folder)
        compare_losses(java.run(f"{SAMPLES}.LossStat", **options), folder)


def run_beside(client: TransportClient, java: JavaPeers, tool: str, *arguments: object, **options: Any) -> list[str]:
    """What a tool of Aeron prints, while a client says to its driver that it lives."""
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(java.run, f"{SAMPLES}.{tool}", *arguments, **options)
        await_that(said.done, client, tool)
    return said.result()


def compare_streams(look: Callable[[], list[str]], folder: Path) -> None:
    """What moves between two looks, such as the limit of a sender that has just been told of it, is looked at again."""
    for _ in range(LOOKS_MAX):
        theirs = streams_in(look())
        shown = {name for *_, name, _, _ in theirs}
        ours = {one for one in streams_of(folder) if one[3] in shown}
        if theirs == ours:
            break
    assert theirs == ours


def streams_in(lines: list[str]) -> set[tuple[Any, ...]]:
    """`sessionId=1 streamId=2 channel=c : snd-pos:registration:value ...`, one line a session, stream and channel."""
    found = set()
    for line in lines:
        head = re.match(r"sessionId=(-?\d+) streamId=(-?\d+) channel=(.*) : ", line)
        for name, registration_id, value in re.findall(
            r"([\w-]+)(?: \(\w+\))?:(-?\d+):(-?\d+)", line[head.end() :] if head else ""
        ):
            assert head
            found.add((int(head[1]), int(head[2]), head[3], name, int(registration_id), int(value)))
    assert {"snd-pos", "snd-lmt", "pub-pos", "pub-lmt", "rcv-hwm", "rcv-pos", "sub-pos"} <= {one[3] for one in found}
    return found


def streams_of(folder: Path) -> set[tuple[Any, ...]]:
    """The same by the project's own tool."""
    return {
        (one.session_id, one.stream_id, one.channel, one.name.partition(" ")[0], one.registration_id, one.value)
        for one in driver_folder.read_streams(folder)
    }


def compare_backlogs(look: Callable[[], list[str]], folder: Path) -> None:
    for _ in range(LOOKS_MAX):
        theirs = backlogs_in(look())
        ours = backlogs_of(folder)
        if theirs == ours:
            break
    assert theirs == ours


def backlogs_in(lines: list[str]) -> set[tuple[Any, ...]]:
    """Who, its id, and: position and room of a publisher, what a sender has yet to send and its room, a receiver's
    position, what a subscriber has yet to read."""
    patterns = {
        "publisher": r"for publisher (\d+) the last sampled position is (\d+) \(~(\d+) bytes before back-pressure\)",
        "sender": r"sender (\d+) has to send (\d+) bytes \((\d+) bytes remaining in the sender window\)",
        "receiver": r"receiver (\d+) is at position (\d+)",
        "subscriber": r"subscriber (\d+) has (\d+) backlog bytes",
    }
    text = "\n".join(lines)
    return {(who, *map(int, found)) for who, pattern in patterns.items() for found in re.findall(pattern, text)}


def backlogs_of(folder: Path) -> set[tuple[Any, ...]]:
    """The same by `ordo backlog`."""
    found: set[tuple[Any, ...]] = set()
    for one in backlogs(driver_folder.read_streams(folder)):
        numbers = {
            "publisher": (one.position, one.room_bytes),
            "sender": (one.behind_bytes, one.room_bytes),
            "receiver": (one.position,),
            "subscriber": (one.behind_bytes,),
        }
        found.add((one.party, one.registration_id, *numbers[one.party]))
    return found


def test_each_ends_the_others_driver_where_it_may(java: JavaPeers, shm_path: Path) -> None:
    """DriverTool says no token: it ends a driver that takes any, and none that wants its own."""
    settings = shm_path / "driver.toml"
    settings.write_text("termination_allowed = true\n")

    def await_driver(folder: Path) -> None:
        with connect(str(folder)) as client:
            client.add_publication("aeron:ipc", 1)

    with program(shm_path / "any", "--config", str(settings)) as process:
        await_driver(shm_path / "any")
        java.run(f"{SAMPLES}.DriverTool", "terminate", aeron_dir=shm_path / "any")
        assert process.wait(patient(LINE_TIMEOUT_S)) == 0
    with program(shm_path / "own", "--termination-token", "own") as process:
        await_driver(shm_path / "own")
        java.run(f"{SAMPLES}.DriverTool", "terminate", aeron_dir=shm_path / "own")
        await_driver(shm_path / "own")
        assert process.poll() is None
    folder = shm_path / "java"
    command = java.command(
        "io.aeron.driver.MediaDriver", aeron_dir=folder, aeron_driver_termination_validator=ALLOW_TERMINATION
    )
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            await_driver(folder)
            ended = CliRunner().invoke(app, ["driver", "terminate", "--dir", str(folder)])
            assert ended.exit_code == 0, ended.output
            process.wait(patient(LINE_TIMEOUT_S))
        finally:
            process.kill()


def compare_losses(theirs: list[str], folder: Path) -> None:
    rows = [line.split(",") for line in theirs if line and line[0].isdigit() and "entries" not in line]
    ours = driver_folder.read_loss_report(folder)
    assert ours and len(rows) == len(ours)
    for row, one in zip(rows, ours, strict=True):
        assert [int(row[0]), int(row[1]), int(row[4]), int(row[5])] == [
            one.observation_count, one.total_bytes_lost, one.session_id, one.stream_id,
        ]  # fmt: skip
        assert row[6:] == [one.channel, one.source]


def compare_frames(theirs: list[str], log: Path) -> None:
    """`offset: DATA Header{frame-length=1 ... }`, term after term."""
    pattern = re.compile(
        r"(\d+): DATA Header\{frame-length=(\d+) version=0 flags=(\d+) type=(\d+) term-offset=(\d+) "
        r"session-id=(-?\d+) stream-id=(-?\d+) term-id=(-?\d+) reserved-value=(-?\d+)"
    )
    found = [match.groups() for line in theirs if (match := pattern.match(line)) and match[2] != "0"]
    inspector = LogInspector(str(log))
    ours = [
        tuple(map(str, (one.offset, one.frame_length, f"{one.flags:08b}", int(one.type_name == "DATA"), *one[5:10])))
        for number in range(3)
        for one in inspector.frames(number, 0)
    ]
    inspector.close()
    assert len(ours) > 100 and ours == found
