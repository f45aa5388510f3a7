"""A stranger who can reach the consensus endpoints of all members, and speaks in the name of any of them.

Where datagrams are encrypted the stranger holds the key of a client, which all members trust.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from ordo.cluster.wire import codecs, consensus_codec, ordo_codecs
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.members import Member
from ordo.cluster.wire.streams import CONSENSUS_STREAM_ID
from ordo.consensus.state import messages
from ordo.deploy.launcher import LocalCluster
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.secure.settings import Encryption
from tests.cluster.integration.agreement import counter_of, demand_agreement
from tests.cluster.integration.conftest import PATIENT, StartCluster, start_cluster
from tests.cluster.integration.writer import Writer

__all__ = ["start_cluster"]
LONG_MAX = 2**63 - 1
VERSION = codecs.CONSENSUS_PROTOCOL_VERSION


@contextmanager
def voices(cluster: LocalCluster) -> Iterator[Callable[[messages.Message], None]]:
    """Says a message to every member that runs."""
    with ExitStack() as stack:
        transport = ClientTransport.embedded(encryption=Encryption.chosen(**cluster.client_keys))
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
        yield messages.StandsBack(follower)


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
def test_nothing_that_is_said_in_the_name_of_members_counts(start_cluster: StartCluster, is_encrypted: bool) -> None:
    cluster = start_cluster(encrypted=is_encrypted, cluster=PATIENT)
    leader = cluster.await_leader()
    follower = next(one for one in cluster.member_ids if one != leader)
    with Writer(cluster.ingress_endpoints, **cluster.client_keys) as writer, voices(cluster) as say:
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


class Invented:
    """A member that nobody has added: it makes itself known, answers challenges at its own endpoint, and stands."""

    ID = 9

    def __init__(self, cluster: LocalCluster, port: int) -> None:
        self.transport = ClientTransport.embedded(encryption=Encryption.chosen(**cluster.client_keys))
        client = self.transport.client
        endpoint = f"127.0.0.1:{port}"
        self.member = Member(self.ID, *[endpoint] * 5)
        self.heard = client.add_subscription(f"aeron:udp?endpoint={endpoint}", CONSENSUS_STREAM_ID)
        self.publications = []
        for ingress in cluster.ingress_endpoints.values():
            host, _, port_text = ingress.rpartition(":")
            channel = f"aeron:udp?endpoint={host}:{int(port_text) + 1}|term-length=64k"
            self.publications.append(client.add_exclusive_publication(channel, CONSENSUS_STREAM_ID))
        self.challenges = 0
        self.votes = 0

    def say(self, message: bytes) -> None:
        for publication in self.publications:
            publication.offer(message)

    def step(self, term_id: int, position: int) -> None:
        self.say(consensus_codec.encode(messages.Introduction(self.ID, self.member.encode())))
        candidate = messages.RequestVote(term_id, position, term_id + 1, self.ID, VERSION, False)
        canvass = messages.CanvassPosition(term_id, position, term_id, self.ID, VERSION)
        for message in (canvass, candidate):
            self.say(consensus_codec.encode(message))
        for _ in range(10):
            self.transport.drive()
            self.heard.poll(self._on_message, 50)

    def _on_message(self, payload: bytes, _: object) -> None:
        found = ordo_codecs.decode(payload)
        if found is not None and found[0] is ordo_codecs.MEMBER_CHALLENGE:
            self.challenges += 1
            self.say(ordo_codecs.MEMBER_PROOF.encode(nonce=found[1].nonce, member_id=self.ID))
        elif isinstance(consensus_codec.decode(payload), messages.Vote):
            self.votes += 1


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
def test_an_invented_member_takes_no_part_in_an_election(
    start_cluster: StartCluster, free_port: Callable[[], int], is_encrypted: bool
) -> None:
    """It introduced itself, and those who were looking for a leader voted for it, and followed it into nothing."""
    cluster = start_cluster(encrypted=is_encrypted)
    leader = cluster.await_leader()
    others = [one for one in cluster.member_ids if one != leader]
    invented = Invented(cluster, free_port())
    with Writer(cluster.ingress_endpoints, **cluster.client_keys) as writer:
        writer.write(50)
        term_id = counter_of(cluster, leader, CounterType.LEADERSHIP_TERM_ID)
        for member_id in others:
            cluster.kill(member_id)
        deadline_s = time.monotonic() + 3
        while time.monotonic() < deadline_s:  # one member alone: whoever it votes for, it is an invention
            invented.step(term_id, 1 << 40)
        assert invented.challenges == invented.votes == 0
        for member_id in others:
            cluster.start_member(member_id)
        writer.write(50)
        demand_agreement(cluster, [writer])
    invented.transport.close()
    cluster.check_running()


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
def test_positions_in_the_name_of_members_that_are_gone_commit_nothing(
    start_cluster: StartCluster, is_encrypted: bool
) -> None:
    """Believed, they made a quorum of a leader alone, and what it acknowledged died with it."""
    cluster = start_cluster(encrypted=is_encrypted)
    leader = cluster.await_leader()
    followers = [one for one in cluster.member_ids if one != leader]
    with Writer(cluster.ingress_endpoints, **cluster.client_keys) as writer, voices(cluster) as say:
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
