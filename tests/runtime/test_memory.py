"""Memory with a stable address, and where it comes from."""

import gc
import subprocess
from pathlib import Path

import pytest

from ordo.runtime.errors import (
    MemoryInUseError,
    StorageError,
    StorageExistsError,
    StorageFullError,
    StorageMissingError,
)
from ordo.runtime.native.memory import (
    FileMemoryProvider,
    HeapMemoryProvider,
    MemoryProvider,
    allocate,
    check_usable_bytes,
)


@pytest.fixture(params=["file", "heap"])
def provider(request: pytest.FixtureRequest) -> MemoryProvider:
    return FileMemoryProvider() if request.param == "file" else HeapMemoryProvider()


def test_new_memory_is_zeroed_and_shared_by_name(provider: MemoryProvider, tmp_path: Path) -> None:
    path = str(tmp_path / "publications" / "1.logbuffer")
    writer = provider.create(path, 100_000)
    assert bytes(writer) == bytes(100_000)
    reader = provider.open(path, writable=False)
    with memoryview(writer) as view:
        view[99_999] = 7
    assert bytes(reader)[99_999] == 7
    with memoryview(reader) as view:
        assert view.readonly
    assert provider.exists(path)
    assert provider.list_files(str(tmp_path)) == [path]


def test_mapping_outlives_its_name_and_other_handles(provider: MemoryProvider, tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    first = provider.create(path, 64)
    second = provider.open(path)
    provider.remove(path)
    provider.remove(path)
    assert not provider.exists(path)
    with memoryview(first) as view:
        view[0] = 3
    first.close()
    assert bytes(second)[0] == 3


def test_names_are_exclusive_and_must_exist(provider: MemoryProvider, tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    with pytest.raises(StorageMissingError, match=path):
        provider.open(path)
    provider.create(path, 64)
    with pytest.raises(StorageExistsError, match=path):
        provider.create(path, 64)
    provider.remove_directory(str(tmp_path))
    assert not provider.exists(path)


def test_no_room_is_told_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "big"
    with pytest.raises(StorageFullError, match=r"needed_bytes=1125899906842624 usable_bytes=\d+"):
        FileMemoryProvider().create(str(path), 1 << 50)
    assert not path.exists()
    with pytest.raises(StorageFullError):
        HeapMemoryProvider(capacity_bytes=100).create("/x", 101)


def test_shared_memory_error_says_how_to_raise_it() -> None:
    with pytest.raises(StorageFullError, match=r"remount,size=.*--shm-size.*medium: Memory"):
        check_usable_bytes("/dev/shm/ordo", 2, 1)


def test_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(StorageError, match="empty"):
        FileMemoryProvider().open(str(tmp_path / "a"))


def test_files_are_sparse_unless_asked(tmp_path: Path) -> None:
    provider = FileMemoryProvider()
    provider.create(str(tmp_path / "a"), 1 << 20)
    provider.create(str(tmp_path / "b"), 1 << 20, sparse=False)
    assert (tmp_path / "a").stat().st_blocks * 512 < 1 << 16
    assert (tmp_path / "b").stat().st_blocks * 512 >= 1 << 20


@pytest.mark.parametrize("length_bytes", [100, 1 << 20])
def test_close_refuses_while_views_or_slices_are_out(length_bytes: int) -> None:
    memory = allocate(length_bytes)
    view = memoryview(memory)
    part = memory.slice(10, 20)
    with pytest.raises(MemoryInUseError, match="views=2"):
        memory.close()
    view.release()
    part.close()
    memory.close()
    memory.close()
    assert memory.closed
    with pytest.raises(BufferError):
        memoryview(memory)


def test_slice_in_a_cycle_is_collected_without_its_parent_going_first() -> None:
    parent = allocate(100)
    cycle: list[object] = [parent.slice(0, 10)]
    cycle.append(cycle)
    with pytest.raises(MemoryInUseError):
        parent.close()
    del cycle
    gc.collect()
    parent.close()


def test_slice_keeps_its_parent_alive_and_its_bounds() -> None:
    part = allocate(100).slice(10, 20)
    assert bytes(part) == bytes(20)
    with pytest.raises(ValueError, match="out of range"):
        part.slice(15, 6)
    with pytest.raises(ValueError, match="out of range"):
        part.slice(-1, 2)


@pytest.mark.parametrize("with_madvise", [True, False])
def test_pages_of_a_sparse_file_are_had_before_they_are_used(tmp_path: Path, with_madvise: bool) -> None:
    provider = FileMemoryProvider()
    memory = provider.create(str(tmp_path / "a"), 1 << 20)
    before = (tmp_path / "a").stat().st_blocks
    with memory.slice(1 << 19, 1 << 19) as part:
        part.reserve_range(4096, 3 * 4096, with_madvise)
    with pytest.raises(ValueError, match="range outside"):
        memory.reserve_range(1, 1 << 20)
    memory.close()
    assert (tmp_path / "a").stat().st_blocks - before >= 3 * 8


def test_plain_memory_has_its_pages(tmp_path: Path) -> None:
    allocate(100).reserve_range(0, 100)


@pytest.mark.root
@pytest.mark.parametrize("with_madvise", [True, False])
def test_pages_that_are_not_to_be_had_are_an_error_and_no_signal(tmp_path: Path, with_madvise: bool) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], check=True)
    try:
        (tmp_path / "filler").write_bytes(bytes(1 << 15))
        provider = FileMemoryProvider()
        memory = provider.create(str(tmp_path / "a"), 1 << 15)
        (tmp_path / "more").write_bytes(bytes(1 << 14))
        memory.reserve_range(0, 8192, with_madvise)
        with pytest.raises(StorageFullError, match="not enough space"):
            memory.reserve_range(0, 1 << 15, with_madvise)
        memory.close()
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)
