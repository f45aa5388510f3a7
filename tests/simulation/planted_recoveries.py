"""Planted bugs of going on with what is left of a cluster (see `planted.py`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ordo.backup.restore import close_log as close_as_it_is
from ordo.cluster.module.state.folder_rows import FolderRows
from ordo.cluster.module.state.state_store import StateStore
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.configuration import NamedConfiguration
from ordo.salvage import comparison, new_epoch, stopped_folder

Patch = Callable[[Any, str, Any], None]


def what_is_lost_is_told_as_nothing(patch: Patch) -> None:
    """The report says that nothing behind the log that goes on was committed."""
    original = comparison._find_loss

    def find_loss(*arguments: Any) -> Any:
        found = original(*arguments)
        return found._replace(at_most_position=found.from_position)

    patch(comparison, "_find_loss", find_loss)


def a_new_epoch_keeps_the_identity(patch: Patch) -> None:
    """The log that goes on has nothing by which it is another cluster's."""
    original, event = close_as_it_is, ordo_codecs.CLUSTER_IDENTITY_EVENT

    def close_log(*arguments: Any) -> Any:
        found = original(*arguments)
        kept = [one for one in found.records if (ordo_codecs.decode_any(one) or (None,))[0] is not event]
        return found._replace(records=kept)

    patch(new_epoch, "close_log", close_log)
    patch(FolderRows, "begin_epoch", lambda self, txn, origin: txn.delete(b"recovering"))


def former_members_stay_voters(patch: Patch) -> None:
    """The configuration that is appended has the members that are gone as well."""
    original = close_as_it_is

    def close_log(survey: Any, digest: bytes, term_length: int, members: Any, *more: Any) -> Any:
        (own,) = members.voters
        gone = tuple(replace(own.bound_at("10.9.9.9"), id=one) for one in (97, 98))
        return original(survey, digest, term_length, NamedConfiguration((own, *gone), ()), *more)

    patch(new_epoch, "close_log", close_log)


def members_start_in_the_middle_of_a_recovery(patch: Patch) -> None:
    """A member does not look whether its recovery came to its end."""
    patch(FolderRows, "recovering", None)


def recoveries_end_before_all_is_written(patch: Patch) -> None:
    """The store says that a recovery is done before the member knows its log to be committed."""
    note, begin = stopped_folder.note_committed, StateStore.begin_epoch
    later: list[tuple[Any, ...]] = []

    def begin_epoch(self: Any, epoch: Any) -> None:
        begin(self, epoch)
        note(*later.pop())

    patch(new_epoch, "note_committed", lambda *arguments: later.append(arguments))
    patch(StateStore, "begin_epoch", begin_epoch)
