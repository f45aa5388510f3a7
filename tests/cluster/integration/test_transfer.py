"""Leaders that hand over, on demand and before they end, on real processes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from subprocess import CompletedProcess

import pytest

from tests.cluster.integration.agreement import await_that, demand_agreement
from tests.cluster.integration.command import demand_one_line, ordo
from tests.cluster.integration.conftest import PATIENT, StartCluster
from tests.cluster.integration.writer import Writer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def has_acked(writer: Writer, count: int) -> Callable[[], bool]:
    return lambda: writer.acked > count


def test_leadership_goes_round_and_no_entry_is_lost(start_cluster: StartCluster) -> None:
    """Each member in turn is told to take over while a client writes."""
    cluster = start_cluster(cluster=PATIENT)
    with Writer(cluster.ingress_endpoints) as writer, ThreadPoolExecutor(1) as pool:
        writer.write(1000)
        leader = cluster.await_leader()
        gaps_s = []
        for step in range(1, 5):
            target = (leader + 1) % len(cluster.member_ids)
            config = str(cluster.config_path(leader))
            goal = writer.acked + 500
            writer.run(has_acked(writer, goal))
            writer.longest_gap_s = 0.0
            done = None
            while done is None or "no member that was asked could take over" in done.stderr:  # it has not caught up
                order = pool.submit(ordo, "cluster", "transfer", "--config", config, "--to", str(target))
                writer.run(order.done)
                done = order.result()
            assert done.returncode == 0 and done.stdout == f"member {leader} handed over to {target}\n", done
            goal = writer.acked + 1000
            writer.run(has_acked(writer, goal))
            assert cluster.await_leader() == target, f"transfer {step}"
            assert writer.new_leaders[-1] == target
            gaps_s.append(writer.longest_gap_s)
            leader = target
        assert writer.sessions == 1
        demand_agreement(cluster, [writer])
    print("\ngaps seen by the client at a transfer:", " ".join(f"{gap_s * 1000:.0f}" for gap_s in gaps_s), "ms")


def test_a_leader_told_to_end_hands_over_first(start_cluster: StartCluster) -> None:
    """Nobody waits until its heartbeats are missed, and no ballot fails."""
    cluster = start_cluster(cluster=PATIENT)
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(1000)
        old = cluster.await_leader()
        leadership_term_id = cluster.leader_term(old)
        goal = writer.acked + 500
        writer.run(has_acked(writer, goal))
        writer.longest_gap_s = 0.0
        cluster.send_signal(old, signal.SIGTERM)
        writer.run(has_acked(writer, goal + 2000))
        gap_s = writer.longest_gap_s
        assert cluster.wait(old) == 0, cluster.logs(old)
        assert old not in writer.new_leaders
        new = cluster.await_leader()
        assert cluster.leader_term(new) == leadership_term_id + 1, "one ballot, no failed election"
        cluster.start_member(old)
        demand_agreement(cluster, [writer])
    print(f"\ngap seen by the client after SIGTERM of the leader: {gap_s * 1000:.0f} ms")
    assert gap_s < float(PATIENT["leader_heartbeat_timeout"].rstrip("s"))


def test_what_cannot_be_is_said_in_one_line(start_cluster: StartCluster) -> None:
    cluster = start_cluster(cluster=PATIENT)
    leader = cluster.await_leader()
    others = [member_id for member_id in cluster.member_ids if member_id != leader]

    def transfer(member_id: int, *arguments: str) -> CompletedProcess[str]:
        return ordo("cluster", "transfer", "--config", str(cluster.config_path(member_id)), *arguments)

    demand_one_line(transfer(others[0]), 1, f"member {others[0]} does not lead")
    demand_one_line(transfer(leader, "--to", "9"), 2, "--to 9", str(others))
    cluster.kill(others[0])
    with Writer(cluster.ingress_endpoints) as writer:
        writer.write(500)
        demand_one_line(transfer(leader, "--to", str(others[0])), 1, f"member {leader} still leads")
        writer.write(500)
        assert cluster.leader() == leader
        await_that(
            lambda: transfer(leader).returncode == 0 or cluster.leader() == others[1],
            "the leadership is handed over, in time or later",
        )
        writer.write(500)
        assert cluster.await_leader() == others[1], "the vote of the old leader made the quorum"
