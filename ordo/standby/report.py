"""What a standby has, and what would be lost if its primary ended now: `ordo standby status`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ordo.backup.folder import CLUSTER, read_json
from ordo.backup.report import GONE, STOPPED, read_status
from ordo.standby.folder import SEEDING, STATUS, demand_standby, is_promoted
from ordo.standby.promotion import read_promotion

if TYPE_CHECKING:
    from ordo.cluster.settings.config import NodeSettings

ALIVE_S = 3.0
"""A primary that was heard within so long is taken to be alive."""
PROMOTED = "promoted"
Told = dict[str, Any]
"""A status as JSON has it."""
SHOWN = ("source", "position", "executed_position", "primary_position", "problem")


def remember(told: Mapping[str, Any], former: Told) -> Told:
    """Add to a status what an earlier process knew of the primary, as long as the present one knows less.

    `former`: the last status of that process. A primary that is gone tells nobody again how far it was.
    """
    found, known = dict(told), former.get("primary_position", -1)
    if known < 0:
        return found
    primary_position = max(told["primary_position"], known)
    found |= {"primary_position": primary_position, "lag_bytes": max(0, primary_position - told["position"])}
    if told["heard_seconds_ago"] is None and "told_ms" in former:
        since_s = max(0, told["told_ms"] - former["told_ms"]) / 1000
        for name in ("lag_seconds", "heard_seconds_ago"):
            found[name] = None if former[name] is None else round(former[name] + since_s, 3)
    return found


def describe_standby(config: NodeSettings) -> Told:
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


def find_life(found: Told) -> str:
    """Return what shows that the primary is not gone, or an empty string.

    A process that has ended cannot know.
    """
    if found.get("state", STOPPED) in (STOPPED, GONE):
        return ""
    heard_s = found.get("heard_seconds_ago")
    if heard_s is not None and heard_s < ALIVE_S:
        return f"answered {heard_s:g} s ago"
    is_copied = found["state"] == SEEDING and found.get("source")
    return f"sends its log from {found['source']}" if is_copied else ""


def describe_lines(found: Told) -> Iterator[str]:
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


def describe_risk(found: Told) -> Iterator[str]:
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
