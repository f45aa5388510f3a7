"""Stops a member or its cluster properly: a transfer, a planned end, and the orders of operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ordo.cluster.module.log.cluster_control import ClusterControl, ControlEffects
from ordo.cluster.module.state.host import Orders
from ordo.cluster.module.state.termination import Termination
from ordo.cluster.module.state.transfer import LeadershipTransfer

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.cluster.module.client_parts import ClientParts
    from ordo.cluster.module.committed_log import CommittedLog
    from ordo.cluster.module.log.ingress_gate import IngressGate
    from ordo.cluster.module.member_parts import Foundation


@dataclass(frozen=True)
class ControlParts:
    """The parts that may stop a leader from appending, and the ingress gate that depends on them."""

    gate: IngressGate
    transfer: LeadershipTransfer
    termination: Termination
    control: ClusterControl

    def make_orders(self, order_record: Callable[[bytes], bool], answer_tool: Callable[[bytes], None]) -> Orders:
        """Return what other parts have done by this one, by the services, and by who answers the tool that asked."""
        return Orders(self.control.ask_snapshot, self.control.ask_copied, order_record, answer_tool)

    @property
    def hands_over(self) -> bool:
        """Whether a transfer is in progress, or will begin because the node was told to end."""
        return self.transfer.is_under_way or self.transfer.is_stopping


def make_control_parts(
    base: Foundation,
    gate: IngressGate,
    clients: ClientParts,
    committed: CommittedLog,
    newest_level: Callable[[], int],
    end_reads: Callable[[], None],
) -> ControlParts:
    """Build what stops a member, or its cluster.

    `newest_level` returns the protocol level at the end of the log; `end_reads` is as `ControlEffects` has it.
    """
    member, core, sequencer, counters = base.member, base.core, base.sequencer, base.counters
    member.transfer = transfer = LeadershipTransfer(member, core, sequencer, counters, gate.update)
    termination = Termination(
        member,
        core,
        counters,
        base.config.service_count,
        is_ready=committed.is_ready_to_end,
        terminate_services=clients.services.terminate,
    )
    control = ClusterControl(
        member,
        core,
        sequencer,
        counters,
        transfer,
        termination,
        effects=ControlEffects(gate.update, clients.notices.touch, clients.notices.dismiss_all, end_reads),
        newest_level=newest_level,
    )
    return ControlParts(gate, transfer, termination, control)
