"""What a standby has, and what would be lost if its primary ended now: `ordo standby status`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ordo.backup.folder import CLUSTER, read_json
from ordo.backup.report import read_status
from ordo.standby.folder import STATUS, demand_standby, is_promoted
from ordo.standby.promotion import read_promotion

if TYPE_CHECKING:
    from ordo.cluster.settings.config import NodeSettings

PROMOTED = "promoted"
SHOWN = ("source", "position", "executed_position", "primary_position", "problem")


def describe_standby(config: NodeSettings) -> dict[str, Any]:
    """Return the status as JSON has it. Raises ConfigurationError where there is no standby."""
    directory = demand_standby(config)
    cluster, promotion = read_json(directory / CLUSTER), read_promotion(config)
    told = {"state": PROMOTED} if is_promoted(config) else read_status(directory / STATUS, "standby")
    return {
        "folder": str(directory),
        "primary": cluster.get("cluster", ""),
        "endpoints": cluster.get("endpoints", []),
        "promotion": None if promotion is None else promotion.describe(),
        **told,
    }


def describe_lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield the status as lines for people."""
    yield f"state              {found.get('state', 'never ran')}"
    if found["primary"]:
        yield f"primary            {found['primary']}"
    if found["promotion"] is not None:
        promotion = found["promotion"]
        yield f"promoted behind    position={promotion['position']}, as cluster {promotion['identity'][:12]}"
        return
    for name in SHOWN:
        if found.get(name) not in (None, "", -1):
            yield f"{name.replace('_', ' '):19}{found[name]}"
    yield from describe_risk(found)


def describe_risk(found: dict[str, Any]) -> Iterator[str]:
    """Yield what would be lost if the primary ended now."""
    if found.get("heard_seconds_ago") is None:
        yield "at risk            unknown: the primary has not said how far it is"
        return
    yield f"at risk            {found['lag_bytes']} bytes that the primary is known to have and this standby has not"
    if found.get("lag_seconds") is None:
        yield "                   and more: this standby has not caught up yet"
    else:
        yield (
            f"                   and what the primary acknowledged within the last {found['lag_seconds']:g} s; it was "
            f"heard {found['heard_seconds_ago']:g} s ago"
        )
