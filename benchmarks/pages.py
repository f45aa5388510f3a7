"""What the pages of files cost that a log is written to, and those of memory that a machine has not touched yet.

    python -m benchmarks.pages [--folder FOLDER] [--gib 8]

Two tables: new files beside files of which the room was allocated ahead, and files whose blocks were written before, as
recycled segments would be; they take turns, block by block, so that what else the machine does meets all of them alike,
and medians are told. And processor time of a KiB written into the page cache, GiB by GiB of a new file.
"""

from __future__ import annotations

import argparse
import mmap
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.page import table

KIB, GIB = 1 << 10, 1 << 30
WRITE_BYTES = 64 * KIB
BLOCKS = 4096
SYNC_BYTES = 4 * KIB
SYNCS = 400


def touch_memory(length_bytes: int) -> None:
    """Has the machine's host give this much memory, or half of what is free: a virtual machine gets it page by page,
    when it writes there first, and whatever runs then pays for that."""
    free_bytes = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    length_bytes = min(length_bytes, free_bytes // 2)
    with mmap.mmap(-1, length_bytes) as memory:
        for offset in range(0, length_bytes, mmap.PAGESIZE):
            memory[offset] = 1


def measure_growth(folder: Path, gib: int) -> list[list[str]]:
    """ns a KiB, for each GiB of a new file."""
    block, rows = bytes(WRITE_BYTES), []
    with tempfile.TemporaryFile(dir=folder) as file:
        for number in range(gib):
            begin_ns = time.thread_time_ns()
            for index in range(GIB // WRITE_BYTES):
                os.pwrite(file.fileno(), block, number * GIB + index * WRITE_BYTES)
            rows.append([str(number + 1), f"{(time.thread_time_ns() - begin_ns) / (GIB // KIB):,.0f}"])
    return rows


def _lay_out_recycled(descriptor: int, length_bytes: int) -> None:
    os.pwrite(descriptor, bytes(length_bytes), 0)


KINDS: dict[str, Callable[[int, int], None]] = {
    "new": os.ftruncate,
    "allocated ahead": lambda descriptor, length_bytes: os.posix_fallocate(descriptor, 0, length_bytes),
    "written before": _lay_out_recycled,
}


def measure_kinds(folder: Path, block_bytes: int, count: int, with_sync: bool) -> list[list[str]]:
    """By kind of file: ns of processor time a KiB written (and synced), and us of a sync."""
    block = os.urandom(block_bytes)
    spent: dict[str, list[int]] = {name: [] for name in KINDS}
    took: dict[str, list[int]] = {name: [] for name in KINDS}
    with ExitStack() as stack:
        files = {name: stack.enter_context(tempfile.TemporaryFile(dir=folder)) for name in KINDS}
        for name, file in files.items():
            KINDS[name](file.fileno(), block_bytes * count)
            os.fsync(file.fileno())
        for index in range(count):
            for name, file in files.items():
                begin_ns = time.thread_time_ns()
                os.pwrite(file.fileno(), block, index * block_bytes)
                written_ns = time.monotonic_ns()
                if with_sync:
                    os.fdatasync(file.fileno())
                took[name].append(time.monotonic_ns() - written_ns)
                spent[name].append(time.thread_time_ns() - begin_ns)
    return [
        [
            name,
            f"{block_bytes // KIB} KiB",
            f"{median(spent[name]) / (block_bytes / KIB):,.0f}",
            f"{median(took[name]) / 1000:,.0f}" if with_sync else "-",
        ]
        for name in KINDS
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure what the pages of files cost.")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="on the disk to measure")
    parser.add_argument("--gib", type=int, default=8, help="how far the new file grows")
    chosen = parser.parse_args(arguments)
    rows = measure_kinds(chosen.folder, WRITE_BYTES, BLOCKS, with_sync=False)
    rows += measure_kinds(chosen.folder, SYNC_BYTES, SYNCS, with_sync=True)
    print("\n".join(table(["file", "written at a time", "ns a KiB", "fdatasync us"], rows)))
    print("\n".join(table(["GiB", "ns a KiB"], measure_growth(chosen.folder, chosen.gib))))


if __name__ == "__main__":
    main()
