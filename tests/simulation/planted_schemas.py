"""Planted bugs of the schemas that the log has (see `planted.py`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from ordo.cluster.module.state import module_snapshot
from ordo.cluster.module.versions.schemas import Schemas
from ordo.runtime.errors import Category, ClusterError
from tests.simulation.planted import Patch


def snapshots_forget_the_schemas(patch: Patch) -> None:
    """A member that starts from a snapshot does not know what the log had before it."""
    original = module_snapshot.decode

    def decode(messages: Any) -> Any:
        return replace(original(messages), schemas=[])

    patch(module_snapshot, "decode", decode)


def each_leader_writes_its_schema(patch: Patch) -> None:
    """A leader knows only which schemas it has written itself: two leaders write one twice."""
    original = Schemas._append

    def append(self: Schemas, own: Any) -> None:
        written = self.__dict__.setdefault("_written", set())
        if own.digest not in written:
            original(self, own)
            written.add(own.digest)

    patch(Schemas, "_append", append)
    patch(Schemas, "_may_append", lambda self, own, before: True)
    patch(Schemas, "_is_known", lambda self, own: False)


def an_older_schema_supersedes_a_newer_one(patch: Patch) -> None:
    """A leader with older code puts its schema into force although the log has one that extends it."""
    patch(Schemas, "_may_append", lambda self, own, before: True)


def code_that_contradicts_the_log_ends_its_member(patch: Patch) -> None:
    """A member ends where its code and the log's schemas do not go together, though others may have put them there."""
    original = Schemas._judge

    def judge(self: Schemas, own: Any, log_position: int) -> None:
        former = self._host
        self._host = cast(Any, _EndsByErrors())
        try:
            original(self, own, log_position)
        finally:
            self._host = former

    patch(Schemas, "_judge", judge)


class _EndsByErrors:
    def record_error(self, message: str) -> None:
        raise ClusterError(message, category=Category.FATAL)
