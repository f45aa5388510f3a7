"""What is known of a campaign: a file for each state of the code, with a line for each seed that is through.

The first line says whose seeds these are; each other one is appended by one write when its seed is through. A process
may be killed at any moment: a last line without its end is cut off, and its seed is run again. So is a seed whose line
cannot be read, whatever the reason.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from tests.simulation.run import Outcome


class CampaignError(Exception):
    """The campaign cannot go on; the message says why, and what to do."""


class Row(NamedTuple):
    """What is kept of a seed."""

    seed: int
    violation: str | None
    is_decided: bool
    cpu_s: float
    virtual_s: float
    trace: str

    @classmethod
    def of(cls, outcome: Outcome) -> Row:
        """What came of a run."""
        times = round(outcome.cpu_s, 3), round(outcome.virtual_ns / 1e9, 3)
        return cls(outcome.seed, outcome.violation, outcome.is_decided, *times, outcome.digest)


class CampaignFile:
    """Open for one process at a time. `rows` has what is through, by seed."""

    def __init__(self, path: Path, code: str, commit: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.rows: dict[int, Row] = {}
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._lock()
            head = self._read()
            if head is None:
                head = {"code": code, "commit": commit}
                self._append(head)
            if head["code"] != code:
                raise CampaignError(
                    f"{path} has seeds of other code: code={head['code']} commit={head['commit']}, and here it is "
                    f"code={code}: check out that commit to go on with it, or choose another folder"
                )
        except BaseException:
            self.close()
            raise
        self.commit = str(head["commit"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Others may open the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def add(self, row: Row) -> None:
        """A seed is through, and counts from here on."""
        self._append(row._asdict())
        self.rows[row.seed] = row

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CampaignError(f"{self.path} is in use by another run: wait for its end, or end it") from None

    def _read(self) -> dict[str, str] | None:
        """The first line, if it is there as a whole; `rows` gets the others."""
        whole, end, _ = self.path.read_bytes().rpartition(b"\n")
        os.ftruncate(self._fd, len(whole) + len(end))
        lines = (whole + end).splitlines()
        if not lines:
            return None
        head = _parse(lines[0])
        if head is None or head.keys() != {"code", "commit"}:
            raise CampaignError(f"{self.path} does not say whose seeds it has: remove it, and the seeds are run again")
        for fields in map(_parse, lines[1:]):
            if fields is not None and fields.keys() == set(Row._fields):
                self.rows[fields["seed"]] = Row(**fields)
        return head

    def _append(self, fields: Mapping[str, object]) -> None:
        line = json.dumps(fields).encode() + b"\n"
        written = os.write(self._fd, line)
        if written != len(line):
            raise CampaignError(
                f"{self.path} took {written} of {len(line)} bytes: make room on its disk, and run again"
            )


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None
