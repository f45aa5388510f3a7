"""`ordo cluster skip` on a member's machine: records of the log that services do not execute."""

from __future__ import annotations

from ordo.cluster.admin import local_member, orders
from ordo.cluster.admin.member_store import open_stopped
from ordo.cluster.admin.order_timeouts import SKIP_TIMEOUT_S
from ordo.cluster.settings.config import NodeSettings


def skip(config: NodeSettings, log_position: int, timeout_s: float = SKIP_TIMEOUT_S) -> str:
    """Skip the record that ends at a position; return one line that says what was done.

    A running node must lead, and its service stand still at the record. A node that does not run takes note, waits
    before the record when it runs again, and has it left out once a quorum of the members was told the same.
    """
    member = local_member.LocalMember(config)
    if orders.is_left_out(member, log_position) or member.is_running():
        return orders.skip(member, log_position, timeout_s)
    with open_stopped(config) as store:
        store.put_skip_wish(log_position)
    return (
        f"member {member.member_id} will wait before position {log_position} when it starts, until the record is left "
        "out: say so with the configuration of each member that does not run, of a majority at least"
    )
