"""The node of a standby: a node whose log another cluster's members send, and which takes no part in consensus."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from ordo.cluster.node.node import Node, NodeSeams
from ordo.cluster.wire import codecs
from ordo.standby.feed import Feed, Primary
from ordo.standby.folder import Write
from ordo.standby.holds import NOBODY, Order, Seen, describe, next_hold
from ordo.standby.others import Others, group_of, others_of

if TYPE_CHECKING:
    from ordo.cluster.container.versions import ServiceVersions
    from ordo.cluster.module.state.folder_rows import FolderRows, Hold
    from ordo.cluster.settings.config import NodeSettings
    from ordo.service_api.service import Service


class PromotedNode(Node):
    """The node of a standby that was promoted: a plain one, which tells the other standbys so."""

    def _look(self) -> dict[str, object]:
        is_one_of_several = bool(self.config.standbys)
        seen = describe(Seen(self.config.node.member_id, is_standby=False)) if is_one_of_several else {}
        return {**super()._look(), **seen}


class Orders(NamedTuple):
    """What operators have ordered of a standby, as files of its folder say it."""

    is_ordered: Callable[[], bool] = lambda: False
    """Whether to promote it."""
    number: Callable[[], int] = lambda: 0
    """By which the primary's log names it as the one that goes on; 0: none."""
    candidacy: Callable[[], Order | None] = lambda: None
    """For which promotion the other standbys are to hold for this one."""
    take_release: Callable[[], int] = lambda: NOBODY
    """For which candidate it is to hold no more. The order ends with the call."""


NO_ORDERS = Orders()


class StandbyNode(Node):
    """Runs the services over the primary's log, and is a source of that log itself."""

    is_standby: ClassVar[bool] = True

    def __init__(
        self,
        config: NodeSettings,
        seams: NodeSeams,
        services: Sequence[Service | ServiceVersions] | None = None,
        on_tick: Callable[[int], None] | None = None,
        *,
        primary: Primary,
        write: Write = lambda _name, _values: None,
        orders: Orders = NO_ORDERS,
    ) -> None:
        """`write`: see `Feed`."""
        self._primary = primary
        self._write = write
        self._orders = orders
        self.is_successor = False
        """The log that is here has ended for this standby to go on: it is whole."""
        self.feed: Feed | None = None
        self.hold: Hold | None = None
        """For which promotion it holds, durably."""
        self._others: Others | None = None
        self._is_following = False
        super().__init__(config, seams, services, on_tick)

    def start(self) -> None:
        super().start()
        feed = self.feed = Feed(self, self._primary, self._write)
        self._closers.append(feed.close)
        if others := others_of(self.config):
            secret = self._seams.random.secret("other standbys")
            self._others = Others(
                self.client,
                others,
                self._primary.credentials,
                lambda: secret.getrandbits(codecs.SECRET_ID_BITS),
                self._primary.report,
            )
            self._closers.append(self._others.close)
        self.hold = self._folder_rows.hold  # also where node.toml names no other one any more
        self._go_on(feed)

    @property
    def _folder_rows(self) -> FolderRows:
        return self.module.base.seams.store.folder

    def _on_tick(self, now_ns: int) -> None:
        super()._on_tick(now_ns)
        feed, member = self.feed, self.module.member
        if feed is None or member.has_ended:
            return
        feed.work(now_ns)
        if self._others is not None or self.hold is not None:
            self._work_holds(feed, {} if self._others is None else self._others.work(now_ns))
        if feed.has_gap:
            member.start_again(
                "the primary has deleted the log that comes next here: this standby begins anew with a snapshot"
            )
        elif (successor := self.module.controls.control.successor) and successor == self._orders.number():
            self.is_successor = True
            member.start_again("the primary has ended its log for this standby to go on")
        elif self._orders.is_ordered():
            member.start_again("the promotion was ordered")

    # -- one of several --------------------------------------------------------------------------------------------

    def _work_holds(self, feed: Feed, seen: Mapping[int, Seen]) -> None:
        """Hold for a candidate among the standbys that were seen, and follow it once it was promoted."""
        held = self.hold
        if held is not None and held.candidate_id == self._orders.take_release():
            held = None
        found = next_hold(
            self.config.node.member_id, held, self._orders.candidacy(), seen, is_decided=self._orders.is_ordered()
        )
        if found != self.hold:
            self._change(feed, found)
        if self.hold is None or self._is_following:
            return
        candidate = seen.get(self.hold.candidate_id)
        if candidate is not None and not candidate.is_standby:
            self._primary.report(f"{candidate}: it is followed in place of the primary")
            (address,) = (one.ingress for one in others_of(self.config) if one.member_id == candidate.member_id)
            feed.follow((candidate.member_id, address))
            self._is_following = True

    def _change(self, feed: Feed, found: Hold | None) -> None:
        """Stand still before it is written down, and write it down before anybody is told."""
        if found is not None:
            feed.stand_still(_state(found))
        self._folder_rows.put_hold(found)
        self.hold = found
        self._primary.report("it holds for no standby any more" if found is None else _state(found))
        self._go_on(feed)

    def _go_on(self, feed: Feed) -> None:
        """Follow the primary, unless this standby holds."""
        self._is_following = False
        if self.hold is None:
            feed.follow()
        else:
            feed.stand_still(_state(self.hold))

    def describe_seen(self) -> Seen:
        """Return what the other standbys, and the operator's commands, are told."""
        feed, hold, order, core = self.feed, self.hold, self._orders.candidacy(), self.module.base.core
        position = -1 if feed is None or hold is None or self._is_following else feed.position
        is_read = core.append_position >= position  # or a term may be missing
        return Seen(
            self.config.node.member_id,
            is_standby=True,
            promotion=0 if hold is None else hold.promotion,
            candidate_id=NOBODY if hold is None else hold.candidate_id,
            instead_of=NOBODY if order is None else order.instead_of,
            term_id=core.terms[-1][0] if core.terms else -1,
            position=position if is_read else -1,
            heard_ms=-1 if feed is None else feed.silent_ms,
            group=group_of(self.config),
        )

    def _look(self) -> dict[str, object]:
        return {**super()._look(), **(describe(self.describe_seen()) if self._others is not None else {})}

    def leave(self) -> None:
        """Leave the primary's log."""
        for one in (self.feed, self._others):
            if one is not None:
                one.close()
        super().leave()


def _state(hold: Hold) -> str:
    return f"holds for standby {hold.candidate_id}"
