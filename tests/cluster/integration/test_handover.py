"""Leaders that stand still, and leaders that are told to go."""

from __future__ import annotations

import signal
import time

import pytest

from ordo.cluster.wire.counters.counter_types import CounterType
from tests.cluster.integration.agreement import await_value, counter_of, demand_agreement
from tests.cluster.integration.conftest import PATIENT, StartCluster
from tests.cluster.integration.test_transfer import has_acked
from tests.cluster.integration.writer import Writer
from tests.patience import factor

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
HEARTBEAT_S = round(2 * min(3.0, factor()))
"""Longer than a busy machine holds up a leader that nobody stops."""
LONGER = {"leader_heartbeat_timeout": f"{HEARTBEAT_S}s"}
STOPPED_S = 1.5 * HEARTBEAT_S
"""Longer than a follower waits for a leader."""
IMAGE_LIVENESS_S = 10.0
TRIALS_MAX = 3


def test_a_leader_that_stood_still_rejoins(start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(1000)
        old = cluster.await_leader()
        old_term = cluster.leader_term(old)
        target = writer.acked + 500
        writer.run(lambda: writer.acked > target)
        cluster.send_signal(old, signal.SIGSTOP)
        writer.run(lambda: cluster.leader() != old)
        writer.run(has_acked(writer, writer.acked + 500))  # it goes on while the old leader stands still
        cluster.send_signal(old, signal.SIGCONT)
        writer.write(1000)
        assert cluster.leader_term(cluster.await_leader()) > old_term
        await_value(lambda: cluster.leader_term(old) != old_term or None, "the old leader's resignation")
        demand_agreement(cluster, [writer])


def test_a_leader_told_to_end_hands_over(start_cluster: StartCluster) -> None:
    cluster = start_cluster(cluster=PATIENT)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(1000)
        writer.longest_gap_s = 0.0
        old = cluster.await_leader()
        target = writer.acked + 500
        writer.run(lambda: writer.acked > target)
        cluster.send_signal(old, signal.SIGTERM)
        writer.run(lambda: writer.acked > target + 2000)
        assert cluster.wait(old) == 0, cluster.logs(old)
        print(f"\ngap seen by the client after SIGTERM of the leader: {writer.longest_gap_s * 1000:.0f} ms")
        assert old not in writer.new_leaders
        assert writer.longest_gap_s < float(PATIENT["leader_heartbeat_timeout"].rstrip("s")), "nobody waited for it"
        cluster.start_member(old)
        demand_agreement(cluster, [writer])


def test_a_follower_that_stood_still_goes_on(start_cluster: StartCluster) -> None:
    cluster = start_cluster(cluster=LONGER)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(500)
        leader = cluster.await_leader()
        follower = next(one for one in cluster.member_ids if one != leader)
        leadership_term_id = cluster.leader_term(leader)
        cluster.send_signal(follower, signal.SIGSTOP)
        stopped_s = time.monotonic()
        writer.run(lambda: time.monotonic() > stopped_s + STOPPED_S)
        cluster.send_signal(follower, signal.SIGCONT)
        writer.write(1000)
        demand_agreement(cluster, [writer])
        assert cluster.leader() == leader and cluster.leader_term(leader) == leadership_term_id
        assert counter_of(cluster, leader, CounterType.LEADERSHIP_TERM_ID) == leadership_term_id


def test_a_follower_left_far_behind_does_not_wait_for_its_image_to_die(start_cluster: StartCluster) -> None:
    """The live log is further ahead than its buffers reach back: the member catches up by a replay.

    The shortest of a few times counts: other work of the machine can make any one of them longer.
    """
    cluster = start_cluster(cluster={"log_term_length": "256k", "segment_length": "1m", **LONGER})
    took_s: list[float] = []
    with Writer(cluster.ingress_endpoints, padding=1000) as writer:
        writer.write(500)
        leader = cluster.await_leader()
        follower = next(one for one in cluster.member_ids if one != leader)
        leadership_term_id = cluster.leader_term(leader)
        while not took_s or (min(took_s) >= IMAGE_LIVENESS_S - 2 and len(took_s) < TRIALS_MAX):
            cluster.send_signal(follower, signal.SIGSTOP)
            target = writer.acked + 4000
            writer.run(has_acked(writer, target))
            cluster.send_signal(follower, signal.SIGCONT)
            continued_s = time.monotonic()
            demand_agreement(cluster, [writer])
            took_s.append(time.monotonic() - continued_s)
        assert min(took_s) < IMAGE_LIVENESS_S - 2
        assert cluster.leader_term(leader) == leadership_term_id
