"""A planned switch: the primary hands over to its standby, and nothing is lost: `ordo standby switch`.

    suspend     the primary's leader takes no ingress any more (`ordo cluster suspend`)
    reach       the standby gets everything that was committed
    end         the primary's log ends for this standby to go on (cluster.wire.succession); until then it can resume
    promote     the process of the standby finds that record in its own log, which is then whole, and is promoted
    dismiss     the primary's members end, and their clients look for the cluster that goes on

Until the log has ended, only the primary can serve; from there on, only the standby. What was begun is found again by
the number in `switch.json`, in the leader's toggle and in the standby's log, so the command may be killed anywhere and
given again.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from ordo.backup.folder import CLUSTER, read_json, write_json
from ordo.cluster.admin import orders
from ordo.cluster.admin.local_member import LocalMember
from ordo.cluster.admin.member_details import parse_told_identity
from ordo.cluster.admin.remote import RemoteCluster
from ordo.cluster.wire.counters.counter_types import SUCCESSOR_MAX, ControlToggle, CounterType
from ordo.runtime.errors import ClusterError, OrdoError, OutcomeUnknownError
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.security.credentials import credentials_from_file
from ordo.standby.folder import SWITCH, demand_alone, is_promoted, read_number, read_origin
from ordo.standby.promotion import Promotion, read_promotion
from ordo.standby.report import describe_standby
from ordo.transport.secure.settings import Encryption

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ordo.cluster.admin.remote import RemoteMember
    from ordo.cluster.settings.config import NodeSettings

LAG_MAX_S = 3.0
"""A standby that is further behind catches up first: nobody is served meanwhile otherwise."""
REACH_TIMEOUT_S = 3.0
"""So long the primary stands still for the standby to get what is committed, before it goes on by itself."""
POLL_S = 0.01
SETTLED = (ControlToggle.NEUTRAL, ControlToggle.SUSPEND, ControlToggle.SUCCEEDED)
"""What a leader's toggle shows while it carries out no order."""


def reach_primary(config: NodeSettings, endpoints: str | None, token_file: Path | None) -> RemoteCluster:
    """Connect to the primary as its operator; the caller closes it."""
    known = read_json(config.node.data_dir / CLUSTER).get("endpoints", ())
    keys = None
    if config.encryption.is_on:
        keys = Encryption(str(config.encryption.key_file), str(config.encryption.trusted_file))
    credentials = b"" if token_file is None else credentials_from_file(token_file)()
    return RemoteCluster(endpoints or ",".join(known), credentials=credentials, encryption=keys)


def switch_over(
    config: NodeSettings, cluster: RemoteCluster, timeout_s: float, tell: Callable[[str], object]
) -> Promotion:
    """Switch, or go on with a switch that was begun. `tell` takes a line about each step.

    Raises ClusterError where it is refused or was given up, and the primary goes on; OutcomeUnknownError where it is
    not known yet who does: the same again finds out.
    """
    demand_alone(config)
    found = describe_standby(config)
    if not is_promoted(config):
        _hand_over(config, found, cluster, timeout_s, tell)
        _await_promotion(config, timeout_s)
    elif not read_number(config):
        raise ClusterError(f"{config.node.data_dir}: this standby was promoted before; see `ordo standby status`")
    done = read_promotion(config)
    assert done is not None, "a promoted folder has its report"
    if _dismiss(cluster, timeout_s, tell):
        (config.node.data_dir / SWITCH).unlink(missing_ok=True)
    return done


def _hand_over(
    config: NodeSettings,
    found: dict[str, object],
    cluster: RemoteCluster,
    timeout_s: float,
    tell: Callable[[str], object],
) -> None:
    """Have the primary's log end for this standby; where it has before, for this one or another, leave it so."""
    leader, toggle = _find_settled(cluster, timeout_s)
    is_begun = has_suspended = read_number(config) != 0
    if toggle == ControlToggle.SUCCEEDED:
        if not is_begun:
            raise ClusterError("the primary has ended its log for another standby to go on: switch to that one")
        return
    _demand_near(found)
    _demand_same(config, cluster, leader)
    if toggle == ControlToggle.SUSPEND and not is_begun:
        raise ClusterError("the primary is suspended; have it go on first (`ordo cluster resume`)")
    number = read_number(config) or _draw(config)
    try:
        if toggle != ControlToggle.SUSPEND:
            orders.suspend(leader, timeout_s)
            has_suspended = True
        tell("the primary takes nothing of clients any more")
        _await_end(config, leader)
        orders.end_for_successor(leader, number, timeout_s)
    except OutcomeUnknownError as error:
        tell(f"{error.message}: the log of the standby will say whether it has")
    except OrdoError as error:
        _give_up(config, cluster, timeout_s, error, has_suspended=has_suspended)


def _find_settled(cluster: RemoteCluster, timeout_s: float) -> tuple[RemoteMember, int]:
    """Return the primary's leader and its toggle, once no order is under way there.

    Raises OutcomeUnknownError where that takes too long: the end of the log may be among what is under way.
    """
    deadline = orders.Deadline(timeout_s)
    while True:
        leader = cluster.find_leader(timeout_s)
        toggle = leader.counters.value(CounterType.CONTROL_TOGGLE)
        if toggle in SETTLED:
            return leader, toggle
        if deadline.is_over:
            raise OutcomeUnknownError(
                f"the primary's leader has had an order under way for {timeout_s:g} s: give the same command again"
            )
        time.sleep(POLL_S)


def _demand_near(found: dict[str, object]) -> None:
    """Raise ClusterError unless a process follows the primary closely."""
    lag_s = found.get("lag_seconds")
    if found.get("state") != "following":
        raise ClusterError(
            f"the standby is not following the primary ({found.get('state', 'never ran')}): run it first"
        )
    if not isinstance(lag_s, int | float) or lag_s > LAG_MAX_S:
        behind = "an unknown time" if lag_s is None else f"{lag_s} s"
        raise ClusterError(
            f"the standby is {behind} behind, at most {LAG_MAX_S:g} s are allowed: let it catch up first"
        )


def _demand_same(config: NodeSettings, cluster: RemoteCluster, leader: RemoteMember) -> None:
    """Raise ClusterError where the cluster is another one than the standby follows.

    A member of an earlier release does not say which it is: then the positions alone must be the same.
    """
    theirs, own = parse_told_identity(cluster.describe(leader.endpoint)), read_origin(config)
    if theirs is not None and (own is None or own.identity != theirs.identity):
        raise ClusterError(
            f"the cluster at these endpoints has identity {theirs}, and the log of this standby {own or 'none yet'}: "
            "give --endpoints of the cluster that it follows"
        )


def _draw(config: NodeSettings) -> int:
    """Draw the number by which the primary's log is to name this standby, and keep it."""
    number = 1 + secrets.randbelow(SUCCESSOR_MAX)
    write_json(config.node.data_dir / SWITCH, {"number": number})
    return number


def _await_end(config: NodeSettings, leader: RemoteMember) -> None:
    """Wait until the standby has what is committed, and no more: that would be the log of another cluster.

    Raises ClusterError where that takes too long.
    """
    counters, deadline = LocalMember(config).counters, orders.Deadline(REACH_TIMEOUT_S)
    while True:
        position = leader.counters.value(CounterType.COMMIT_POSITION)
        own = counters.value(CounterType.COMMIT_POSITION)
        if own == position:
            return
        if deadline.is_over:
            raise ClusterError(
                f"after {REACH_TIMEOUT_S:g} s the standby has the log up to position={own}, and the cluster at these "
                f"endpoints up to {position}; is it the one that this standby follows?"
            )
        time.sleep(POLL_S)


def _give_up(
    config: NodeSettings, cluster: RemoteCluster, timeout_s: float, cause: OrdoError, *, has_suspended: bool
) -> None:
    """Have the primary go on, unless another command has suspended it.

    Raises ClusterError, which says why, or OutcomeUnknownError where it may stand still.
    """
    try:
        leader, toggle = _find_settled(cluster, timeout_s)
        if toggle == ControlToggle.SUCCEEDED:
            return  # the order was carried out under another leader
        if toggle == ControlToggle.SUSPEND and not has_suspended:
            raise ClusterError("this command does not know whether it has suspended it")
        if toggle == ControlToggle.SUSPEND:
            orders.resume(leader, timeout_s)
    except OrdoError as error:
        raise OutcomeUnknownError(
            f"{cause.message}; and the primary may be suspended still ({error.message}): give the same command again, "
            "or `ordo cluster resume`"
        ) from None
    (config.node.data_dir / SWITCH).unlink(missing_ok=True)
    FileStorage().sync_directory(str(config.node.data_dir))
    raise ClusterError(f"{cause.message}; the switch was given up, and the primary goes on as before")


def _await_promotion(config: NodeSettings, timeout_s: float) -> None:
    """Wait until the process of the standby has found the end of the log, and was promoted."""
    deadline = orders.Deadline(timeout_s)
    while not is_promoted(config):
        if deadline.is_over:
            raise OutcomeUnknownError(
                f"the standby was not promoted within {timeout_s:g} s: see that its process runs, and give the same "
                "command again; it goes on with what was begun"
            )
        time.sleep(POLL_S)


def _dismiss(cluster: RemoteCluster, timeout_s: float, tell: Callable[[str], object]) -> bool:
    """Have the primary's members end, whose clients look for the new cluster then; return whether they have."""
    try:
        leader: RemoteMember = cluster.find_leader(timeout_s)
        orders.dismiss(leader)
        deadline = orders.Deadline(timeout_s)
        while is_running := leader.is_running():  # it ends last
            if deadline.is_over:
                break
            time.sleep(POLL_S)
    except OrdoError as error:
        tell(f"the primary's members could not be told to end ({error.message}): stop them; they take nothing any more")
        return False
    if is_running:
        tell(f"the primary's leader did not end within {timeout_s:g} s: stop its members; they take nothing any more")
    return not is_running
