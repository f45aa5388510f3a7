"""What pages of files cost: that it is measured, not how much it is."""

from pathlib import Path

from benchmarks.pages import KINDS, measure_growth, measure_kinds, touch_memory


def test_each_kind_of_file_is_measured_with_and_without_syncs(tmp_path: Path) -> None:
    written, synced = (
        measure_kinds(tmp_path, 4096, 3, with_sync=False),
        measure_kinds(tmp_path, 4096, 3, with_sync=True),
    )
    assert [row[0] for row in written] == [row[0] for row in synced] == list(KINDS)
    assert [row[3] for row in written] == ["-"] * len(KINDS)
    assert all(float(row[3].replace(",", "")) >= 0 for row in synced)
    assert measure_growth(tmp_path, 0) == []
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_memory_is_touched_and_given_back() -> None:
    touch_memory(1 << 20)
