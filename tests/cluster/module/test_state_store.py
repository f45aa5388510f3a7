"""What a member remembers across a crash."""

from pathlib import Path

from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.module.state.state_store import Epoch, Evidence, Skip, SnapshotEntry, StateStore
from ordo.cluster.wire.log_identity import Origin
from ordo.consensus.state.messages import Lead


def test_an_empty_store_has_no_vote_no_log_no_terms(tmp_path: Path) -> None:
    store = StateStore(open_lmdb(str(tmp_path / "state.mdb")))
    state = store.load()
    assert (state.candidate_term_id, state.log_recording_id, state.terms, state.snapshots) == (-1, -1, [], [])
    store.close()


def test_everything_is_there_after_reopening(tmp_path: Path) -> None:
    path = str(tmp_path / "state.mdb")
    entry = SnapshotEntry(800, 3, 640, 1234, 5, 6, True)
    store = StateStore(open_lmdb(path))
    store.put_candidate_term(7, 4096, 99)
    store.put_log_recording(2)
    for term, base in ((0, 0), (3, 640), (300, 6400)):
        store.put_term(term, base)
    store.put_snapshot(entry)
    store.close()
    again = StateStore(open_lmdb(path))
    state = again.load()
    assert state.candidate_term_id == 7
    assert state.log_recording_id == 2
    assert state.terms == [(0, 0), (3, 640), (300, 6400)]
    assert state.snapshots == [entry]
    again.close()


def test_truncating_forgets_the_terms_that_begin_there(tmp_path: Path) -> None:
    store = StateStore(open_lmdb(str(tmp_path / "state.mdb")))
    for term, base in ((0, 0), (1, 640), (2, 960)):
        store.put_term(term, base)
    store.truncate_terms(640)
    assert store.load().terms == [(0, 0)]
    store.close()


def test_a_new_row_replaces_rows_of_its_term_or_beyond_its_base(tmp_path: Path) -> None:
    """A row whose record did not survive a crash must not come back when the log grows past its base."""
    store = StateStore(open_lmdb(str(tmp_path / "state.mdb")))
    for term, base in ((0, 0), (1, 640), (5, 960)):
        store.put_term(term, base)
    store.put_term(4, 800)
    assert store.load().terms == [(0, 0), (1, 640), (4, 800)]
    store.close()


def test_who_led_a_term_is_kept_for_as_long_as_the_term(tmp_path: Path) -> None:
    path = str(tmp_path / "state.mdb")
    store = StateStore(open_lmdb(path))
    for term, base in ((0, 0), (1, 640), (5, 960)):
        store.put_term(term, base, Lead(term % 3, -7 - term))
    store.put_term(6, 1280)
    store.close()
    store = StateStore(open_lmdb(path))
    assert store.load().leads == {0: Lead(0, -7), 1: Lead(1, -8), 5: Lead(2, -12)}
    store.put_leads({6: Lead(1, 9)})
    store.truncate_terms(960)
    assert store.load().leads == {0: Lead(0, -7), 1: Lead(1, -8)}
    store.put_term(1, 640)
    assert store.load().leads == {0: Lead(0, -7)}, "a row without its lead says nothing of it"
    store.put_term(2, 960, Lead(2, 4))
    store.rebase(960)
    assert store.load().leads == {0: Lead(0, -7)}
    store.install(SnapshotEntry(800, 3, 640, 1234, 5, 6, True), b"d" * 16, [(0, 0), (3, 640)])
    assert (store.load().terms, store.load().leads) == ([(0, 0), (3, 640)], {})
    store.close()


def test_a_new_epoch_forgets_what_was_agreed_on_behind_its_beginning(tmp_path: Path) -> None:
    """The log up to there does not have it: no other member of the new epoch would do the same."""
    store = StateStore(open_lmdb(str(tmp_path / "state.mdb")))
    for log_position, skip_position in ((64, 96), (128, 320), (288, 352)):
        store.put_skip(Skip(log_position, skip_position, 9, b"poison"))
    for log_position in (160, 384):
        store.put_skip_wish(log_position)
    store.put_agreed(256, b"d" * 16)
    store.begin_epoch(Epoch(192, 640, [(0, 0)], 77, 9, Origin(b"i" * 16, 224)))
    state = store.load()
    assert list(state.skips) == [64] and state.skip_wishes == {160} and state.agreed == (-1, b"")
    assert state.terms == [(0, 0), (77, 192)] and state.candidate_term_id == 77
    store.close()


def evidence(log_position: int, length_bytes: int = 1000) -> Evidence:
    service_id = log_position + 1
    return Evidence(log_position, log_position, 32, service_id, service_id + 1, length_bytes, b"o" * 16, b"t" * 16)


def test_evidence_is_bounded_in_number_and_bytes(tmp_path: Path) -> None:
    store = StateStore(open_lmdb(str(tmp_path / "state.mdb")))
    assert store.put_evidence(evidence(100), 5000) == store.put_evidence(evidence(200), 5000) == []
    assert store.list_evidence() == [evidence(100), evidence(200)]
    assert store.put_evidence(evidence(300), 5000) == [101, 102], "at most two"
    assert store.put_evidence(evidence(400, 4500), 5000) == [201, 202, 301, 302], "no more bytes than that together"
    assert store.evidence() == {401, 402}
    taken_again = evidence(400)._replace(service_recording_id=501)
    assert store.put_evidence(taken_again, 5000) == [401], "the module's part is the same recording"
    assert store.list_evidence() == [taken_again]
    store.close()


def test_evidence_that_an_earlier_release_has_kept_is_its_recordings(tmp_path: Path) -> None:
    inner = open_lmdb(str(tmp_path / "state.mdb"))
    with inner.transaction() as txn:
        txn.put(b"evidence/" + (640).to_bytes(8, "big"), (7).to_bytes(8, "big") + (8).to_bytes(8, "big"))
    store = StateStore(inner)
    assert store.list_evidence() == [Evidence(640, 640, -1, 7, 8, 0, b"", b"")]
    store.close()
