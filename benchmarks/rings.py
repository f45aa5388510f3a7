"""Whether io_uring would make Ordo's system calls cheaper: a round trip, datagrams, and a synced write, both ways.

    python -m benchmarks.rings [--folder FOLDER] [--rounds 5] [--count 20000]

`rings.c` does the work, for nothing of Python is to be in the figures; it is compiled first (cc, kernel headers). Both
ways take turns. Figures are medians of the rounds: of one round trip of 128 bytes to another process and back, of one
datagram sent or received where 16 go together, and of 4 KiB written and synced. Says so in one line where the kernel
has no io_uring, or forbids it, as many containers do.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.page import table

SOURCE = Path(__file__).with_suffix(".c")
ROUNDS = 5
COUNT = 20_000
TIMEOUT_S = 300
HEAD = ["what", "way", "ns of wall time", "ns of processor time", "system calls"]


class MeasurementError(Exception):
    """What could not be measured, and why."""


def measure(folder: Path, rounds: int, count: int) -> list[list[str]]:
    """A row for each case and way: medians of wall time and processor time in ns, and system calls.

    Raises MeasurementError where there is no io_uring.
    """
    with tempfile.TemporaryDirectory(dir=folder) as made:
        program = Path(made) / "rings"
        subprocess.run(["cc", "-O2", "-o", str(program), str(SOURCE)], check=True)
        arguments = [str(program), str(Path(made) / "file"), str(rounds), str(count)]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise MeasurementError(done.stderr.strip())
    found: dict[tuple[str, str], list[list[float]]] = {}
    for line in done.stdout.splitlines():
        case, way, *figures = line.split("\t")
        found.setdefault((case, way), []).append([float(figure) for figure in figures])
    return [[case, way, *_medians(figures)] for (case, way), figures in found.items()]


def _medians(figures: list[list[float]]) -> list[str]:
    wall_ns, spent_ns, calls = (median(column) for column in zip(*figures, strict=True))
    return [f"{wall_ns:,.0f}", f"{spent_ns:,.0f}", f"{calls:.2f}"]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure system calls beside io_uring.")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="on the disk to measure")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--count", type=int, default=COUNT, help="round trips of a round")
    chosen = parser.parse_args(arguments)
    try:
        rows = measure(chosen.folder, chosen.rounds, chosen.count)
    except MeasurementError as error:
        raise SystemExit(str(error)) from None
    print("\n".join(table(HEAD, rows)))


if __name__ == "__main__":
    main()
