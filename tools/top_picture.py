"""docs/pictures/top.svg: what `ordo top` shows of a cluster whose members are not all well."""

from __future__ import annotations

import html
import re
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console

from ordo.cluster.client.operator import MemberLook
from ordo.cluster.monitoring.top import Looks, Top, View
from ordo.cluster.monitoring.top_screen import draw
from ordo.cluster.wire.counters.counter_types import CounterType, ModuleState, NodeRole
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.states import ElectionState
from ordo.runtime.errors import ClusterTimeoutError
from ordo.runtime.native.time_units import SECOND_NS

PAGE = Path(__file__).parents[1] / "docs" / "pictures" / "top.svg"
WIDTH = 158


def example(passed_s: int) -> Looks:
    """Five members after so many seconds: a leader, one that is behind and has a damaged snapshot, one that lost
    a part of its log, one dead."""
    committed = 48_300_000_000 + 31_400_000 * passed_s
    return {
        "10.0.0.1:20000": _look(0, NodeRole.FOLLOWER, committed, 0, passed_s),
        "10.0.0.2:20000": _look(1, NodeRole.LEADER, committed, 0, passed_s, sessions=412, pressure=3),
        "10.0.0.3:20000": _look(2, NodeRole.FOLLOWER, committed, 96_000_000, passed_s, damaged=1),
        "10.0.0.4:20000": _look(3, NodeRole.FOLLOWER, committed, 0, passed_s, distrust=Distrust.LOG),
        "10.0.0.5:20000": ClusterTimeoutError("10.0.0.5:20000: it does not accept a connection"),
    }


def _look(
    member_id: int,
    role: NodeRole,
    committed: int,
    behind: int,
    passed_s: int,
    *,
    sessions: int = 412,
    pressure: int = 0,
    distrust: int = 0,
    damaged: int = 0,
) -> MemberLook:
    counters = {
        CounterType.MODULE_STATE: ModuleState.ACTIVE,
        CounterType.NODE_ROLE: role,
        CounterType.ELECTION_STATE: ElectionState.CLOSED,
        CounterType.LEADERSHIP_TERM_ID: 7,
        CounterType.COMMIT_POSITION: committed - behind,
        CounterType.SERVICE_POSITION: committed - behind - 2_048,
        CounterType.DISTRUST: distrust,
        CounterType.MODULE_ERRORS: int(bool(distrust or damaged)),
        CounterType.DAMAGE_LEFT: damaged,
        CounterType.SCRUB_PROGRESS: 374,
    }
    is_leader = role == NodeRole.LEADER
    sent = 70_000_000 if is_leader else 1_200_000
    values = {
        "member_id": member_id,
        "sessions": sessions,
        "append_position": committed - behind,
        "snapshot_position": 48_000_000_000,
        "data_free_bytes": 412_000_000_000,
        "memory_free_bytes": 6_100_000_000,
        "bytes_sent": sent * passed_s,
        "bytes_received": 33_000_000 * passed_s,
        "back_pressure_events": pressure * passed_s,
        **({"round_trip_bucket_15": 980 * passed_s, "round_trip_bucket_21": 20 * passed_s} if is_leader else {}),
    }
    return MemberLook(values, {int(kind): int(value) for kind, value in counters.items()}, "0.3.0")


def draw_example() -> Console:
    """A console that has drawn it; the same every time."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True, color_system="truecolor")
    top = Top()
    top.rows(example(0), 0)
    console.print(draw(top.rows(example(1), SECOND_NS), View(chosen=1)))
    return console


def words_of_picture() -> list[str]:
    """What can be read on the picture, whatever version of rich has made it."""
    found = re.findall(r"<text class=\"[^\"]*-r\d+\"[^>]*>([^<]*)</text>", PAGE.read_text())
    return html.unescape(" ".join(found)).split()


def main() -> int:
    PAGE.write_text(
        draw_example().export_svg(title="ordo top --endpoints 10.0.0.1:20000,...", unique_id="ordo-top") + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
