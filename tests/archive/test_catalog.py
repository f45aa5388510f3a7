"""The catalog: its bytes, its ids, and reading it beside the process that owns it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordo.archive.segments.catalog import (
    NULL_TIMESTAMP,
    Catalog,
    RecordingDescriptor,
    RecordingState,
    decode_descriptor,
    encode_descriptor,
)
from ordo.runtime.errors import ArchiveError, ConfigurationError, StorageError, UnknownRecordingError
from ordo.runtime.native.sentinels import NULL_POSITION

SAMPLE = RecordingDescriptor(
    recording_id=3,
    start_position=64,
    stop_position=NULL_POSITION,
    start_timestamp=1_700_000_000_000,
    stop_timestamp=NULL_TIMESTAMP,
    initial_term_id=-9,
    segment_length=1 << 26,
    term_length=1 << 24,
    mtu=1408,
    session_id=-12345,
    stream_id=100,
    stripped_channel="aeron:ipc",
    original_channel="aeron:ipc?term-length=16m",
    source_identity="10.0.0.1:4000",
)
GOLDEN = (
    "01000000000000000300000000000000000000000000000000 68e5cf8b010000 ffffffffffffffff 4000000000000000"
    "ffffffffffffffff f7ffffff 00000004 00000001 80050000 00000000 c7cfffff 64000000"
    "09000000 6165726f6e3a697063"
    "19000000 6165726f6e3a6970633f7465726d2d6c656e6774683d31366d"
    "0d000000 31302e302e302e313a34303030"
)


@pytest.fixture
def catalog(tmp_path: Path, storage: Any) -> Any:
    catalog = Catalog.open(storage, str(tmp_path))
    yield catalog
    catalog.close()


def test_golden_bytes() -> None:
    """What is on disk today is read by every later version."""
    assert encode_descriptor(SAMPLE).hex() == GOLDEN.replace(" ", "")
    assert decode_descriptor(bytes.fromhex(GOLDEN)) == SAMPLE


@given(
    numbers=st.tuples(*[st.integers(-(1 << 63), (1 << 63) - 1)] * 4),
    lengths=st.tuples(*[st.integers(-(1 << 31), (1 << 31) - 1)] * 6),
    texts=st.tuples(*[st.text(max_size=50)] * 3),
    state=st.sampled_from(RecordingState),
)
def test_every_descriptor_comes_back(
    numbers: tuple[int, ...], lengths: tuple[int, ...], texts: tuple[str, str, str], state: RecordingState
) -> None:
    descriptor = RecordingDescriptor._make((9, *numbers, *lengths, *texts, state))
    assert decode_descriptor(encode_descriptor(descriptor)) == descriptor


@given(st.binary(max_size=200))
def test_damaged_entries_are_archive_errors(value: bytes) -> None:
    try:
        decode_descriptor(value)
    except ArchiveError as error:
        assert "catalog entry is damaged" in str(error)


def test_ids_ascend_and_are_never_given_twice(catalog: Catalog) -> None:
    assert [catalog.add(SAMPLE).recording_id for _ in range(3)] == [0, 1, 2]
    catalog.remove(2)
    assert catalog.add(SAMPLE).recording_id == 3
    assert [descriptor.recording_id for descriptor in catalog] == [0, 1, 3]


def test_many_entries_stay_in_order(catalog: Catalog) -> None:
    for _ in range(300):
        catalog.add(SAMPLE)
    assert [descriptor.recording_id for descriptor in catalog] == list(range(300))


def test_changes_are_kept(catalog: Catalog, tmp_path: Path, storage: Any) -> None:
    catalog.add(SAMPLE)
    changed = catalog.update(0, stop_position=640, stop_timestamp=5)
    assert changed == SAMPLE._replace(recording_id=0, stop_position=640, stop_timestamp=5)
    catalog.close()
    reopened = Catalog.open(storage, str(tmp_path))
    assert reopened.get(0) == changed
    reopened.close()


def test_unknown_recordings(catalog: Catalog) -> None:
    for recording_id in (0, -1, 1 << 40):
        with pytest.raises(UnknownRecordingError, match=f"unknown recording id: {recording_id}"):
            catalog.get(recording_id)
        with pytest.raises(UnknownRecordingError):
            catalog.update(recording_id, stop_position=0)


def test_another_process_reads_while_this_one_writes(catalog: Catalog, tmp_path: Path) -> None:
    catalog.add(SAMPLE)
    program = (
        "import sys; from ordo.archive.inspection.recording_inspection import list_recordings\n"
        "print([d.stop_position for d in list_recordings(sys.argv[1])])"
    )
    for stop in (-1, 96):
        catalog.update(0, stop_position=stop)
        found = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
        )
        assert found.stdout.strip() == f"[{stop}]"


def test_a_catalog_of_another_format_is_refused(tmp_path: Path, storage: Any) -> None:
    Catalog.open(storage, str(tmp_path)).close()
    store = storage.open_metadata(f"{tmp_path}/catalog.mdb")
    with store.transaction() as txn:
        txn.put(b"format", (2).to_bytes(4, "little"))
    store.close()
    with pytest.raises(ConfigurationError, match=r"format 2, this version reads 1"):
        Catalog.open(storage, str(tmp_path))


def test_a_folder_without_a_catalog(tmp_path: Path, storage: Any) -> None:
    with pytest.raises(StorageError, match="not there"):
        Catalog.open(storage, str(tmp_path), read_only=True)
