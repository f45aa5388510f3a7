"""What an invariant hears, and how it says that it does not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tests.simulation.history import ClientHistory, Executed, ExecutedLog
    from tests.simulation.nodes import SimulatedNode
    from tests.simulation.operations import Reply
    from tests.simulation.options import Options
    from tests.simulation.trace import Trace


class WatchedWorld(Protocol):
    """What invariants look at, and how they say that one does not hold."""

    options: Options
    trace: Trace
    nodes: list[SimulatedNode]
    executed: ExecutedLog
    clients_history: ClientHistory

    @property
    def now_ns(self) -> int: ...
    @property
    def committed_position(self) -> int: ...
    def note(self, text: str) -> None: ...
    def fail(self, text: str) -> None: ...


class Invariant:
    """One property of the whole cluster. The methods are called by the world; each may call `fail`."""

    name = ""

    def __init__(self, world: WatchedWorld) -> None:
        self.world = world

    def hears(self, method: str) -> bool:
        """Whether it does anything in this method."""
        return getattr(type(self), method) is not getattr(Invariant, method)

    def fail(self, text: str) -> None:
        self.world.fail(f"{self.name}: {text}")

    def on_booted(self, node: SimulatedNode) -> None:
        """A process was started and its node is ready for its first duty cycle."""

    def on_wiped(self, node: SimulatedNode) -> None:
        """A member has got an empty disk."""

    def on_step(self, node: SimulatedNode) -> None:
        """After each duty cycle of a live member that changed its state or terms, or cut its log."""

    def on_moved(self, node: SimulatedNode) -> None:
        """After each duty cycle of a live member that raised positions of its log, and changed nothing else."""

    def on_ended(self, node: SimulatedNode) -> None:
        """After a duty cycle that an error or a loss of power ended in the middle: others may know what it did."""
        self.on_moved(node)

    def on_checkpoint(self) -> None:
        """Every 200 ms of virtual time, and at the end."""

    def on_executed(self, node: SimulatedNode, record: Executed) -> None:
        """A service executed a record."""

    def on_service_started(self, node: SimulatedNode, position: int, digest: str) -> None:
        """A service was started, from the snapshot at `position` with this digest, or empty at 0."""

    def on_snapshot(self, node: SimulatedNode, position: int, digest: str) -> None:
        """A service gave its state away."""

    def on_answer(self, reply: Reply) -> None:
        """A client was answered."""
