"""Readers that begin at a number or a time, by the index of the node's log, and without one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.monitoring.counters import counter_value
from ordo.cluster.settings.config import load_config
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.log_index.entries import ENTRY_BYTES, FILE_NAME, decode_entry, encode_entry
from ordo.deploy.launcher import LocalCluster
from ordo.follow.beginnings import AtSequence, AtTime
from ordo.follow.entries import LogEntry
from ordo.follow.reader import LogReader
from tests.clusters import await_level, ready_cluster
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
COUNT = 1000
PAYLOAD_LENGTH = 900


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node, whose log has messages and requests."""
    root = tmp_path_factory.mktemp("cluster")
    with ready_cluster("examples.counter:Counter", member_count=1, root=root) as cluster:
        await_level(cluster)
        with ClusterClient(cluster.ingress_endpoints) as client:
            for number in range(COUNT):
                payload = b"%0*d" % (PAYLOAD_LENGTH, number)
                if number % 10:
                    client.send(payload, timeout_s=patient(30))
                else:
                    client.request(payload, timeout_s=patient(30))
        yield cluster


def address(cluster: LocalCluster) -> str:
    return load_config(cluster.config_path(0)).own_member.archive


def index_of(cluster: LocalCluster) -> Path:
    return load_config(cluster.config_path(0)).cluster_dir / FILE_NAME


def read(cluster: LocalCluster, begin: int | AtSequence | AtTime, count: int) -> tuple[list[LogEntry], int]:
    """Return the first entries that have numbers, and where the reader began."""
    found: list[LogEntry] = []
    with LogReader([address(cluster)], from_position=begin) as reader:
        for entry in reader.entries(timeout_s=patient(30)):
            if entry.sequence:
                found.append(entry)
            if len(found) == count:
                return found, reader._follower._begin_position or 0  # type: ignore[attr-defined]
    raise AssertionError(f"{len(found)} entries, not {count}")


@pytest.fixture(scope="module")
def everything(cluster: LocalCluster) -> list[LogEntry]:
    found, _ = read(cluster, 0, COUNT)
    assert [entry.sequence for entry in found] == list(range(1, COUNT + 1))
    return found


def test_counters_say_what_is_indexed(cluster: LocalCluster, everything: list[LogEntry]) -> None:
    def value(kind: CounterType) -> int:
        return counter_value(cluster.aeron_dir(0), kind)

    assert value(CounterType.SEQUENCER_INDEX) == COUNT == everything[-1].sequence
    assert value(CounterType.REPLAY_INDEX_MIN_POSITION) == value(CounterType.REPLAY_INDEX_INITIAL_POSITION) == 0
    assert 0 < value(CounterType.REPLAY_INDEX_MAX_SEQUENCE) < COUNT
    assert 0 < value(CounterType.REPLAY_INDEX_MAX_POSITION) < everything[-1].position


def test_a_reader_begins_with_a_number_by_the_index(cluster: LocalCluster, everything: list[LogEntry]) -> None:
    for number in (1, 2, 500, 991, 1000):
        found, began = read(cluster, AtSequence(number), min(20, COUNT + 1 - number))
        assert found == everything[number - 1 : number - 1 + len(found)]
        assert began > 100_000 or number < 500, "from the beginning of the log"
        assert found[0].position - began < 300_000


def test_a_reader_begins_with_a_time_by_the_index(cluster: LocalCluster, everything: list[LogEntry]) -> None:
    for one in (everything[0], everything[499], everything[-1]):
        found, began = read(cluster, AtTime(one.timestamp), 1)
        assert found[0] == next(entry for entry in everything if entry.timestamp == one.timestamp)
        assert began <= found[0].position


@pytest.mark.parametrize("harm", ["missing", "cut", "bytes", "lie", "other"])
def test_a_reader_begins_rightly_without_an_index_or_with_a_wrong_one(
    cluster: LocalCluster, everything: list[LogEntry], harm: str
) -> None:
    path = index_of(cluster)
    data = path.read_bytes()
    entry = decode_entry(data[3 * ENTRY_BYTES : 4 * ENTRY_BYTES])
    assert entry is not None
    lie = encode_entry(entry._replace(sequence=entry.sequence - 7))
    wrong = {
        "cut": data[: 2 * ENTRY_BYTES + 5],
        "bytes": data[: 3 * ENTRY_BYTES] + bytes(ENTRY_BYTES) + data[4 * ENTRY_BYTES :],
        "lie": data[: 3 * ENTRY_BYTES] + lie + data[4 * ENTRY_BYTES :],
        "other": b"ORDO" + data[4:],
    }
    aside = path.with_suffix(".kept")
    path.rename(aside)
    try:
        if harm != "missing":
            path.write_bytes(wrong[harm])
        number = entry.sequence + 3
        assert read(cluster, AtSequence(number), 20)[0] == everything[number - 1 : number + 19]
        one = everything[number]
        first = next(entry for entry in everything if entry.timestamp == one.timestamp)
        assert read(cluster, AtTime(one.timestamp), 1)[0] == [first]
    finally:
        aside.rename(path)


def test_a_node_that_was_killed_goes_on_with_its_index(cluster: LocalCluster, everything: list[LogEntry]) -> None:
    before = index_of(cluster).read_bytes()
    cluster.kill(0, signal.SIGKILL)
    cluster.start_member(0)
    cluster.await_leader(patient(60))
    with ClusterClient(cluster.ingress_endpoints) as client:
        for number in range(COUNT // 2):
            client.send(b"%0*d" % (PAYLOAD_LENGTH, number), timeout_s=patient(30))
        client.request(b"0", timeout_s=patient(30))
    after = index_of(cluster).read_bytes()
    assert after.startswith(before) and len(after) > len(before)
    number = COUNT + COUNT // 4
    found, began = read(cluster, AtSequence(number), 5)
    assert [entry.sequence for entry in found] == list(range(number, number + 5))
    assert found[0].position - began < 300_000
    assert read(cluster, AtSequence(500), 3)[0] == everything[499:502]
