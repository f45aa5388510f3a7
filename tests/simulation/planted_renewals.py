"""Planted bugs of logs that begin anew (see `planted.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ordo.cluster.admin import log_renewal
from ordo.sequencer.log_channel import FollowerLog

Patch = Callable[[object, str, Any], None]


def a_log_begins_anew_behind_an_older_snapshot(patch: Patch) -> None:
    """What the log has behind its newest snapshot is given up with it."""
    original = log_renewal.find_refusal

    def find_refusal(config: Any, state: Any, storage: Any) -> str:
        found = original(config, state, storage)
        return "" if "its newest snapshot is at" in found else found

    patch(log_renewal, "find_refusal", find_refusal)


def a_forgotten_log_goes_on_with_other_lengths(patch: Patch) -> None:
    """A member records what the leader's log has, begun anew, behind what it has itself."""
    patch(FollowerLog, "has_other_lengths", False)
