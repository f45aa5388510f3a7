"""When snapshots are taken, what members tell each other of them, and what may be deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ordo.archive.inspection.administration import ERROR_ACTIVE_RECORDING
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.module.snapshots.held_snapshots import SnapshotShelf
from ordo.cluster.module.snapshots.retention import Retention, RetentionPolicy
from ordo.cluster.module.snapshots.snapshot_reports import Agreement, HeldSnapshot, SnapshotReports
from ordo.cluster.module.snapshots.snapshot_schedule import SnapshotSchedule
from ordo.cluster.module.state.state_store import Evidence, SnapshotEntry, StateStore
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.snapshots.snapshot_digest import combine, digest_of
from ordo.runtime.errors import ArchiveError, DecodeError
from ordo.runtime.native.cluster_time import TimeUnit
from ordo.runtime.native.time_units import SECOND_NS

PATIENCE_NS = 30 * SECOND_NS
A, B = b"a" * 16, b"b" * 16


class Asked:
    """Counts the snapshots that a schedule asks for."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> bool:
        self.count += 1
        return True


def entry(log_position: int, timestamp: int = 0) -> SnapshotEntry:
    return SnapshotEntry(log_position, 0, 0, timestamp, 1, 2, True)


class BusyArchive:
    """Recordings that are still written refuse to be deleted."""

    def __init__(self, *busy: int, live: Iterable[int] = ()) -> None:
        self.busy = set(busy)
        self.live = set(live)
        self.purged: list[int] = []

    def recording(self, recording_id: int) -> int | None:
        return recording_id if recording_id in self.live else None

    def stop(self, recording: int) -> None:
        self.live.remove(recording)

    def replays(self, recording_id: int) -> list[object]:
        return []

    def purge(self, recording_id: int) -> int:
        if recording_id in self.busy | self.live:
            raise ArchiveError("it is being read or recorded", code=ERROR_ACTIVE_RECORDING)
        if recording_id in self.purged:
            raise ArchiveError("no such recording")
        self.purged.append(recording_id)
        return 1


def test_recordings_of_a_snapshot_end_when_it_is_whole_or_fails(tmp_path: Path) -> None:
    """A member that caught up took snapshots quicker than the driver ended their streams: the archive's room for active
    recordings was full, and the member died."""
    archive: Any = BusyArchive(live=(1, 2, 3))
    store = StateStore(open_lmdb(str(tmp_path / "state.mdb")))
    shelf = SnapshotShelf(archive, store, 0)
    shelf.add(entry(100), A)
    assert archive.live == {3}
    shelf.drop_part(3)
    assert archive.live == set()
    assert (shelf.purge_left_over(), archive.purged) == (1, [3])
    store.close()


def test_a_snapshot_that_goes_while_it_is_read_leaves_no_recording_behind(tmp_path: Path) -> None:
    """They stayed until the node's next start."""
    archive: Any = BusyArchive(2)
    store = StateStore(open_lmdb(str(tmp_path / "state.mdb")))
    shelf = SnapshotShelf(archive, store, 0)
    shelf.add(entry(100), A)
    assert shelf.remove_below(200) == 1
    assert (shelf.purge_left_over(), archive.purged) == (0, [1])
    archive.busy.clear()
    assert (shelf.purge_left_over(), archive.purged) == (1, [1, 2])
    assert shelf.purge_left_over() == 0
    store.close()


def test_a_recording_that_something_else_names_is_not_deleted(tmp_path: Path) -> None:
    """Numbers of recordings that the archive has lost are given to others."""
    archive: Any = BusyArchive()
    store = StateStore(open_lmdb(str(tmp_path / "state.mdb")))
    shelf = SnapshotShelf(archive, store, 0)
    shelf.add(entry(100), A)
    shelf.add(entry(200), A)
    assert shelf.remove_below(150) == 1
    shelf.drop(entry(300))
    assert archive.purged == []
    assert shelf.remove_below(250) == 1
    assert archive.purged == [1, 2]
    store.close()


def test_snapshots_whose_recordings_are_gone_are_forgotten(tmp_path: Path) -> None:
    """After an older copy of the archive alone was restored, they were told of as held, and others deleted for them."""
    store = StateStore(open_lmdb(str(tmp_path / "state.mdb")))
    here, gone = entry(100), entry(200)._replace(service_recording_id=3, module_recording_id=4)
    for one in (here, gone):
        store.put_snapshot(one, A)
    store.put_evidence(Evidence(200, 200, 50, 3, 4, 1000, B, A), 1 << 20)
    assert store.forget_lost([0, 1, 2, 3]) == [200]
    state = store.load()
    assert (state.snapshots, state.digests, store.list_evidence()) == ([here], {100: A}, [])
    assert store.forget_lost([0, 1, 2, 3]) == []
    store.close()


def test_evidence_that_is_too_long_is_not_kept(tmp_path: Path) -> None:
    """Its recordings may still be active: their length is that of what was written."""
    archive = BusyArchive()
    lengths = {1: (64, -1, 704), 2: (0, 360, None)}
    described: Any = SimpleNamespace(
        **{name: getattr(archive, name) for name in ("replays", "purge")},
        stop=lambda one: None,
        recording=lambda one: SimpleNamespace(written_position=lengths[one][2]) if lengths[one][2] else None,
        descriptor=lambda one: SimpleNamespace(start_position=lengths[one][0], stop_position=lengths[one][1]),
    )
    store = StateStore(open_lmdb(str(tmp_path / "state.mdb")))
    for bytes_max, kept in ((999, None), (1000, Evidence(100, 100, 50, 1, 2, 1000, B, A))):
        shelf = SnapshotShelf(described, store, 0, bytes_max)
        shelf.add(entry(100), B)
        assert shelf.keep_as_evidence(HeldSnapshot(100, A), B, 50) == kept
        assert shelf.list_evidence() == ([kept] if kept else [])
    assert shelf.remove_below(200) == 1
    assert archive.purged == [], "it is outside what retention deletes"
    store.close()


# -- the schedule ------------------------------------------------------------------------------------------------------


def test_a_snapshot_is_due_after_so_much_log() -> None:
    asked = Asked()
    schedule = SnapshotSchedule(1000, 0, asked)
    schedule.note(500, 0)
    schedule.work(1499, 10**9)
    assert asked.count == 0
    schedule.work(1500, 10**9)
    assert asked.count == 1
    schedule.note(1600, 10**9)
    schedule.work(2000, 10**9)
    assert asked.count == 1


def test_a_snapshot_is_due_after_so_much_time_unless_nothing_was_logged() -> None:
    asked = Asked()
    schedule = SnapshotSchedule(0, 60 * SECOND_NS, asked)
    schedule.note(500, 1_000_000)
    schedule.work(500, 2_000_000)
    schedule.work(600, 1_059_999)
    assert asked.count == 0
    schedule.work(600, 1_060_000)
    assert asked.count == 1


def test_the_time_of_a_new_cluster_begins_with_its_first_record() -> None:
    asked = Asked()
    schedule = SnapshotSchedule(0, 60 * SECOND_NS, asked)
    schedule.work(96, 1_000_000)
    schedule.work(96, 1_059_000)
    assert asked.count == 0
    schedule.work(96, 1_060_000)
    assert asked.count == 1


# -- reports -----------------------------------------------------------------------------------------------------------


def tell(reports: SnapshotReports, member_id: int, digests: dict[int, bytes], needed: int = -1, at_ns: int = 0) -> None:
    """The report of another member, through its bytes."""
    encoded = SnapshotReports(member_id, PATIENCE_NS).encode_own(digests, needed, at_ns)
    found = ordo_codecs.decode(encoded)
    assert found is not None
    reports.on_report(found[1], at_ns)


def test_a_quorum_holds_a_snapshot_alike() -> None:
    reports = SnapshotReports(0, PATIENCE_NS)
    reports.encode_own({100: A, 200: A, 300: A}, -1, 0)
    assert reports.find_quorums((0, 1, 2), 2) == []
    tell(reports, 1, {200: A, 300: B})
    assert reports.find_quorums((0, 1, 2), 2) == [HeldSnapshot(200, A)], "at 300 they differ"
    tell(reports, 2, {300: A})
    assert reports.find_quorums((0, 1, 2), 2) == [HeldSnapshot(200, A), HeldSnapshot(300, A)]
    assert reports.find_quorums((0, 1, 3), 2) == [HeldSnapshot(200, A)], "member 2 has no vote"
    assert reports.holders(HeldSnapshot(300, A)) == [0, 2]


def test_a_member_that_differs_from_a_quorum_is_told_so() -> None:
    reports = SnapshotReports(0, PATIENCE_NS)
    assert reports.find_difference(HeldSnapshot(100, A)) is None, "it has none"
    reports.encode_own({100: A, 200: B}, -1, 0)
    tell(reports, 1, {200: A})
    tell(reports, 2, {200: A})
    (agreed,) = reports.find_quorums((0, 1, 2), 2)
    assert agreed == HeldSnapshot(200, A)
    assert reports.find_difference(agreed) == B
    assert reports.find_difference(HeldSnapshot(100, A)) is None


def test_a_member_on_its_way_is_waited_for_as_long_as_it_is_heard() -> None:
    reports = SnapshotReports(0, PATIENCE_NS)
    reports.encode_own({}, 5, 0)
    assert reports.needed_position(0, 0) is None, "the own need is no reason to keep anything"
    tell(reports, 1, {}, needed=640)
    tell(reports, 2, {}, needed=96, at_ns=SECOND_NS)
    assert reports.needed_position(0, SECOND_NS) == 96
    assert reports.needed_position(320, SECOND_NS) == 640, "what is gone cannot be kept for member 2"
    assert reports.needed_position(0, PATIENCE_NS) == 96
    assert reports.needed_position(0, PATIENCE_NS + SECOND_NS) is None


def test_a_member_that_starts_does_not_know_yet_who_waits_for_what() -> None:
    """Whoever lacks log has perhaps told only the process that is gone: a new one waits until it has heard from all."""
    reports = SnapshotReports(0, PATIENCE_NS)
    assert not reports.is_complete((0, 1, 2), 0)
    reports.encode_own({}, -1, SECOND_NS)
    tell(reports, 1, {}, needed=640, at_ns=SECOND_NS)
    assert not reports.is_complete((0, 1, 2), PATIENCE_NS), "member 2 has said nothing"
    assert reports.is_complete((0, 1), PATIENCE_NS)
    assert reports.is_complete((0, 1, 2), PATIENCE_NS + SECOND_NS), "nobody is waited for any longer"
    tell(reports, 2, {}, needed=96, at_ns=SECOND_NS)
    assert reports.is_complete((0, 1, 2), PATIENCE_NS)


def test_what_a_quorum_holds_counts_when_it_is_here_too() -> None:
    agreement = Agreement(HeldSnapshot(100, A))
    assert agreement.settle([HeldSnapshot(100, B)], {100: A}) == [], "what is not newer does not matter"
    assert agreement.settle([HeldSnapshot(200, A)], {100: A}) == [(HeldSnapshot(200, A), 100)]
    missed = agreement.settle([HeldSnapshot(300, A)], {100: A, 200: A})
    assert missed == [(HeldSnapshot(300, A), 200)], "the quorum has given up 200 for the next one meanwhile"
    assert agreement.agreed == HeldSnapshot(200, A)
    assert agreement.settle([], {200: A, 300: B}) == [(HeldSnapshot(300, A), 200)], "it differs from the quorum's"
    assert agreement.settle([], {200: A, 300: A}) == []
    assert agreement.agreed == HeldSnapshot(300, A)


def test_snapshots_that_are_reported_at_once_tell_where_members_began_to_differ() -> None:
    agreement = Agreement(HeldSnapshot(-1, b""))
    missed = agreement.settle([HeldSnapshot(100, A), HeldSnapshot(200, A)], {100: A, 200: B})
    assert missed == [(HeldSnapshot(200, A), 100)]
    assert agreement.agreed == HeldSnapshot(100, A)


def test_a_report_of_half_a_row_is_none() -> None:
    encoded = ordo_codecs.SNAPSHOT_REPORT.encode(member_id=1, needed_position=-1, snapshots=b"x" * 25)
    found = ordo_codecs.decode(encoded)
    assert found is not None
    with pytest.raises(DecodeError, match="25 bytes"):
        SnapshotReports(0, PATIENCE_NS).on_report(found[1], 0)


def test_digests_tell_lists_of_messages_apart() -> None:
    assert digest_of([b"ab", b"c"]) != digest_of([b"a", b"bc"])
    assert combine(digest_of([]), digest_of([b""])) != combine(digest_of([b""]), digest_of([]))
    assert combine(b"", digest_of([])) == b"", "a service that gave none cannot be compared"


# -- the policy --------------------------------------------------------------------------------------------------------

SNAPSHOTS = [entry(900, 9_000), entry(600, 6_000), entry(300, 3_000)]


@pytest.mark.parametrize(
    ("policy", "bound"),
    [
        (RetentionPolicy(1), 0),
        (RetentionPolicy(1, log_bytes=0), 900),
        (RetentionPolicy(2, log_bytes=0), 600),
        (RetentionPolicy(4, log_bytes=0), 0),
        (RetentionPolicy(1, log_bytes=500), 500),
        (RetentionPolicy(1, log_bytes=5000), 0),
        (RetentionPolicy(1, log_ns=3 * SECOND_NS), 600),
        (RetentionPolicy(1, log_ns=60 * SECOND_NS), 0),
        (RetentionPolicy(1, log_bytes=900, log_ns=0), 100),
    ],
)
def test_what_the_policy_lets_go(policy: RetentionPolicy, bound: int) -> None:
    assert policy.find_bound(SNAPSHOTS, 1000, 9_500) == bound


# -- the store ---------------------------------------------------------------------------------------------------------


def test_a_snapshot_of_another_member_takes_the_place_of_everything(tmp_path: Path) -> None:
    store = StateStore(open_lmdb(str(tmp_path / "state.mdb")))
    store.put_candidate_term(9, 0, 0)
    store.put_log_recording(4)
    store.put_term(1, 0)
    store.put_term(2, 160)
    store.install(entry(640), A, [(1, 0), (5, 320)])
    state = store.load()
    assert state.candidate_term_id == 9, "a vote is never forgotten"
    assert (state.log_recording_id, state.log_base_position) == (-1, 640)
    assert state.terms == [(1, 0), (5, 320)]
    assert (state.snapshots, state.digests, state.agreed) == ([entry(640)], {640: A}, (640, A))
    store.put_log_recording(7)
    assert (store.load().log_recording_id, store.load().log_base_position) == (7, 0)
    store.close()


def test_a_log_that_is_given_up_begins_anew_behind_a_snapshot(tmp_path: Path) -> None:
    store = StateStore(open_lmdb(str(tmp_path / "state.mdb")))
    store.put_log_recording(4)
    for term, base in ((0, 0), (1, 640), (2, 960)):
        store.put_term(term, base)
    store.put_snapshot(entry(800), A)
    store.rebase(800)
    state = store.load()
    assert (state.log_recording_id, state.log_base_position, state.terms) == (-1, 800, [(0, 0), (1, 640)])
    store.remove_snapshot(800)
    assert (store.load().snapshots, store.load().digests) == ([], {})
    store.close()


def test_no_log_goes_before_the_service_has_said_what_its_consumers_need() -> None:
    policy = RetentionPolicy(1, log_bytes=0, consumer_bytes=500)
    archive: Any = BusyArchive()
    shelf: Any = Shelf(900, 600, 300)
    loading, without, with_consumers = (Retention(policy, archive, shelf) for _ in range(3))
    assert loading.find_log_bound(900, None, 1000, 0) == 0, "the service may be loading a long snapshot"
    without.note_service_ready()
    assert without.find_log_bound(900, None, 1000, 0) == 900
    with_consumers.held_position = 700
    with_consumers.note_service_ready()
    assert with_consumers.find_log_bound(900, None, 1000, 0) == 600, "where a snapshot says what was executed"
    with_consumers.held_position = 100
    assert with_consumers.find_log_bound(900, None, 1000, 0) == 300, "below 500: no more than consumer_bytes"
    with_consumers.held_position = 950
    assert with_consumers.find_log_bound(900, None, 1000, 0) == 900


def test_no_snapshot_goes_before_the_service_has_said_what_its_consumers_need() -> None:
    shelf = Shelf(900, 600, 300)
    retention = retention_of(shelf, RetentionPolicy(1, log_bytes=0, consumer_bytes=500))
    assert (retention.remove_snapshots(900, None, 1000), shelf.positions) == (0, [900, 600, 300])
    retention.note_service_ready()
    assert (retention.remove_snapshots(900, None, 1000), shelf.positions) == (2, [900])


def test_the_snapshot_at_or_before_the_slowest_consumer_stays() -> None:
    shelf = Shelf(900, 600, 300, 100)
    retention = retention_of(shelf, RetentionPolicy(1, log_bytes=0, consumer_bytes=500))
    retention.held_position = 599
    assert (retention.remove_snapshots(900, None, 1000), shelf.positions) == (1, [900, 600, 300])
    retention.held_position = 600
    assert (retention.remove_snapshots(900, None, 1000), shelf.positions) == (1, [900, 600])
    keeps_log = retention_of(shelf, RetentionPolicy(1, consumer_bytes=500))
    keeps_log.held_position = 600
    assert (keeps_log.remove_snapshots(900, None, 1000), shelf.positions) == (1, [900]), "the whole log is there"


@pytest.mark.parametrize("every_bytes", [1, 7, 60, 124, 126, 400, 900])
def test_what_waits_for_a_consumer_that_reads_nothing_is_bounded(every_bytes: int) -> None:
    """Snapshots, and log; and there is always a snapshot at or below where the log begins, or its beginning."""
    consumer_bytes = 500
    shelf = Shelf()
    retention = retention_of(shelf, RetentionPolicy(1, log_bytes=0, consumer_bytes=consumer_bytes))
    retention.held_position = 50
    bounds = []
    for position in range(every_bytes, 6000, every_bytes):
        shelf.add(position)
        retention.remove_snapshots(position, None, position)
        bounds.append(retention.find_log_bound(position, None, position, 0))
        held = max(50, position - consumer_bytes)
        assert bounds[-1] <= held
        assert bounds[-1] in [*shelf.positions, 0]
        assert bounds[-1] >= held - max(consumer_bytes // 4, every_bytes) - every_bytes
        assert len(shelf.positions) <= 2 * 4 + 4
    assert bounds == sorted(bounds)


class Shelf:
    """Snapshots at these positions."""

    def __init__(self, *positions: int) -> None:
        self.positions = list(positions)

    def add(self, position: int) -> None:
        self.positions.insert(0, position)

    def valid(self) -> list[SnapshotEntry]:
        return [entry(position) for position in self.positions]

    def remove_below(self, log_position: int, spared: Collection[int] = ()) -> int:
        before = len(self.positions)
        self.positions = [one for one in self.positions if one >= log_position or one in spared]
        return before - len(self.positions)


def retention_of(shelf: Shelf, policy: RetentionPolicy) -> Retention:
    archive: Any = BusyArchive()
    given: Any = shelf
    return Retention(policy, archive, given)


@pytest.mark.parametrize("unit", TimeUnit)
def test_the_age_of_snapshots_is_known_in_every_unit(unit: TimeUnit) -> None:
    begun_s = 1_700_000_000
    policy = RetentionPolicy(1, log_ns=60 * SECOND_NS)
    kept = [entry(9000, unit.duration(seconds=begun_s + 61)), entry(4000, unit.duration(seconds=begun_s))]
    assert policy.find_bound(kept, 10_000, (begun_s + 59) * 1000) == 0
    assert policy.find_bound(kept, 10_000, (begun_s + 60) * 1000) == 4000
    assert policy.find_bound(kept, 10_000, (begun_s + 121) * 1000) == 9000
