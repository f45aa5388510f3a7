"""How lanes share the tests of processes: by file, the longest first.

All files that ask for the shared session of Spark go together, since each lane that has one of them waits for a JVM,
and for it to become warm. So do those that have a cluster as `ordo init` makes it: its members wait as briefly for each
other as by default, whatever the patience of the run, and several at a time would wait for a core.

What files take is in tests/lane_seconds.txt; `python -m tests.lanes` writes it anew from the report of a run.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "build" / "suite" / "processes.xml"
SECONDS = Path(__file__).with_name("lane_seconds.txt")
SECONDS_MIN = 8
"""Files that take less are not listed: they are short enough to be the last."""
SPARK, PAGES = "spark", "pages"
ASKING = {"spark: SparkSession": SPARK, "on_ports_of_its_own": PAGES}
"""What the files of a scope have in their text."""


@cache
def scope_of(path: str) -> str:
    """Return what a file goes together with: itself, Spark, or pages."""
    text = (ROOT / path).read_text()
    return next((scope for words, scope in ASKING.items() if words in text), path)


@cache
def seconds() -> dict[str, int]:
    """Return scope -> the seconds that its tests take."""
    rows = (line.split() for line in SECONDS.read_text().splitlines() if line and line[0] != "#")
    return {scope: int(count) for count, scope in rows}


def longest(scopes: Iterable[tuple[str, Collection[object]]]) -> str:
    """Return the scope that takes longest; of those that are not listed, the one with the most tests."""
    return max(scopes, key=lambda one: (seconds().get(one[0], 0), len(one[1])))[0]


class OneSpark(LoadFileScheduling):  # type: ignore[misc]
    """Gives files to lanes, the longest first, so that no lane is left with one when the others have ended."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(str(super()._split_scope(nodeid)))

    def _assign_work_unit(self, node: object) -> None:
        self.workqueue.move_to_end(longest(self.workqueue.items()), last=False)
        super()._assign_work_unit(node)


def rows_of(report: Path) -> list[str]:
    """Return the rows of SECONDS for a report in JUnit's format."""
    found: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        parts = case.get("classname", "").split(".")
        files = ("/".join(parts[:count]) + ".py" for count in range(len(parts), 0, -1))
        path = next((one for one in files if (ROOT / one).is_file()), None)
        if path is not None:
            found[scope_of(path)] += float(case.get("time", 0))  # type: ignore[assignment]
    return [f"{round(count):4} {scope}" for scope, count in found.most_common() if count >= SECONDS_MIN]


def main() -> None:
    about = [line for line in SECONDS.read_text().splitlines() if line.startswith("#")]
    SECONDS.write_text("\n".join([*about, *rows_of(Path(sys.argv[1]) if sys.argv[1:] else REPORT), ""]))


if __name__ == "__main__":
    main()
