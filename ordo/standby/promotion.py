"""Makes a standby a cluster of its own: the exact position up to which it has the primary's log, and a new epoch.

What a promotion does to the folder is what `ordo cluster recover` does to a member's (ordo.salvage.new_epoch): behind
the last record that is here stand those of another cluster, with another identity, in a term far beyond the primary's.
So the primary, when it comes back, is another cluster to every client, reader and backup that has met the new one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ordo.backup.folder import CLUSTER, read_json, write_json
from ordo.runtime.errors import ClusterError, OrdoError, StorageInUseError
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.clock import SystemClock
from ordo.salvage.holdings import examine
from ordo.salvage.new_epoch import go_on_alone
from ordo.standby.folder import ORDER, PROMOTION, STATUS, is_promoted, read_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ordo.cluster.settings.config import NodeSettings
    from ordo.salvage.new_epoch import Recovered


class Promotion(NamedTuple):
    """What a promotion found, and made."""

    position: int
    """Up to here the standby has the primary's log, to the byte: everything before is here, and nothing behind."""
    timestamp_ms: int
    """Cluster time of the last record that is here."""
    former_identity: str
    """That of the primary; empty where its log does not say it."""
    primary_position: int
    """The primary is known to have committed so much; -1 where it never said."""
    lag_seconds: float | None
    """At most what the primary committed in so long before `heard` is missing; None where that is not known."""
    heard_seconds_ago: float | None
    """How long before the order the primary was heard for the last time."""
    identity: str
    """That of the new cluster."""
    term_id: int
    end_position: int
    """Where the new cluster's first records end."""
    closed_session_count: int
    damage: str = ""
    """Why what the standby had behind `position` could not be used; empty where it had nothing there."""
    is_switch: bool = False
    """The primary has ended its log for this standby to go on: nothing is lost."""

    @property
    def lost_bytes(self) -> int:
        """What is lost for certain."""
        return 0 if self.is_switch else max(0, self.primary_position - self.position)

    def lines(self) -> Iterator[str]:
        """Yield the report for an operator."""
        yield (
            f"this standby has the log of cluster {self.former_identity[:12] or '(without identity)'} up to "
            f"position={self.position}, cluster time {_time(self.timestamp_ms)}: everything before is here"
        )
        if self.damage:
            yield f"what this standby had behind position={self.position} cannot be used: {self.damage}"
        if self.lost_bytes:
            yield (
                f"lost for certain: position={self.position} to {self.primary_position}, {self.lost_bytes} bytes, "
                "which the primary had committed"
            )
        if self.is_switch:
            yield "nothing is lost: the primary has ended its log for this standby to go on, and all of it is here"
        else:
            yield self._describe_unknown()
        yield (
            f"promoted: a cluster of one with identity {self.identity[:12]}, in term {self.term_id}, goes on behind "
            f"position={self.position}; {self.closed_session_count} sessions are closed, and clients that have its "
            "address in their list go over"
        )
        yield (
            "never let the former cluster go on: stop its members, and keep their folders; what they have behind "
            f"position={self.position} is in no log of the new one"
        )

    def _describe_unknown(self) -> str:
        if self.heard_seconds_ago is None:
            heard = "the primary was not heard by the process that followed it"
        else:
            heard = f"the primary was heard last {self.heard_seconds_ago:g} s before the order"
        known = max(self.position, self.primary_position)
        return (
            f"cannot be known here: what the primary acknowledged behind position={known} ({heard}); what any client, "
            "reader or backup has seen of a later position was lost as well"
        )

    def describe(self) -> dict[str, Any]:
        """Return the promotion as JSON has it."""
        return {**self._asdict(), "lost_bytes": self.lost_bytes}


def promote(config: NodeSettings) -> Promotion:
    """Make a stopped standby's folder that of a cluster of one; the same again after a crash.

    The report is kept before the store says that it is done, so that a promoted folder always has it. An operator's
    order that cannot be carried out is removed, or every start would fail of it; that of a switch stands, since nobody
    else can go on.

    Raises ClusterError where the folder has nothing to go on with, StorageInUseError while its node runs.
    """
    try:
        _carry_out(config)
    except StorageInUseError:
        raise
    except OrdoError:
        if not _number_of_order(config):
            clear_order(config)
        raise
    promotion = complete(config)
    assert promotion is not None, "it is written before the store says that the folder is a cluster's"
    return promotion


def order_switch(config: NodeSettings) -> None:
    """Order what the primary's log has ended for, so that it is carried out after a crash as well."""
    write_json(config.node.data_dir / ORDER, {"number": read_number(config)})


def _number_of_order(config: NodeSettings) -> int:
    """Return the number in the order of a switch; 0: an operator ordered the promotion, or nobody did."""
    return int(read_json(config.node.data_dir / ORDER).get("number", 0))


def complete(config: NodeSettings) -> Promotion | None:
    """Return the report of the promotion that made a folder a cluster's, and end its order.

    None where an earlier release was killed before it had written the report.
    """
    promotion = read_promotion(config)
    clear_order(config)
    return promotion


def _carry_out(config: NodeSettings) -> None:
    directory = config.node.data_dir
    told, primary = read_json(directory / STATUS), read_json(directory / CLUSTER)
    findings = examine(config)
    holding = findings.holding
    former = "" if holding.origin is None else holding.origin.identity.hex()
    is_switch = _is_successor(config, findings.survey.successor)
    evidence = {"promotion of a standby": {"told": told, "primary": primary, "is_switch": is_switch}}
    heard_seconds_ago = _heard_seconds_ago(told)

    def tell(made: Recovered) -> None:
        promotion = Promotion(
            made.from_position,
            holding.timestamp_ms,
            former,
            int(told.get("primary_position", -1)),
            told.get("lag_seconds"),
            heard_seconds_ago,
            made.identity.hex(),
            made.term_id,
            made.end_position,
            made.closed_session_count,
            holding.damage,
            is_switch,
        )
        write_json(directory / PROMOTION, promotion._asdict())

    go_on_alone(config, findings, evidence, tell=tell)


def _is_successor(config: NodeSettings, successor: int) -> bool:
    """Return whether the log has ended for this standby to go on.

    Raises ClusterError where it has ended for another, unless the order is to go on all the same, and where it ended
    for this one and that cannot be found any more.
    """
    number, order = read_number(config), read_json(config.node.data_dir / ORDER)
    if successor and successor != number and not order.get("although_alive"):
        raise ClusterError(
            "the primary has ended its log for another standby to go on: promote that one. Where it is lost, give "
            "--although-alive"
        )
    if (ordered := _number_of_order(config)) and successor != ordered:
        raise ClusterError(
            "the primary has ended its log for this standby to go on, and the log here cannot be read up to that "
            "record: nothing was promoted. Look at its archive (`ordo archive verify`) and start again; where what is "
            "missing is lost for good, `ordo standby promote --although-alive` goes on without it"
        )
    return successor == number != 0


def _heard_seconds_ago(told: dict[str, Any]) -> float | None:
    """Return how long ago the primary was heard: what the process said, and the time since it said it."""
    heard_s, told_ms = told.get("heard_seconds_ago"), told.get("told_ms")
    if heard_s is None or told_ms is None:
        return None
    since_ms: int = max(0, SystemClock().epoch_ms() - told_ms)
    return round(float(heard_s) + since_ms / 1000, 3)


def read_promotion(config: NodeSettings) -> Promotion | None:
    """Return what the promotion of this folder found; None where there was none, or it did not come to its end."""
    found = read_json(config.node.data_dir / PROMOTION) if is_promoted(config) else {}
    return Promotion(**found) if found else None


def clear_order(config: NodeSettings) -> None:
    """Remove the operator's order, which was carried out, or cannot be."""
    directory = config.node.data_dir
    (directory / ORDER).unlink(missing_ok=True)
    FileStorage().sync_directory(str(directory))


def _time(value_ms: int) -> str:
    return datetime.fromtimestamp(value_ms / 1000, UTC).isoformat(timespec="milliseconds")
