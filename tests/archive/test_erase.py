"""Clearing the end of a segment file."""

from pathlib import Path

import pytest

from ordo.archive.segments.erase import erase_tail
from ordo.runtime.io.storage import FileStorage

LENGTH_BYTES = 64 * 1024 * 1024


@pytest.mark.parametrize("offset", [0, 100, 4096, 40_000_000])
def test_what_lies_behind_the_offset_is_zero_and_holes_stay_holes(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "segment"
    with FileStorage().open_segment(str(path), LENGTH_BYTES, create=True) as file:
        for at in (0, 50, 300_000, 40_000_000, LENGTH_BYTES - 10):
            file.write_bytes(b"\x01" * 10, at)
        before = file.read_bytes(offset, 0)
        erased = erase_tail(file, offset)
        assert file.read_bytes(offset, 0) == before
        assert not any(file.read_bytes(LENGTH_BYTES - offset, offset))
        assert 0 < erased <= 4 * 4096
        assert erase_tail(file, offset) == 0
    assert path.stat().st_blocks * 512 < LENGTH_BYTES // 64


def test_a_file_without_data_is_left_alone(tmp_path: Path) -> None:
    with FileStorage().open_segment(str(tmp_path / "segment"), LENGTH_BYTES, create=True) as file:
        assert erase_tail(file, 0) == 0
