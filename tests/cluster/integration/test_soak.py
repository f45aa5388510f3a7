"""Half of what the machine can do, for as long as is wanted, with a snapshot each minute: nothing grows.

`make test SUITE=soak` has five minutes of it each night; `make soak MINUTES=60` is the long form, and prints what it
saw.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from ordo import ClusterClient
from ordo.bench.loads.native_load import NativeLoad
from ordo.bench.node_cost import family
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import counter_of, errors_of
from tests.cluster.integration.conftest import StartCluster
from tests.cluster.integration.soak_service import STARTED_EVENT
from tests.cluster.integration.test_snapshots import take_snapshot
from tests.transport.test_soak import memory_bytes

MINUTES = float(os.environ.get("SOAK_MINUTES", "0.2"))
SNAPSHOT_S = 60 if MINUTES >= 10 else 3
pytestmark = [pytest.mark.soak, pytest.mark.slow, pytest.mark.timeout(MINUTES * 60 + 300)]

SIZE_BYTES = 64
WINDOW = 512
TRIAL_S = 2.0
TURN_S = 0.05
BEHIND_COUNT = 20_000
SAMPLES_MIN = 12
WARM_UP_SHARE = 1 / 3
"""So much of the time passes until the log is as long as it will be: until `keep` snapshots and one more are there."""
GROWTH_MAX = 1.15
SLACK_BYTES = 8 << 20
SLACK_DESCRIPTORS = 8


class Use(NamedTuple):
    """What a member takes of its machine, node and container together."""

    disk_bytes: int
    memory_bytes: int
    shared_memory_bytes: int
    descriptors: int


SLACK = Use(SLACK_BYTES, SLACK_BYTES, SLACK_BYTES, SLACK_DESCRIPTORS)


def room_bytes(folder: Path) -> int:
    """What the files below a folder occupy; one may go while the others are counted."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def use_of(cluster: LocalCluster, member_id: int) -> Use:
    node, *containers = family(cluster.pid(member_id))
    lasting = [node, *containers[:1]]  # a second child is the copy that writes a snapshot
    return Use(
        room_bytes(cluster.data_dir(member_id)),
        sum(map(memory_bytes, lasting)),
        room_bytes(cluster.aeron_dir(member_id)),
        sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in lasting),
    )


def send_at_half_speed(cluster: LocalCluster, load: NativeLoad) -> dict[int, list[Use]]:
    """What each member took, at even distances of time."""
    trial = int(load.sustained(TRIAL_S, 2_000, WINDOW) * TURN_S / 2)
    seen: dict[int, list[Use]] = defaultdict(list)
    begun_s = time.monotonic()
    seconds = max(MINUTES * 60, SAMPLES_MIN)
    every_s = max(1.0, min(SNAPSHOT_S / 4, seconds / SAMPLES_MIN))
    turns = sampled = 0
    while (now_s := time.monotonic() - begun_s) < seconds:
        if now_s < turns * TURN_S:
            load.keep()
            time.sleep(0.002)
            continue
        load.pipelined(trial, WINDOW)
        turns += 1
        if now_s >= sampled * every_s:
            sampled += 1
            for member_id in cluster.member_ids:
                seen[member_id].append(use_of(cluster, member_id))
    return seen


def demand_flat(member_id: int, samples: list[Use]) -> None:
    """The later half of what comes behind the warm-up took no more than the earlier one."""
    steady = samples[int(len(samples) * WARM_UP_SHARE) :]
    middle = len(steady) // 2
    for name, slack in SLACK._asdict().items():
        before, after = (max(getattr(one, name) for one in half) for half in (steady[:middle], steady[middle:]))
        print(f"member {member_id}: {name} at most {before}, then {after}")
        assert after <= before * GROWTH_MAX + slack, (member_id, name, [getattr(one, name) for one in samples])


def starts_of(cluster: LocalCluster, member_id: int) -> list[int]:
    """With how many messages executed each container of a member began."""
    return [int(str(event["total"])) for event in cluster.log_events(member_id, STARTED_EVENT)]


def newest_start(cluster: LocalCluster, member_id: int) -> int:
    """With how many messages the second container of a member began, once it has."""
    return cluster.await_value(lambda: next(iter(starts_of(cluster, member_id)[1:]), None), "the container's start")


def restart_all(cluster: LocalCluster, executed: int) -> float:
    """Kills all members and starts them; seconds until a client hears that all these messages are executed."""
    for member_id in cluster.member_ids:
        cluster.kill(member_id)
    begun_s = time.monotonic()
    cluster.start()
    with ClusterClient(cluster.ingress_endpoints) as client:
        assert int(client.query(b"", timeout_s=60).payload.split()[0]) == executed
    return time.monotonic() - begun_s


def test_nothing_grows_and_a_restart_is_short_whatever_ran_before(start_cluster: StartCluster) -> None:
    cluster = start_cluster(
        "tests.cluster.integration.soak_service:Tally",
        cluster={
            "log_term_length": "1m",
            "segment_length": "4m",
            "leader_heartbeat_timeout": "10s",
            "session_timeout": "60s",
        },
        tables={"snapshot": {"every_seconds": SNAPSHOT_S, "keep": 2}, "retention": {"bytes": 0}},
    )
    with NativeLoad(cluster.ingress_endpoints, SIZE_BYTES) as load:
        seen = send_at_half_speed(cluster, load)
        take_snapshot(cluster, others_come=True)
        with ClusterClient(cluster.ingress_endpoints) as client:
            (snapshot_total, _) = map(int, client.query(b"", timeout_s=60).payload.split())
        load.pipelined(BEHIND_COUNT, WINDOW)
    executed = snapshot_total + BEHIND_COUNT
    print(f"\n{executed} messages of {SIZE_BYTES} bytes")
    for member_id, samples in seen.items():
        demand_flat(member_id, samples)
    took_s = restart_all(cluster, executed)
    print(f"a restart with {BEHIND_COUNT} messages behind the snapshot took {took_s:.2f} s")
    for member_id in cluster.member_ids:
        assert newest_start(cluster, member_id) >= snapshot_total
        assert counter_of(cluster, member_id, CounterType.DISTRUST) == 0, errors_of(cluster, member_id)
