"""Metadata stores that lie: no flip of any single bit is served as good, and none ends the process in LMDB."""

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from ordo.archive.segments.catalog import Catalog, RecordingDescriptor
from ordo.archive.store import lmdb_store
from ordo.archive.store.lmdb_pages import FORMAT_09, FORMAT_10, format_of, read_pages
from ordo.archive.store.lmdb_seal import SEALS, unsealed
from ordo.archive.store.lmdb_store import LmdbStore, compact_store, open_lmdb
from ordo.cluster.module.state.state_store import Evidence, Skip, SnapshotEntry, StateStore, open_state_store
from ordo.consensus.state.distrust import Distrust
from ordo.runtime.errors import StorageDamagedError, StorageError
from ordo.runtime.io.storage import FileStorage

PAGE = 4096
META_LENGTH = 16 + 24 + 2 * 48 + 16
TEMPLATE = RecordingDescriptor(-1, 0, -1, 1000, -1, 7, 65536, 65536, 1408, 77, 100, "aeron:ipc", "aeron:ipc", "here")


def write_catalog(path: Path) -> None:
    """Enough transactions that pages are free, are used again, and show older states."""
    catalog = Catalog(LmdbStore(str(path)))
    for _ in range(2):
        catalog.add(TEMPLATE)
    for position in range(32, 32 * 6, 32):
        catalog.update(0, stop_position=position)
    catalog.close()


def write_state(path: Path) -> None:
    """Everything that a member remembers: a vote, terms, snapshots, what it lost and what it leaves out."""
    store = StateStore(LmdbStore(str(path)))
    store.put_log_recording(3)
    for term_id in range(3):
        store.put_candidate_term(term_id, 640 * term_id, 1000 + term_id)
        store.put_term(term_id, 640 * term_id)
    store.put_snapshot(SnapshotEntry(1280, 2, 1280, 1002, 4, 5, True), b"d" * 16)
    store.put_agreed(1280, b"d" * 16)
    store.put_distrust(Distrust.LOG)
    store.put_check_log(True)
    store.put_skip(Skip(960, 1024, 1001, b"ValueError"))
    store.put_skip_wish(1344)
    store.put_evidence(Evidence(640, 640, 320, 1, 2, 4096, b"a" * 16, b"b" * 16), 1 << 20)
    store.close()


def begin_in_lmdb_10(path: Path) -> None:
    """An empty file of the other engine, as a process writes one that the environment tells to."""
    if not hasattr(lmdb.Environment, "lib_version"):
        pytest.skip("this release of lmdb has one engine")
    lmdb.open(str(path), map_size=1 << 20, subdir=False, lib_version=1).close()


def content_of(path: Path, data: bytes) -> dict[bytes, bytes]:
    """What is served of a file of these bytes. Raises StorageDamagedError."""
    items, is_sealed = unsealed(str(path), read_pages(str(path), data))
    assert is_sealed
    return items


@pytest.mark.parametrize(("name", "write"), [("catalog.mdb", write_catalog), ("state.mdb", write_state)])
def test_no_bit_of_a_store(tmp_path: Path, name: str, write: Callable[[Path], None]) -> None:
    """Bytes that may be inverted without a trace are not read; of all others, every bit is flipped."""
    path = tmp_path / name
    write(path)
    original = path.read_bytes()
    good = content_of(path, original)
    found, unread = 0, []
    for offset in range(len(original)):
        changed = bytearray(original)
        changed[offset] ^= 0xFF
        try:
            assert content_of(path, bytes(changed)) == good, f"offset={offset}"
            unread.append(offset)
            continue
        except StorageDamagedError:
            found += 1
        for bit in range(8):
            changed[offset] = original[offset] ^ 1 << bit
            try:
                assert content_of(path, bytes(changed)) == good, f"offset={offset} bit={bit}"
            except StorageDamagedError:
                found += 1
    assert found > 5000
    harmless = [offset for offset in unread if offset < 2 * PAGE and offset % PAGE < META_LENGTH]
    assert sum(served_by_lmdb(path, original, offset, good) for offset in harmless[::5]) > 20


def served_by_lmdb(path: Path, original: bytes, offset: int, good: dict[bytes, bytes]) -> bool:
    """LMDB itself on a file with an inverted byte that was found harmless: it refuses it, or serves and writes it."""
    changed = bytearray(original)
    changed[offset] ^= 0xFF
    path.write_bytes(changed)
    try:
        store = LmdbStore(str(path))
    except StorageDamagedError:
        return False
    with store:
        assert dict(store.items()) == good
        with store.transaction() as txn:
            txn.put(b"more", b"x")
    with LmdbStore(str(path)) as store:
        assert dict(store.items()) == good | {b"more": b"x"}
    return True


def test_an_older_state_is_not_taken_for_the_present(tmp_path: Path) -> None:
    """The newer meta page with the root of the older one, whose pages are all there."""
    path = tmp_path / "m.mdb"
    with LmdbStore(str(path)) as store:
        for vote in (b"1", b"2"):
            with store.transaction() as txn:
                txn.put(b"vote", vote)
    data = bytearray(path.read_bytes())
    transactions = [int.from_bytes(data[page * PAGE + META_LENGTH - 8 :][:8], "little") for page in range(2)]
    older, newer = sorted(range(2), key=transactions.__getitem__)
    begin, end = 16 + 24, META_LENGTH - 8
    data[newer * PAGE + begin : newer * PAGE + end] = data[older * PAGE + begin : older * PAGE + end]
    path.write_bytes(data)
    with pytest.raises(StorageDamagedError, match=r"m\.mdb: its content is not what its seal says"):
        LmdbStore(str(path))


@pytest.mark.parametrize("transactions", [2, 3, 4, 5, 6, 7, 8])
def test_no_bit_of_a_transaction_id(tmp_path: Path, transactions: int) -> None:
    """Of ids 6 and 7 one flipped bit makes 6 and 5, so that the last vote but one would be the last one."""
    path = tmp_path / "m.mdb"
    with LmdbStore(str(path)) as store:
        for number in range(1, transactions):
            with store.transaction() as txn:
                txn.put(b"vote", bytes([number]))
    original = path.read_bytes()
    good = content_of(path, original)
    for page, bit in itertools.product(range(2), range(64)):
        changed = bytearray(original)
        changed[page * PAGE + META_LENGTH - 8 + bit // 8] ^= 1 << bit % 8
        with pytest.raises(StorageDamagedError):
            assert content_of(path, bytes(changed)) == good
    assert good == {b"vote": bytes([transactions - 1])}


def test_a_store_of_an_earlier_version_is_read_and_sealed(tmp_path: Path) -> None:
    path = str(tmp_path / "m.mdb")
    with lmdb.open(path, map_size=1 << 20, subdir=False) as env, env.begin(write=True) as txn:
        txn.put(b"a", b"1")
    assert open_lmdb(path, True).items() == [(b"a", b"1")]
    LmdbStore(path).close()
    with lmdb.open(path, subdir=False) as env, env.begin() as txn:
        assert [key for key, _ in txn.cursor()] == [*SEALS, b"a"]
    with LmdbStore(path) as store, pytest.raises(ValueError, match="key_length"), store.transaction() as changes:
        changes.put(SEALS[0], b"")


def test_a_compacted_store_keeps_its_seal(tmp_path: Path) -> None:
    path = tmp_path / "catalog.mdb"
    write_catalog(path)
    before = content_of(path, path.read_bytes())
    compact_store(str(path))
    assert content_of(path, path.read_bytes()) == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["catalog.mdb", "catalog.mdb-lock"]


@pytest.mark.parametrize("is_newer", [False, True], ids=["LMDB 0.9", "LMDB 1.0"])
def test_values_of_many_pages_and_many_keys(tmp_path: Path, is_newer: bool) -> None:
    """Branch pages, overflow pages, pages that were free and are used again: what LMDB reads is what is read here."""
    path = tmp_path / "m.mdb"
    if is_newer:
        begin_in_lmdb_10(path)
    with LmdbStore(str(path)) as store:
        for round_number in range(5):
            with store.transaction() as txn:
                for number in range(round_number, 600, 1 + round_number):
                    txn.put(b"key-%d" % number, bytes([round_number]) * (number * 37 % 9000))
                txn.delete(b"key-%d" % (round_number * 7))
    with lmdb.open(str(path), subdir=False) as env, env.begin() as txn:
        expected = {key: value for key, value in txn.cursor() if key not in SEALS}
    assert len(expected) > 500
    assert content_of(path, path.read_bytes()) == expected
    assert format_of(path.read_bytes()) == (FORMAT_10 if is_newer else FORMAT_09)


@pytest.mark.parametrize(("name", "write"), [("catalog.mdb", write_catalog), ("state.mdb", write_state)])
def test_a_store_of_lmdb_10_is_read_written_and_copied_as_one(
    tmp_path: Path, name: str, write: Callable[[Path], None]
) -> None:
    path, plain = tmp_path / name, tmp_path / f"plain-{name}"
    begin_in_lmdb_10(path)
    write(path)
    write(plain)
    expected = content_of(plain, plain.read_bytes())
    assert content_of(path, path.read_bytes()) == expected
    with LmdbStore(str(path)) as store:
        store.copy_to(f"{path}.copy")
    compact_store(str(path))
    for each in (path, Path(f"{path}.copy")):
        assert content_of(each, each.read_bytes()) == expected
        assert format_of(each.read_bytes()) == FORMAT_10
    assert format_of(plain.read_bytes()) == FORMAT_09


def test_no_bit_of_a_store_of_lmdb_10_is_served_as_something_else(tmp_path: Path) -> None:
    path = tmp_path / "catalog.mdb"
    begin_in_lmdb_10(path)
    write_catalog(path)
    original = path.read_bytes()
    good, found = content_of(path, original), 0
    for place in range(0, len(original) * 8, 7):
        changed = bytearray(original)
        changed[place // 8] ^= 1 << place % 8
        try:
            assert content_of(path, bytes(changed)) == good, place
        except StorageDamagedError:
            found += 1
    assert found > 100


ENVIRONMENT_PROGRAM = """
import sys
from ordo.archive.store.lmdb_store import LmdbStore, open_lmdb
for number in range(3):
    with LmdbStore(sys.argv[1]) as store, store.transaction() as changes:
        changes.put(b"key-%d" % number, b"value")
print(len(open_lmdb(sys.argv[1], True).items()))
"""


@pytest.mark.parametrize("wanted", ["0", "1", "7"])
def test_the_environment_does_not_choose_the_engine(tmp_path: Path, wanted: str) -> None:
    """With 1 a node's own store was called damaged at its second opening."""
    path = tmp_path / "state.mdb"
    done = subprocess.run(
        [sys.executable, "-c", ENVIRONMENT_PROGRAM, str(path)],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"LMDB_DEFAULT_LIB_VERSION": wanted},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
    assert format_of(path.read_bytes()) == FORMAT_09


def test_a_release_without_the_engine_of_a_file_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And does not call the file damaged, which would put a member's vote aside."""
    path = tmp_path / "state.mdb"
    begin_in_lmdb_10(path)
    monkeypatch.setattr(lmdb_store, "_HAS_ENGINES", False)
    with pytest.raises(StorageError, match=r"written by LMDB 1\.0, .* install lmdb 3\.0 or later") as refused:
        LmdbStore(str(path))
    assert not isinstance(refused.value, StorageDamagedError)


def test_a_damaged_store_of_votes_is_moved_aside(tmp_path: Path) -> None:
    """The member then starts without its vote, distrusted, and does not vote twice."""
    storage = FileStorage(open_lmdb)
    path = tmp_path / "state.mdb"
    store = StateStore(storage.open_metadata(str(path)))
    store.put_candidate_term(7, 640, 1000)
    store.close()
    data = bytearray(path.read_bytes())
    for vote in (found.end() for found in re.finditer(b"vote", bytes(data))):
        data[vote + 7] ^= 1
    path.write_bytes(data)
    opened, loss = open_state_store(storage, str(path), 1234, is_expected=True)
    assert loss == f"was damaged and is kept as {path}.damaged-1234"
    assert opened.load().candidate_term_id == -1
    opened.close()
