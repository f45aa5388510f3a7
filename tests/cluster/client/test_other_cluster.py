"""A client whose addresses lead to another cluster than before: it ends, and says whose each is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.protocol.own_codecs import LOG_IDENTITY, is_of_ordo
from ordo.cluster.client.requests.journal import Journal, JournalFile
from ordo.cluster.client.session import CLIENT_INFO
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.log_identity import PAST_ORIGINS_MAX, Log, Origin, pack_past, told_past, unpack_identity
from ordo.runtime.errors import OtherClusterError
from tests.cluster.client.session_members import Member, SessionWorld
from tests.cluster.client.test_staying import close_session

ONE, OTHER, NEWEST, BETWEEN = (digit * 16 for digit in (b"1", b"2", b"3", b"4"))
BOTH = "of the cluster with identity 323232323232, and .* of the one with identity 313131313131"


class TellingWorld(SessionWorld):
    """Members that say whose log they have, before they open a session."""

    told: Log | None = Log(ONE, 0, 5000)
    past: tuple[Origin, ...] = ()

    def _open(self, member: Member, request: Any, correlation_id: int) -> None:
        if self.told is not None:
            self.tell(self.told, len(self.sessions) + 1, request.response_channel, correlation_id)
        super()._open(member, request, correlation_id)

    def tell(self, log: Log, session_id: int, channel: str, correlation_id: int) -> None:
        """The leader says to the client of a session whose log it has."""
        message = LOG_IDENTITY.encode(
            session_id=session_id,
            correlation_id=correlation_id,
            identity_position=log.position,
            executed_position=log.executed_position,
            past=pack_past(self.past),
            **unpack_identity(log.identity),
        )
        self.leader.send(channel, message)


@pytest.fixture
def world() -> Iterator[TellingWorld]:
    world = TellingWorld()
    yield world
    world.close()


def test_a_client_that_stays_does_not_go_over_to_another_cluster(world: TellingWorld) -> None:
    client = world.client(reconnect=True)
    first = client.session_id
    world.told = Log(OTHER, 0, 5000)
    close_session(world, first, "TIMEOUT")
    with pytest.raises(OtherClusterError, match=BOTH):
        world.run(client, lambda: False)
    for _ in range(1000):
        world.step()
    assert world.leader.names_received().count("SessionCloseRequest") == 1, "that session is given back at once"
    with pytest.raises(OtherClusterError, match=BOTH):
        client.offer(b"1")
    with pytest.raises(OtherClusterError, match=BOTH):
        client.poll()
    client.close()
    assert "SessionMessageHeader" not in world.leader.names_received()


@pytest.mark.parametrize("told", [None, Log(ONE, 0, 9000), Log(ONE, 700, 9000), Log(OTHER, 6000, 9000)])
def test_a_client_stays_with_what_may_be_its_cluster(world: TellingWorld, told: Log | None) -> None:
    """A member that does not say it, and a cluster that was restored from later than what this client knows."""
    client = world.client(reconnect=True)
    first, world.told = client.session_id, told
    close_session(world, first, "TIMEOUT")
    world.run(client, lambda: client.is_connected and client.session_id not in (-1, first))
    client.close()


@pytest.mark.parametrize("is_guessed", [False, True])
def test_a_client_of_a_clusters_first_second_learns_later_whose_it_is(world: TellingWorld, is_guessed: bool) -> None:
    """It never did, and went over to any cluster that was at its addresses later."""
    world.told = None
    client = world.client(reconnect=True)
    first = client.session_id
    request = world.sessions[first]
    world.tell(Log(ONE, 0, 5000), first, request.response_channel, request.correlation_id + is_guessed)
    for _ in range(1000):
        client.poll()
    assert client.known_cluster.origin == (None if is_guessed else Origin(ONE, 0))
    world.told = Log(OTHER, 0, 5000)
    close_session(world, first, "TIMEOUT")
    if is_guessed:
        world.run(client, lambda: client.is_connected and client.session_id not in (-1, first))
    else:
        with pytest.raises(OtherClusterError, match=BOTH):
            world.run(client, lambda: False)
    client.close()


BEGUN = Log(ONE, 96, -1)
"""What a leader says by the first record of its log, before an event of it has said the identity."""


@pytest.mark.parametrize(
    ("told", "is_refused"),
    [
        (Log(OTHER, 96, 5000), True),
        (Log(OTHER, 96, -1), True),
        (Log(ONE, 96, 5000), False),
        (BEGUN, False),
        (Log(OTHER, 700, 5000), False),  # may be what a later leader drew
        (Log(OTHER, 700, -1), False),
        (None, False),
    ],
)
def test_a_client_that_was_cut_off_in_a_clusters_first_second_is_told_of_another_one(
    world: TellingWorld, told: Log | None, is_refused: bool
) -> None:
    """It knew nothing yet, and went over to whatever cluster was at its addresses."""
    world.told = BEGUN
    client = world.client(reconnect=True)
    first, world.told = client.session_id, told
    assert client.known_cluster.origin is None
    close_session(world, first, "TIMEOUT")
    if is_refused:
        with pytest.raises(OtherClusterError, match=BOTH):
            world.run(client, lambda: False)
    else:
        world.run(client, lambda: client.is_connected and client.session_id not in (-1, first))
        assert client.known_cluster.origin == (
            None if told is None or told == BEGUN or told[2] < 0 else Origin(*told[:2])
        )
    client.close()


def test_a_client_that_knows_its_cluster_is_told_of_another_one_in_its_first_second(world: TellingWorld) -> None:
    world.told = Log(ONE, 96, 5000)
    client = world.client(reconnect=True)
    world.told = Log(OTHER, 96, -1)
    close_session(world, client.session_id, "TIMEOUT")
    with pytest.raises(OtherClusterError, match=BOTH):
        world.run(client, lambda: False)
    client.close()


def test_a_client_of_the_first_second_hears_what_the_log_says_in_the_same_session(world: TellingWorld) -> None:
    """It begins further on where a leader drew it, and counts from then on."""
    world.told = BEGUN
    client = world.client(reconnect=True)
    request = world.sessions[client.session_id]
    world.tell(Log(OTHER, 700, 5000), client.session_id, request.response_channel, request.correlation_id)
    world.run(client, lambda: client.known_cluster.origin == Origin(OTHER, 700))
    client.close()


def test_a_session_turns_out_to_be_of_another_cluster(world: TellingWorld) -> None:
    client = world.client(reconnect=True)
    first, world.told = client.session_id, None
    close_session(world, first, "TIMEOUT")
    world.run(client, lambda: client.is_connected and client.session_id not in (-1, first))
    request = world.sessions[client.session_id]
    world.tell(Log(OTHER, 0, 5000), client.session_id, request.response_channel, request.correlation_id)
    with pytest.raises(OtherClusterError, match=BOTH):
        world.run(client, lambda: False)
    client.close()


@pytest.mark.parametrize(("answered", "is_refused"), [(6000, False), (6032, True)])
def test_what_was_answered_counts_as_known(
    world: TellingWorld, tmp_path: Path, answered: int, is_refused: bool
) -> None:
    """A client went over to a cluster that was restored without the last requests whose answers it had."""
    path = tmp_path / "journal"
    client = world.client(journal=str(path))
    first, session = client.session_id, world.sessions[client.session_id]
    answer = ordo_codecs.ANSWER.encode(
        leadership_term_id=world.leadership_term_id,
        cluster_session_id=first,
        timestamp=0,
        open_position=640,
        number=1,
        log_position=answered,
        status=0,
    )
    world.leader.send(session.response_channel, answer)
    world.run(client, lambda: client._loop.answered_position == answered)
    client.close()
    world.told = Log(OTHER, 6032, 9000)
    if is_refused:
        with pytest.raises(OtherClusterError, match="the journal of the one"):
            world.client(journal=str(path))
    else:
        world.client(journal=str(path)).close()


@pytest.mark.parametrize(
    ("past", "is_refused"),
    [
        ((), False),  # of an earlier release
        ((Origin(ONE, 0), Origin(BETWEEN, 5968)), True),
        ((Origin(ONE, 0), Origin(BETWEEN, 6000)), True),
        ((Origin(ONE, 0), Origin(BETWEEN, 6032)), False),
        ((Origin(ONE, 0), Origin(BETWEEN, 5968), Origin(OTHER, 7000)), True),
        ((Origin(OTHER, 0), Origin(ONE, 4000)), False),  # restored once, before this client came
        ((Origin(BETWEEN, 0), Origin(OTHER, 64)), False),  # older ones prove nothing of a cluster that is not named
    ],
)
def test_a_cluster_that_was_promoted_twice_since_has_not_all_that_was_answered(
    world: TellingWorld, tmp_path: Path, past: tuple[Origin, ...], is_refused: bool
) -> None:
    """The newest identity begins behind what the client knows, and the one between before: its last answer is lost."""
    path = str(tmp_path / "journal")
    world.told = Log(ONE, 4000, 6000)
    world.client(journal=path).close()
    world.told, world.past = Log(NEWEST, 9000, 9500), past
    if is_refused:
        with pytest.raises(
            OtherClusterError, match="identity 333333333333, and the journal of the one with identity 31"
        ):
            world.client(journal=path)
    else:
        world.client(journal=path).close()


def test_what_a_node_says_of_its_past_is_bounded_and_whole_or_nothing() -> None:
    many = [Origin(bytes([number]) * 16, 100 * number) for number in range(PAST_ORIGINS_MAX + 4)]

    def decoded(past: bytes) -> list[Origin]:
        return told_past(LOG_IDENTITY.decode(LOG_IDENTITY.encode(past=past)))

    assert decoded(pack_past(reversed(many))) == many[4:]
    assert decoded(b"") == decoded(pack_past(many)[1:]) == decoded(2 * pack_past(many)) == []


@pytest.mark.parametrize(("restored_position", "is_refused"), [(4000, True), (6000, False)])
def test_a_journal_is_of_one_cluster(
    world: TellingWorld, tmp_path: Path, restored_position: int, is_refused: bool
) -> None:
    path = tmp_path / "journal"
    world.client(journal=str(path)).close()
    world.told = Log(OTHER, restored_position, 9000)
    if is_refused:
        with pytest.raises(OtherClusterError, match=r"the journal of the one .*: give the addresses of that"):
            world.client(journal=str(path))
        world.told = Log(ONE, 0, 9000)
    world.client(journal=str(path)).close()
    journal = Journal(JournalFile(str(path)))
    state = journal.recover(bytes(16), 1)
    journal.close()
    expected = Origin(ONE, 0) if is_refused else Origin(OTHER, restored_position)
    assert (state.cluster, state.known_position) == (expected, 9000)


@pytest.mark.parametrize(
    ("client_info", "is_ordo"),
    [
        (CLIENT_INFO.format("desk", "0.3.0"), True),
        ("name=log-reader implementation=ordo", True),
        ("name=ordo version=1.49.0 commit=6f1c1d", False),
        ("", False),
    ],
)
def test_only_clients_of_ordo_are_told(client_info: str, is_ordo: bool) -> None:
    assert is_of_ordo(client_info) is is_ordo
