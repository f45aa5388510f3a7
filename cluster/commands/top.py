"""`ordo top`: the members of a cluster on a live screen."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from ordo.cluster.admin.remote import LOOK_TIMEOUT_S, leader_of
from ordo.cluster.client.operator import MemberLook
from ordo.cluster.commands.printing import EXIT_NO_QUORUM, or_null, print_json, show
from ordo.cluster.commands.reaching import Target, reaching
from ordo.cluster.module.operators.self_report import SYSTEM_COUNTERS, SYSTEM_TYPE_ID
from ordo.cluster.monitoring.observation import Observation, Subject, free_bytes, log_position, observe
from ordo.cluster.monitoring.top import Looks, View
from ordo.cluster.monitoring.top_screen import draw, look_twice, run_screen
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.counters.look_durations import durations_to_numbers
from ordo.runtime.errors import StorageMissingError
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.reporting.terminal import output_console
from ordo.runtime.version import VERSION

if TYPE_CHECKING:
    from ordo.cluster.settings.config import NodeSettings


@reaching
def top(
    target: Target,
    once: Annotated[bool, typer.Option("--once", help="print the table once, with the rates of one interval")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="with --once, print JSON")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="seconds between two looks")] = 1.0,
) -> None:
    """Show members, roles, terms, lags, rates, sessions and disks, again and again.

    It shows one member with --config, all with --endpoints. Without a terminal it does the same as with --once.

    Exit status with --endpoints and --once: 3 if no member leads.
    """
    is_once = once or as_json or not (sys.stdin.isatty() and sys.stdout.isatty())
    if not target.is_remote:
        config = target.load_config()
        _run(lambda: {config.own_member.ingress: look_here(config)}, is_once, as_json, interval)
        return
    with target.connect() as cluster:
        _run(lambda: cluster.look(LOOK_TIMEOUT_S), is_once, as_json, interval)
        has_leader = not is_once or leader_of(cluster.look(LOOK_TIMEOUT_S)) is not None
    if not has_leader:
        raise typer.Exit(EXIT_NO_QUORUM)


def _run(look: Callable[[], Looks], is_once: bool, as_json: bool, interval_s: float) -> None:
    if not is_once:
        run_screen(look, output_console(), interval_s)
        return
    rows = look_twice(look, interval_s)
    if as_json:
        print_json([{name: or_null(value) for name, value in row._asdict().items()} for row in rows])
    else:
        show(draw(rows, View(), has_keys=False, width=output_console().width))


def look_here(config: NodeSettings) -> MemberLook:
    """Return the values that the node of this machine shows in its shared memory.

    Raises StorageMissingError when it does not run.
    """
    node = config.node
    subject = Subject(node.member_id, config.cluster.cluster_id, config.aeron_dir, node.data_dir)
    found = observe(subject, SystemClock().epoch_ms(), wants_all=True)
    if found.why_not_live():
        raise StorageMissingError(f"member {node.member_id} is not running on this machine: {found.why_not_live()}")
    values = {
        "member_id": node.member_id,
        "sessions": sum(one.type_id == CounterType.SESSION for one in found.counters),
        "append_position": log_position(found),
        "data_free_bytes": found.data_free_bytes,
        "memory_free_bytes": free_bytes(config.aeron_dir),
        **_system_values(found),
        **durations_to_numbers(found.durations),
    }
    return MemberLook(values, found.values, VERSION)


def _system_values(found: Observation) -> dict[str, int]:
    names = {key: name for name, key in SYSTEM_COUNTERS.items()}
    keys = ((one, struct.unpack_from("<i", one.key)[0]) for one in found.counters if one.type_id == SYSTEM_TYPE_ID)
    return {names[key]: one.value for one, key in keys if key in names}
