"""Whose log a log was, where others went on with it: from its terms, its records, and what a member wrote down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.module.log.log_executor import LogRecord
from ordo.cluster.module.members.cluster_identity import ClusterIdentity
from ordo.cluster.module.state.state_store import Epoch, StateStore
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.log_identity import (
    EPOCH_RECORDS_MAX,
    TERM_LEAP,
    LogIdentity,
    Origin,
    epoch_bases,
    identity_at,
    pack_past,
    read_origins,
    unpack_identity,
)
from ordo.runtime.io.storage import FileStorage

FIRST, SECOND, THIRD = b"1" * 16, b"2" * 16, b"3" * 16
BASE, NEXT_BASE = 4096, 8192
TERMS = [
    (0, 0),
    (1, 1024),
    (1 + TERM_LEAP, BASE),
    (2 + TERM_LEAP, 6144),
    (2 + 2 * TERM_LEAP, NEXT_BASE),
    (3 + 2 * TERM_LEAP, 9216),
]
ORIGINS = [Origin(FIRST, 96), Origin(SECOND, BASE + 32), Origin(THIRD, NEXT_BASE + 32)]


def test_a_term_that_is_far_ahead_is_the_first_one_of_another_cluster() -> None:
    assert epoch_bases(TERMS) == [BASE, NEXT_BASE]
    assert epoch_bases(TERMS[:2]) == epoch_bases([]) == epoch_bases([(5 * TERM_LEAP, 0)]) == []


@pytest.mark.parametrize(
    ("position", "identity"),
    [(32, FIRST), (96, FIRST), (BASE, FIRST), (BASE + 32, SECOND), (NEXT_BASE, SECOND), (NEXT_BASE + 32, THIRD)],
)
def test_a_record_that_ends_where_a_cluster_went_on_is_of_the_one_before(position: int, identity: bytes) -> None:
    assert identity_at(position, TERMS, ORIGINS) == identity


def test_an_identity_that_is_not_known_is_not_guessed_from_its_neighbours() -> None:
    known = [ORIGINS[0], ORIGINS[2]]
    assert [identity_at(one, TERMS, known) for one in (BASE, 6144, NEXT_BASE, 9216)] == [FIRST, b"", b"", THIRD]
    assert identity_at(BASE, TERMS, ORIGINS[1:]) == b""
    assert identity_at(BASE, TERMS, []) == b""


def test_an_identity_that_a_record_says_late_is_that_of_all_before_it() -> None:
    """Where nobody had a log's first record any more, its leader drew an identity."""
    assert identity_at(1024, TERMS, [Origin(FIRST, 2048)]) == FIRST


def test_an_identity_that_a_leader_drew_is_not_that_of_what_another_member_knows_before_it() -> None:
    """It did not have the log's first record any more, and others know what that says."""
    drawn = [ORIGINS[0], Origin(SECOND, 2048)]
    assert [identity_at(one, TERMS, drawn) for one in (1024, 2016, 2048, BASE)] == [FIRST, FIRST, SECOND, SECOND]


def test_below_the_oldest_term_that_is_known_nothing_is() -> None:
    """What became another cluster's before that would not be seen."""
    assert identity_at(1024, TERMS[1:], ORIGINS) == b""
    assert identity_at(2048, TERMS[1:], ORIGINS) == FIRST


def event(identity: bytes, log_position: int) -> bytes:
    return ordo_codecs.CLUSTER_IDENTITY_EVENT.encode(
        leadership_term_id=3, timestamp=0, log_position=log_position, member_id=0, **unpack_identity(identity)
    )


@pytest.mark.parametrize(("behind", "is_found"), [(0, True), (EPOCH_RECORDS_MAX - 1, True), (EPOCH_RECORDS_MAX, False)])
def test_a_log_says_its_identity_behind_each_place_where_it_became_anothers(behind: int, is_found: bool) -> None:
    def records(position: int) -> Iterator[tuple[int, bytes]]:
        for number in range(behind):
            yield position + 32 * (number + 1), b"a record"
        yield position + 1024, event(SECOND if position == BASE else THIRD, position + 32)

    assert read_origins(TERMS, 0, records) == (ORIGINS[1:] if is_found else [])
    assert read_origins(TERMS, BASE + 1, records) == (ORIGINS[2:] if is_found else []), "the log begins behind it"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StateStore]:
    made = StateStore(FileStorage(open_lmdb).open_metadata(str(tmp_path / "state.mdb")))
    yield made
    made.close()


def make_identity(store: StateStore) -> ClusterIdentity:
    host: Any = SimpleNamespace(announce=lambda *_: None)
    levels: Any = None
    random: Any = None
    return ClusterIdentity(host, levels, store.folder, random, 0)


def test_a_member_knows_after_a_start_whose_its_log_was(store: StateStore) -> None:
    store.folder.put_origin(ORIGINS[0])
    store.begin_epoch(Epoch(BASE, 5000, [], TERM_LEAP, 0, ORIGINS[1]))
    identity = make_identity(store)
    identity.execute(LogRecord(9000, ordo_codecs.CLUSTER_IDENTITY_EVENT, decoded(event(THIRD, NEXT_BASE + 32))))
    assert store.folder.origins() == ORIGINS
    again = make_identity(store)
    assert [again.find_past(one, TERMS) for one in (BASE, NEXT_BASE, 9216)] == [FIRST, SECOND, THIRD]


def decoded(record: bytes) -> Any:
    found = ordo_codecs.decode(record)
    assert found is not None
    return found[1]


def test_a_folder_of_an_earlier_release_learns_it_from_the_log(store: StateStore) -> None:
    """It has the newest identity alone, and the log has the others where it still has those places."""
    with store._store.transaction() as txn:
        txn.put(b"origin", ORIGINS[2].identity + ORIGINS[2].position.to_bytes(8, "big"))
    identity = make_identity(store)
    assert identity.find_past(NEXT_BASE, TERMS) == b""
    assert identity.told(9216) is None
    identity.start(None, ORIGINS[0], has_log=True, past=ORIGINS[1:])
    assert [identity.find_past(one, TERMS) for one in (BASE, NEXT_BASE, 9216)] == [FIRST, SECOND, THIRD]
    told = identity.told(0)
    assert told is not None, "the log says the identity that is written down: no leader draws another one"
    assert told.past == pack_past(ORIGINS[:2]), "clients are told what it was before"


def test_what_a_snapshot_and_records_that_are_not_committed_say_counts_as_well(store: StateStore) -> None:
    identity = make_identity(store)
    identity.start(LogIdentity(BASE + 64, SECOND), None, has_log=False)
    identity.on_record(LogRecord(NEXT_BASE + 96, ordo_codecs.CLUSTER_IDENTITY_EVENT, decoded(event(THIRD, -1))))
    assert [identity.find_past(one, TERMS) for one in (BASE, NEXT_BASE, 9216)] == [b"", SECOND, THIRD]
    identity.truncate(NEXT_BASE)
    assert identity.find_past(9216, TERMS) == b""


def test_a_folder_that_becomes_a_standbys_is_of_the_cluster_that_its_log_is_of(store: StateStore) -> None:
    for one in ORIGINS:
        store.folder.put_origin(one)
    store.become_standby(NEXT_BASE)
    assert store.folder.origins() == ORIGINS[:2] and store.folder.origin == ORIGINS[1]
    store.become_standby(64)
    assert store.folder.origins() == [] and store.folder.origin is None
