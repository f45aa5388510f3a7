"""A message whose answer a client has seen stays in the order; none is doubled within its session (Raft §8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.invariants.base import Invariant

if TYPE_CHECKING:
    from tests.simulation.operations import Reply


class NothingAcknowledgedIsLost(Invariant):
    """Answers come from executed records, and those from the committed log.

    Doubled and reordered messages are seen by the test service, which knows the last number of each session; a lost
    one leaves its position to another record, or the executed log longer than the cluster's in the end.
    """

    name = "nothing acknowledged is lost"

    def on_answer(self, reply: Reply) -> None:
        position = self.world.clients_history.executed.get((reply.client, reply.number))
        if position is None:
            self.fail(f"client {reply.client} was answered on request {reply.number}, which is in no log")
        elif position > self.world.committed_position:
            self.fail(f"client {reply.client} was answered on request {reply.number} before it was committed")
