"""Data of another cluster, of another member, or older than it was: what a member does when it is shown some."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.module.log.log_executor import LogRecord
from ordo.cluster.module.members.cluster_identity import ClusterIdentity
from ordo.cluster.module.members.standings import EVERYTHING, OwnFolder, Standings
from ordo.cluster.module.state.folder_rows import NO_START, Claim, Owner, Start, claim
from ordo.cluster.module.state.peer_notes import PEER_NOTES_NAME, ROWS_MAX, PeerNotes
from ordo.cluster.module.state.state_store import StateStore
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.levels import IDENTITY_LEVEL
from ordo.cluster.wire.log_identity import (
    Log,
    LogIdentity,
    Origin,
    are_of_two_clusters,
    find_origin,
    identity_of,
    pack_identity,
    told_beginning,
    told_log,
    unpack_identity,
)
from ordo.consensus.state.distrust import Distrust
from ordo.runtime.errors import ClusterError
from ordo.runtime.io.storage import FileStorage

OWN, OTHER = b"o" * 16, b"x" * 16
FIRST_END = 96
DRAWS = count(1000)
FOLDER = "/data/1"


class Progress:
    positions: dict[int, int] = {}

    def member_position(self, member_id: int) -> int:
        return self.positions.get(member_id, -1)


class Core:
    """Of member 0 of three."""

    def __init__(self) -> None:
        self.distrust = Distrust.NONE
        self.candidate_term_id, self.append_position, self.commit_position = 3, 4096, 0
        self.leadership_term_id, self.leader_member_id = 3, 0
        self.is_leading = False
        self.progress = Progress()
        self.restarted: list[int] = []

    def is_quorum(self, member_ids: list[int]) -> bool:
        return len(member_ids) >= 2

    def on_restarted(self, member_id: int) -> None:
        self.restarted.append(member_id)


class Member:
    """What stands around the standings of one member; also the member's contacts."""

    def __init__(
        self,
        store: StateStore,
        notes: PeerNotes,
        member_id: int,
        origin: Origin | None,
        previous: Start = NO_START,
        distrust: Distrust = Distrust.NONE,
    ) -> None:
        self.store, self.core, self.member_id = store, Core(), member_id
        self.core.distrust = distrust
        self.executed_position = 4096
        self.errors: list[str] = []
        self.restarts: list[str] = []
        self.sent: list[tuple[int, Any]] = []
        if origin is not None:
            store.folder.put_origin(origin)
        levels: Any = SimpleNamespace(newest=IDENTITY_LEVEL)
        host: Any = self
        self.identity = ClusterIdentity(host, levels, store.folder, Random(1), member_id)
        self.claim = Claim(previous, Start(previous.number + 1, next(DRAWS)))
        folder = OwnFolder(self.claim, notes, f"/data/{member_id}")
        self.standings = Standings(
            host, host.core, host, store, self.identity, member_id, folder, lambda: self.executed_position
        )

    def record_error(self, text: str) -> None:
        self.errors.append(text)

    def announce(self, event: str, text: str) -> None: ...

    def start_again(self, reason: str) -> None:
        self.restarts.append(reason)

    def send(self, member_id: int, message: bytes) -> None:
        found = ordo_codecs.decode(message)
        assert found is not None
        self.sent.append((member_id, found[1]))

    def broadcast(self, message: bytes) -> None:
        self.send(-1, message)

    def shows(self) -> Any:
        found = ordo_codecs.decode(self.standings.encode_proof(7))
        assert found is not None
        return found[1]

    def stands(self) -> Any:
        self.standings.work()
        return self.sent.pop()[1]


class Room:
    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0

    def store(self) -> StateStore:
        self._count += 1
        return StateStore(FileStorage(open_lmdb).open_metadata(str(self._folder / f"{self._count}.mdb")))

    def notes(self, name: str) -> PeerNotes:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return PeerNotes(FileStorage(), str(folder))

    def member(
        self,
        member_id: int,
        identity: bytes | None = OWN,
        previous: Start = NO_START,
        distrust: Distrust = Distrust.NONE,
    ) -> Member:
        origin = None if identity is None else Origin(identity, FIRST_END)
        return Member(self.store(), self.notes(f"{self._count}"), member_id, origin, previous, distrust)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


# -- whose folder it is ------------------------------------------------------------------------------------------------


def test_a_folder_is_its_members_from_the_first_start_on(room: Room) -> None:
    rows = room.store().folder
    first = claim(rows, Owner(0, 1), FOLDER, 11)
    second = claim(rows, Owner(0, 1), FOLDER, 12)
    assert (first, second) == (Claim(NO_START, Start(1, 11)), Claim(Start(1, 11), Start(2, 12)))


@pytest.mark.parametrize(
    ("owner", "adopts"), [(Owner(0, 2), True), (Owner(5, 1), False)], ids=["another member", "another cluster"]
)
def test_the_folder_of_another_is_refused_and_says_whose_it_is(room: Room, owner: Owner, adopts: bool) -> None:
    rows = room.store().folder
    claim(rows, Owner(0, 1), FOLDER, 11)
    rows.put_origin(Origin(OWN, FIRST_END))
    with pytest.raises(ClusterError) as refused:
        claim(rows, owner, FOLDER, 12)
    text = refused.value.message
    assert f"{FOLDER} is that of member 1 of cluster 0 (identity {OWN.hex()[:12]})" in text and "\n" not in text
    assert ("ordo cluster adopt" in text) is adopts
    assert rows.start == Start(1, 11), "nothing was changed"


# -- the identity of a log ---------------------------------------------------------------------------------------------


def first_record(session_id: int = 5, base_position: int = 0) -> bytes:
    return codecs.NEW_LEADERSHIP_TERM_EVENT.encode(
        leadership_term_id=0,
        log_position=base_position + FIRST_END,
        timestamp=1_700_000_000_000,
        term_base_log_position=base_position,
        leader_member_id=0,
        log_session_id=session_id,
        time_unit=0,
        app_version=0,
    )


def record(message: bytes, position: int) -> LogRecord:
    found = ordo_codecs.decode_any(message)
    assert found is not None
    return LogRecord(position, *found)


def test_the_first_record_names_the_cluster_once_it_is_committed(room: Room) -> None:
    member = room.member(0, None)
    first = record(first_record(), FIRST_END)
    member.identity.on_record(first)
    assert member.identity.origin is None
    member.identity.execute(first)
    assert member.identity.origin == Origin(identity_of(first.values), FIRST_END) == find_origin(first_record())
    assert member.store.folder.origin == member.identity.origin
    assert find_origin(first_record(6)) != find_origin(first_record())
    assert find_origin(first_record(5, 1024)) is None, "the first of a later term"


@pytest.mark.parametrize(("said", "begins"), [(-1, 8192), (4128, 4128), (8193, 8192)])
def test_a_restored_log_says_from_where_on_it_is_another_one(room: Room, said: int, begins: int) -> None:
    member = room.member(0)
    event = ordo_codecs.CLUSTER_IDENTITY_EVENT.encode(
        leadership_term_id=3, timestamp=0, log_position=said, member_id=0, **unpack_identity(OTHER)
    )
    member.identity.execute(record(event, 8192))
    assert member.identity.origin == member.store.folder.origin == Origin(OTHER, begins)


def test_a_leader_repeats_the_identity_in_the_log_and_snapshots_have_it(room: Room) -> None:
    member = room.member(0)
    appended: list[bytes] = []
    host: Any = member
    host.is_leader, host.leadership_term_id, host.cluster_time, host.append = True, 3, 0, appended.append
    member.identity.work()
    event = record(appended[0], 2048)
    assert pack_identity(event.values) == OWN
    member.identity.on_record(event)
    member.identity.work()
    assert len(appended) == 1
    assert (member.identity.at(2047), member.identity.at(2048)) == (None, LogIdentity(2048, OWN))
    member.identity.truncate(2047)
    member.identity.work()
    assert len(appended) == 2, "it was cut off again"


def test_clients_are_told_what_the_first_record_says_until_an_event_says_the_identity(room: Room) -> None:
    """A leader may yet draw another one, which would begin further on."""
    assert room.member(0, None).identity.told_beginning() is None
    identity = room.member(0).identity
    beginning = identity.told_beginning()
    assert beginning is not None and identity.told(4096) is None
    assert (pack_identity(beginning), beginning.identity_position, beginning.executed_position) == (OWN, FIRST_END, -1)
    values: Any = beginning
    assert told_beginning(values) == Origin(OWN, FIRST_END) and told_log(values) is None
    identity.start(LogIdentity(2048, OWN), None, has_log=True)
    told: Any = identity.told(4096)
    assert identity.told_beginning() is None and told_beginning(told) is None and told_log(told) is not None


def test_a_folder_put_together_of_two_is_refused(room: Room) -> None:
    with pytest.raises(ClusterError, match="put together of two"):
        room.member(0).identity.start(None, Origin(OTHER, FIRST_END), has_log=True)
    with pytest.raises(ClusterError, match="put together of two"):
        room.member(0).identity.start(LogIdentity(FIRST_END, OTHER), None, has_log=False)


def test_an_archive_of_another_cluster_is_refused_where_its_first_record_is_gone(room: Room) -> None:
    """The store would have each identity that its member has executed before it took a snapshot."""
    with pytest.raises(ClusterError, match=r"put together of two: .* and its snapshot of cluster 7878"):
        room.member(0).identity.start(LogIdentity(4096, OTHER), None, has_log=True)


@pytest.mark.parametrize(
    ("stored", "has_log", "expected"),
    [
        (Origin(OWN, FIRST_END), False, Origin(OTHER, 4096)),  # fetched, and of a newer identity; there is no log yet
        (Origin(OWN, 8192), True, Origin(OWN, 8192)),  # older than the identity of a restored log
        (Origin(OTHER, FIRST_END), True, Origin(OTHER, FIRST_END)),
        (None, True, Origin(OTHER, 4096)),
    ],
)
def test_a_snapshot_may_show_a_newer_identity_if_it_was_fetched_or_an_older_one(
    room: Room, stored: Origin | None, has_log: bool, expected: Origin
) -> None:
    member = Member(room.store(), room.notes("own"), 0, stored)
    member.identity.start(LogIdentity(4096, OTHER), None, has_log=has_log)
    assert member.identity.origin == expected


def test_an_identity_that_was_drawn_later_is_not_one_of_another_folder(room: Room) -> None:
    """The store was lost: the log's first record, and a snapshot behind an event, say of one cluster two identities."""
    member = room.member(0, None)
    member.identity.start(LogIdentity(4096, OTHER), Origin(OWN, FIRST_END), has_log=True)
    assert member.identity.origin == Origin(OTHER, 4096)


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        (Log(OWN, 96, 4096), Log(OWN, 96, 96), False),
        (Log(OWN, 96, 4096), Log(OTHER, 96, 0), True),
        (Log(OWN, 96, 4096), Log(b"", 0, 0), False),
        (Log(OWN, 96, 4096), Log(b"", 0, 95), False),
        (Log(OWN, 96, 4096), Log(b"", 0, 96), True),
        (Log(OWN, 96, 4096), Log(b"", 1024, 8192), False),
        (Log(OWN, 2048, 4096), Log(OTHER, 96, 2047), False),
        (Log(OWN, 2048, 4096), Log(OTHER, 96, 2048), True),
        (Log(b"", 0, 4096), Log(b"", 0, 4096), False),
    ],
)
def test_two_logs_cannot_be_one_where_what_was_read_contradicts(one: Log, other: Log, differ: bool) -> None:
    assert are_of_two_clusters(one, other) is are_of_two_clusters(other, one) is differ


# -- what others show --------------------------------------------------------------------------------------------------


def test_a_member_with_another_clusters_log_counts_for_nothing(room: Room) -> None:
    member, foreign = room.member(0), room.member(1, OTHER)
    for _ in range(3):
        assert not member.standings.admits(foreign.shows())
    assert member.standings.is_foreign(1)
    assert len(member.errors) == 1 and "member 1 has the data of another cluster" in member.errors[0]
    member.standings.work()
    assert member.standings.admits(room.member(1).shows()) and not member.standings.is_foreign(1)


def test_a_member_that_a_quorum_has_another_cluster_than_ends(room: Room) -> None:
    foreign = room.member(1, OTHER)
    foreign.standings.admits(room.member(0).shows())
    foreign.standings.work()
    foreign.standings.admits(room.member(2).shows())
    with pytest.raises(ClusterError, match=f"folder /data/1 is of another cluster: it has identity {OTHER.hex()[:12]}"):
        foreign.standings.work()


def test_an_identity_that_comes_later_is_compared_too(room: Room) -> None:
    member, foreign = room.member(0), room.member(1, None)
    foreign.executed_position = 0
    assert member.standings.admits(foreign.shows())
    foreign.executed_position, foreign.identity.origin = 4096, Origin(OTHER, FIRST_END)
    member.standings.handlers[ordo_codecs.MEMBER_STANDING](foreign.stands(), 0)
    assert member.standings.is_foreign(1)


def test_an_earlier_release_is_admitted_without_a_word(room: Room) -> None:
    member = room.member(0)
    found = ordo_codecs.MEMBER_PROOF.decode_body(bytes(12), 0, 12, 1)
    assert member.standings.admits(found) and member.errors == []


def test_starts_that_go_on_from_each_other_are_admitted_and_written_down(room: Room) -> None:
    member, peer = room.member(0), room.member(1)
    for _ in range(3):
        assert member.standings.admits(peer.shows())
        assert member.store.folder.peers() == {1: peer.claim.start}
        assert member.standings.admits(peer.shows()), "the same start in another stream"
        peer = room.member(1, OWN, peer.claim.start)
    missed = Start(peer.claim.start.number + 5, 1)
    assert member.standings.admits(room.member(1, OWN, missed).shows()), "it started while this member was down"
    assert member.errors == []
    assert member.core.restarted == [1] * 4, "consensus hears of each start once"


def test_what_an_empty_member_saw_of_a_wrong_folder_is_not_held_against_the_right_one(room: Room) -> None:
    """It admits any cluster's data, and would refuse the member for good once that has its own folder again."""
    empty, wrong, right = room.member(0, None), room.member(1, OTHER, Start(8, 3)), room.member(1, OWN, Start(2, 6))
    empty.executed_position = 0
    assert empty.standings.admits(wrong.shows())
    again = Member(empty.store, room.notes("again"), 0, None, empty.claim.start)
    again.executed_position = 0
    for member in (again, empty):
        assert member.standings.admits(right.shows()) and member.errors == []
    assert not empty.standings.admits(room.member(1, OWN, Start(1, 4)).shows()), "older than what it has seen of it"


def test_which_cluster_a_member_has_is_noted_when_it_says_so(room: Room) -> None:
    """In a new cluster nobody knows it at the first proof."""
    member, peer = room.member(0), room.member(1, None)
    peer.executed_position = 0
    assert member.standings.admits(peer.shows())
    assert member.store.folder.peer_clusters() == {1: b""}
    peer.identity.origin = Origin(OWN, FIRST_END)
    member.standings.handlers[ordo_codecs.MEMBER_STANDING](peer.stands(), 0)
    assert member.store.folder.peer_clusters() == {1: OWN}


@pytest.mark.parametrize("former", [NO_START, Start(1, 4), Start(2, 5), Start(3, 7)])
def test_an_older_copy_is_refused_and_told_and_starts_again_without_its_vote(room: Room, former: Start) -> None:
    """Emptied, older by some starts, or as old but of another history."""
    member, peer = room.member(0), room.member(1, OWN, Start(2, 6))
    assert member.standings.admits(peer.shows())
    old = room.member(1, OWN, former)
    assert not member.standings.admits(old.shows())
    (told,) = [values for to, values in member.sent if to == 1]
    old.standings.handlers[ordo_codecs.MEMBER_BEHIND](told, 0)
    assert old.store.load().distrust == EVERYTHING
    assert len(old.restarts) == 1 and "is an older copy" in old.errors[0]
    old.standings.handlers[ordo_codecs.MEMBER_BEHIND](told, 0)
    assert len(old.restarts) == 1
    again = Member(old.store, room.notes("old"), 1, Origin(OWN, FIRST_END), old.store.folder.start)
    again.core.distrust = EVERYTHING
    assert member.standings.admits(again.shows())
    trusted = Member(old.store, room.notes("old"), 1, Origin(OWN, FIRST_END), again.claim.start)
    assert member.standings.admits(trusted.shows())
    assert room.member(2).standings.admits(trusted.shows())


def test_less_than_was_acknowledged_by_the_same_start_is_found(room: Room) -> None:
    """A copy of a running member's folder: the start is the one that was seen last."""
    member, peer = room.member(0), room.member(1)
    assert member.standings.admits(peer.shows())
    peer.core.append_position = 8192
    member.standings.handlers[ordo_codecs.MEMBER_STANDING](peer.stands(), 0)
    for end, is_whole in ((8191, False), (8192, True)):
        again = room.member(1, OWN, peer.claim.start)
        again.standings.start_point = (3, end)
        assert member.standings.admits(again.shows()) is is_whole
    assert "without what it acknowledged up to position=8192 in term 3" in member.errors[0]


def acknowledged(room: Room, folder: str = "kept") -> tuple[Member, Member]:
    """A member that has heard that another one has the log up to 8192 in term 3; and that one."""
    member, peer = Member(room.store(), room.notes(folder), 0, Origin(OWN, FIRST_END)), room.member(1)
    assert member.standings.admits(peer.shows())
    peer.core.append_position = 8192
    member.standings.handlers[ordo_codecs.MEMBER_STANDING](peer.stands(), 0)
    return member, peer


def admits_after_restart(room: Room, member: Member, peer: Member, end: int, folder: str = "kept") -> bool:
    """Whether the peer is admitted that has the log up to `end`, by the member that has just started again."""
    restarted = Member(member.store, room.notes(folder), 0, Origin(OWN, FIRST_END), member.claim.start)
    again = room.member(1, OWN, peer.claim.start)
    again.standings.start_point = (3, end)
    return restarted.standings.admits(again.shows())


def test_what_was_acknowledged_outlives_who_knows_it(room: Room) -> None:
    assert not admits_after_restart(room, *acknowledged(room), 8191)
    assert admits_after_restart(room, *acknowledged(room, "more"), 8192, "more")


def test_what_a_member_lost_and_others_know_it_lost_is_not_held_against_it(room: Room, tmp_path: Path) -> None:
    """Even if this member's machine loses power, and what was written of it since."""
    member, peer = acknowledged(room)
    file = tmp_path / "kept" / PEER_NOTES_NAME
    before = file.read_bytes()
    lacking = room.member(1, OWN, peer.claim.start)
    lacking.core.distrust, lacking.standings.start_point = Distrust.LOG, (3, 96)
    assert member.standings.admits(lacking.shows())
    file.write_bytes(before)
    assert admits_after_restart(room, member, lacking, 96)


def test_a_log_that_is_whole_again_is_not_held_against_its_member(room: Room) -> None:
    """By a member that was cut off while the other lacked a part of its log, and said so."""
    member, peer = acknowledged(room)
    lacking = room.member(1, OWN, peer.claim.start, Distrust.LOG | Distrust.VOTE)
    lacking.core.append_position = 4200
    assert lacking.standings.on_distrust(Distrust.LOG) == Distrust.LOG
    assert (lacking.shows().start_term_id, lacking.shows().start_position) == (3, 4096), "it is not whole yet"
    lacking.core.candidate_term_id, lacking.core.append_position = 4, 12288
    lacking.core.distrust = lacking.standings.on_distrust(Distrust.NONE)
    assert (lacking.shows().start_term_id, lacking.shows().start_position) == (4, 12288)
    assert member.standings.admits(lacking.shows()) and (member.errors, member.sent) == ([], [])


def test_a_log_that_lacked_nothing_is_as_it_was_at_the_start(room: Room) -> None:
    """Of a vote that is regained nothing follows for the log: it may be that of an older copy."""
    member, peer = acknowledged(room)
    again = room.member(1, OWN, peer.claim.start, Distrust.VOTE)
    again.core.append_position = 12288
    assert again.standings.on_distrust(Distrust.NONE) == Distrust.NONE
    assert not member.standings.admits(again.shows())


def test_a_member_that_is_told_of_its_older_copy_regains_nothing_before_it_starts_again(room: Room) -> None:
    member, peer = room.member(0), room.member(1, OWN, Start(2, 6))
    assert member.standings.admits(peer.shows())
    old = room.member(1, OWN, Start(1, 4), Distrust.LOG)
    assert not member.standings.admits(old.shows())
    (told,) = [values for to, values in member.sent if to == 1]
    old.standings.handlers[ordo_codecs.MEMBER_BEHIND](told, 0)
    for regained in (Distrust.NONE, Distrust.STATE):
        assert old.standings.on_distrust(regained) == regained | EVERYTHING
    assert old.shows().start_position == 4096


def test_a_torn_row_is_none_and_its_place_is_taken_again(room: Room, tmp_path: Path) -> None:
    starts = {member_id: Start(1, member_id) for member_id in range(ROWS_MAX + 1)}
    notes = room.notes("torn")
    for member_id, start in starts.items():
        notes.put(member_id, start, (7, member_id))
    notes.close()
    full = room.notes("torn")
    assert full.load(starts) == {one: (7, one) for one in range(ROWS_MAX)}, "as many as there is room for"
    full.close()
    file = tmp_path / "torn" / PEER_NOTES_NAME
    torn = bytearray(file.read_bytes())
    torn[48 + 20] ^= 1
    file.write_bytes(torn)
    found = room.notes("torn")
    assert found.load(starts) == {one: (7, one) for one in range(ROWS_MAX) if one != 1}
    found.put(64, starts[64], (8, 1))
    found.put(1, starts[1], (8, 2))
    assert room.notes("torn").load({**starts, 0: Start(2, 0)}) == {
        **{one: (7, one) for one in range(2, ROWS_MAX)},
        64: (8, 1),
    }, "another start of member 0 counts for nothing"


def test_a_leader_knows_what_it_counted(room: Room) -> None:
    member, peer = room.member(0), room.member(1)
    assert member.standings.admits(peer.shows())
    member.core.is_leading = True
    member.core.progress.positions = {1: 5000}
    assert not member.standings.admits(room.member(1, OWN, peer.claim.start).shows())
    lacking = room.member(1, OWN, peer.claim.start)
    lacking.core.distrust = Distrust.LOG
    assert member.standings.admits(lacking.shows()), "it knows that it lacks some of its log"


def test_a_word_for_another_start_or_of_another_cluster_changes_nothing(room: Room) -> None:
    old = room.member(1)
    good = {
        "member_id": 0,
        "follower_member_id": 1,
        "start_number": old.claim.start.number,
        "start_draw": old.claim.start.draw,
        "known_number": 9,
        "identity_high": old.shows().identity_high,
        "identity_low": old.shows().identity_low,
    }
    wrong = (
        {"follower_member_id": 2},
        {"start_draw": 3},
        {"start_number": 2},
        {"known_number": -1},
        {"identity_low": 1},
    )
    for one in wrong:
        found = ordo_codecs.decode(ordo_codecs.MEMBER_BEHIND.encode(**{**good, **one}))
        assert found is not None
        old.standings.handlers[ordo_codecs.MEMBER_BEHIND](found[1], 0)
    assert (old.restarts, old.store.load().distrust) == ([], Distrust.NONE)


def test_notes_that_a_crash_cut_short_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    notes, starts = PeerNotes(FileStorage(), str(tmp_path)), {1: Start(3, 7), 2: Start(1, 9)}
    for member_id, start in starts.items():
        notes.put(member_id, start, (5, 4096))
    notes.close()
    path = tmp_path / PEER_NOTES_NAME
    path.write_bytes(path.read_bytes()[:70])  # within the second row
    notes = PeerNotes(FileStorage(), str(tmp_path))
    assert notes.load(starts) == {1: (5, 4096)}
    notes.put(2, starts[2], (6, 8192))
    notes.close()
    assert PeerNotes(FileStorage(), str(tmp_path)).load(starts) == {1: (5, 4096), 2: (6, 8192)}
