"""Who takes the next snapshot where standbys are to: a standby, or the members after all."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ordo.cluster.module.snapshots.copied_snapshots import CapturedState, PartDigests, demand_alike
from ordo.cluster.module.snapshots.copy_orders import CopyOrders
from ordo.cluster.module.state.host import Orders
from ordo.cluster.module.state.module_snapshot import SnapshotPoint
from ordo.cluster.module.state.settings import SnapshotSettings
from ordo.runtime.errors import SnapshotError
from ordo.runtime.native.counters import local_counter

PATIENCE_NS = 100


@dataclass
class Leader:
    """A leader, and what it has ordered."""

    is_on: bool = True
    agreed_position: int = -1
    obstacle: str = ""
    is_busy: bool = False
    ordered: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    instead: Any = field(default_factory=local_counter)

    def __post_init__(self) -> None:
        def ask(what: str) -> bool:
            if not self.is_busy:
                self.ordered.append(what)
            return not self.is_busy

        host = SimpleNamespace(announce=lambda event, text: self.told.append(text))
        counters = SimpleNamespace(snapshots=SimpleNamespace(instead=self.instead))
        self.orders = CopyOrders(
            cast("Any", host),
            Orders(lambda: ask("members"), lambda: ask("standby"), lambda _: True, lambda _: None),
            cast("Any", counters),
            lambda: self.agreed_position,
            lambda: self.obstacle,
            patience_ns=PATIENCE_NS,
            is_on=self.is_on,
        )

    def hear(self, now_ns: int) -> None:
        self.orders.note_answer(now_ns)
        self.orders.work(now_ns)


def test_a_standby_that_answers_takes_the_snapshot() -> None:
    leader = Leader()
    leader.hear(1)
    assert leader.orders.order() and leader.ordered == ["standby"]
    assert leader.told == [] and leader.instead.value == 0


def test_members_that_are_to_take_their_own_do_so() -> None:
    leader = Leader(is_on=False)
    leader.hear(1)
    leader.orders.note(64)
    leader.orders.work(10 * PATIENCE_NS)
    assert leader.orders.order() and leader.ordered == ["members"]
    assert not leader.orders.takes_over and leader.told == []


@pytest.mark.parametrize("silence_ns", [None, PATIENCE_NS + 1])
def test_without_a_standby_that_answers_members_take_their_own_and_it_is_told_once(silence_ns: int | None) -> None:
    leader = Leader()
    if silence_ns is not None:
        leader.hear(1)
    leader.orders.work(1 + (silence_ns or 0))
    assert leader.orders.order() and leader.orders.order()
    assert leader.ordered == ["members", "members"] and leader.instead.value == 2
    assert leader.told == [
        "the members take their own snapshots: no standby of [snapshot] standbys answers this member"
    ]


def test_what_cannot_be_compared_is_not_copied() -> None:
    leader = Leader(obstacle="no hash")
    leader.hear(1)
    assert leader.orders.order() and leader.ordered == ["members"]
    assert leader.told == ["the members take their own snapshots: no hash"]


def test_an_order_without_a_copy_by_then_has_the_members_take_one_at_once_and_once() -> None:
    leader = Leader()
    leader.hear(0)
    leader.orders.note(64)
    leader.orders.work(0)
    for now_ns in (1, PATIENCE_NS):
        leader.hear(now_ns)
        assert not leader.orders.takes_over
    leader.hear(PATIENCE_NS + 1)
    leader.is_busy = True
    assert leader.orders.takes_over and not leader.orders.order()
    leader.is_busy = False
    assert leader.orders.takes_over and leader.orders.order()
    assert leader.ordered == ["members"] and not leader.orders.takes_over
    assert "no quorum has copied that of log position 64 from a standby" in leader.told[0]
    leader.orders.order()
    assert leader.ordered == ["members", "members"], "those that are due are the members' as long as there is none"
    leader.agreed_position = 96
    leader.hear(PATIENCE_NS + 2)
    leader.orders.order()
    assert leader.ordered[2:] == ["standby"], "a quorum has a newer one: it is the standby's turn again"


def test_later_orders_do_not_put_off_that_members_take_over() -> None:
    """Otherwise a log that grows fast would have an order newer than the patience all the time."""
    leader = Leader()
    for now_ns in range(0, PATIENCE_NS + 20, 10):
        leader.hear(now_ns)
        leader.orders.note(64 + now_ns)
    leader.hear(PATIENCE_NS + 20)
    assert leader.orders.takes_over


def test_a_copy_of_a_later_order_serves_as_well() -> None:
    leader = Leader()
    leader.orders.note(64)
    leader.hear(0)
    leader.orders.note(128)
    leader.agreed_position = 128
    leader.hear(PATIENCE_NS + 1)
    assert not leader.orders.takes_over
    leader.orders.order()
    assert leader.ordered == ["standby"]


# -- the comparison ----------------------------------------------------------------------------------------------------


def captured(*heads: bytes) -> CapturedState:
    return CapturedState(SnapshotPoint(64, 0, 1), 1000, (b"module",), heads)


def test_a_copy_of_the_own_state_is_taken() -> None:
    demand_alike(captured(b"a", b"b"), [PartDigests(b"a", b"1"), PartDigests(b"b", b"2")])


@pytest.mark.parametrize("heads", [(b"a", b"c"), (b"c", b"b"), (b"a", b"")])
def test_a_copy_of_another_state_is_refused(heads: tuple[bytes, ...]) -> None:
    with pytest.raises(SnapshotError, match="is of another state than this member's"):
        demand_alike(captured(b"a", b"b"), [PartDigests(one, b"") for one in heads])


def test_a_copy_of_other_services_is_refused() -> None:
    with pytest.raises(SnapshotError, match="it is of 1 services, and this member runs 2"):
        demand_alike(captured(b"a", b"b"), [PartDigests(b"a", b"")])


# -- the settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"by": "standby"}, "name them"),
        ({"by": "standby", "standbys": ("10.0.1.1:20000",), "keep": 1}, "allowed is 2 to 8"),
        ({"standbys": ("standby:20000",)}, "is no IP address with a port"),
        ({"standbys": ("10.0.1.1",)}, "is no IP address with a port"),
        ({"standbys": ("10.0.1.1:0",)}, "is no IP address with a port"),
        ({"by": "leader"}, "members"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        SnapshotSettings(**settings)


def test_a_standby_is_named_by_its_address() -> None:
    assert SnapshotSettings(by="standby", standbys=("10.0.1.1:20000", "[::1]:20000")).by == "standby"
