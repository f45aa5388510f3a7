"""The node of a standby: a node whose log another cluster's members send, and which takes no part in consensus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ordo.cluster.node.node import Node, NodeSeams
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.native.time_units import MILLISECOND_NS
from ordo.standby.feed import Feed, Primary
from ordo.standby.folder import Write, is_being_promoted

if TYPE_CHECKING:
    from ordo.cluster.container.versions import ServiceVersions
    from ordo.cluster.settings.config import NodeSettings
    from ordo.service_api.service import Service


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
        is_ordered: Callable[[], bool] = lambda: False,
        number: Callable[[], int] = lambda: 0,
    ) -> None:
        """`write`: see `Feed`. `is_ordered` says whether an operator has ordered the promotion.

        `number` returns the one by which the primary's log names this standby as the one that goes on; 0: none.
        """
        self._primary = primary
        self._write = write
        self._is_ordered = is_ordered
        self._number = number
        self.is_successor = False
        """The log that is here has ended for this standby to go on: it is whole."""
        self.feed: Feed | None = None
        super().__init__(config, seams, services, on_tick)

    def start(self) -> None:
        super().start()
        self.feed = Feed(self, self._primary, self._write)
        self._closers.append(self.feed.close)

    def _on_tick(self, now_ns: int) -> None:
        super()._on_tick(now_ns)
        feed, member = self.feed, self.module.member
        if feed is None or member.has_ended:
            return
        feed.work(now_ns)
        if feed.has_gap:
            member.start_again(
                "the primary has deleted the log that comes next here: this standby begins anew with a snapshot"
            )
        elif (successor := self.module.controls.control.successor) and successor == self._number():
            self.is_successor = True
            member.start_again("the primary has ended its log for this standby to go on")
        elif self._is_ordered():
            member.start_again("the promotion was ordered")

    def _look(self) -> dict[str, Any]:
        silent_ns = None if self.feed is None else self.feed.silent_ns
        heard_ms = NULL_VALUE if silent_ns is None else silent_ns // MILLISECOND_NS
        standby = {
            "is_standby": 1,
            "primary_heard_ms": heard_ms,
            "is_being_promoted": int(is_being_promoted(self.config.node.data_dir)),
        }
        return {**super()._look(), **standby, **({} if self.feed is None else self.feed.look())}

    def leave(self) -> None:
        """Leave the primary's log."""
        if self.feed is not None:
            self.feed.close()
        super().leave()
