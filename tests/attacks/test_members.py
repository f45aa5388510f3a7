"""A stranger who can reach the consensus endpoints of all members, and speaks in the name of any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from cluster.wire import codecs, consensus_codec
from cluster.wire.counter_types import CounterType
from cluster.wire.streams import CONSENSUS_STREAM_ID
from consensus import messages
from deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import counter_of, demand_agreement
from tests.cluster.integration.conftest import StartCluster, start_cluster
from tests.cluster.integration.writer import Writer
from transport.client_transport import ClientTransport

__all__ = ["start_cluster"]
LONG_MAX = 2**63 - 1
VERSION = codecs.CONSENSUS_PROTOCOL_VERSION


@contextmanager
def voices(cluster: LocalCluster) -> Iterator[Callable[[messages.Message], None]]:
    """Says a message to every member that runs."""
    with ExitStack() as stack:
        transport = ClientTransport.embedded()
        stack.callback(transport.close)
        publications = []
        for endpoint in cluster.ingress_endpoints.values():
            host, _, port = endpoint.rpartition(":")
            channel = f"aeron:udp?endpoint={host}:{int(port) + 1}|term-length=64k"
            publications.append(transport.client.add_exclusive_publication(channel, CONSENSUS_STREAM_ID))

        def say(message: messages.Message) -> None:
            for publication in publications:
                while publication.is_connected and publication.offer(consensus_codec.encode(message)) <= 0:
                    transport.drive()
            transport.drive()

        while not all(publication.is_connected for publication in publications):
            transport.drive()

        yield say


def forgeries(leader: int, follower: int, term_id: int, position: int) -> Iterator[messages.Message]:
    """What brought the cluster down, deposed its leader, or made it forget, when it was believed."""
    for term in (term_id, term_id + 1, term_id + 100, LONG_MAX - 1, LONG_MAX):
        yield messages.CanvassPosition(term, position, term, follower, VERSION)
        yield messages.RequestVote(term, position, term, follower, VERSION, False)
        yield messages.RequestVote(term, position, term, follower, VERSION, True)
        yield messages.Vote(term, term, position, follower, leader, True)
        yield messages.AppendPosition(term, LONG_MAX, follower, 0)
        yield messages.CommitPosition(term, LONG_MAX, leader)
        for app_version in (1, 99):
            yield messages.NewLeadershipTerm(
                *(
                    term_id,
                    term,
                    position,
                    -1,
                    term,
                    position,
                    position,
                    0,
                    0,
                    follower,
                    1,
                    app_version,
                    False,
                    position,
                )
            )
        yield messages.TimeoutNow(term, position, leader, follower)
        yield messages.TerminationPosition(term, position)
        yield messages.TerminationAck(term, position, follower)
        yield messages.CatchupPosition(term, 0, follower, "127.0.0.1:9")
        yield messages.StopCatchup(term, follower)
        yield messages.TrustAnswer(follower, 1, term, term, position)


def test_nothing_that_is_said_in_the_name_of_members_counts(start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    leader = cluster.await_leader()
    follower = next(one for one in cluster.member_ids if one != leader)
    with Writer(cluster.ingress_endpoints) as writer, voices(cluster) as say:
        writer.write(100)
        term_id = counter_of(cluster, leader, CounterType.LEADERSHIP_TERM_ID)
        elections = [counter_of(cluster, one, CounterType.ELECTION_COUNT) for one in cluster.member_ids]
        for message in forgeries(leader, follower, term_id, 10_000):
            say(message)
        writer.write(100)
        for message in forgeries(follower, leader, term_id, 10_000):
            say(message)
        writer.write(100)
        demand_agreement(cluster, [writer])
        assert cluster.await_leader() == leader
        assert counter_of(cluster, leader, CounterType.LEADERSHIP_TERM_ID) == term_id
        assert [counter_of(cluster, one, CounterType.ELECTION_COUNT) for one in cluster.member_ids] == elections
        assert writer.new_leaders == []
    cluster.check_running()


def test_positions_in_the_name_of_members_that_are_gone_commit_nothing(start_cluster: StartCluster) -> None:
    """Believed, they made a quorum of a leader alone, and what it acknowledged died with it."""
    cluster = start_cluster()
    leader = cluster.await_leader()
    followers = [one for one in cluster.member_ids if one != leader]
    with Writer(cluster.ingress_endpoints) as writer, voices(cluster) as say:
        writer.write(100)
        term_id = counter_of(cluster, leader, CounterType.LEADERSHIP_TERM_ID)
        for follower in followers:
            cluster.kill(follower)
        committed = counter_of(cluster, leader, CounterType.COMMIT_POSITION)
        writer.client.send(writer.request(10**6))
        writer.client.flush()
        for _ in range(200):
            for follower in followers:
                say(messages.AppendPosition(term_id, committed + 4096, follower, 0))
        assert counter_of(cluster, leader, CounterType.COMMIT_POSITION) in (committed, -1)
        for follower in followers:
            cluster.start_member(follower)
        cluster.await_leader(60)
    cluster.check_running()
