"""How a simulated world of consensus cores misbehaves."""

from dataclasses import dataclass
from random import Random

from ordo.runtime.native.time_units import MILLISECOND_NS


@dataclass
class Faults:
    """How the world misbehaves; drawn from the seed."""

    loss: float
    duplication: float
    delay_ns_max: int
    reorder: bool
    crash_in_commands: float
    mean_fault_interval_ns: int
    sync_ns_max: int
    client_interval_ns: int
    native: bool
    early_scan: bool
    leave_discards: bool
    startup_canvass_ns: int
    losses: int = 0
    spares: int = 0
    changes: int = 0
    doubts: int = 0

    @classmethod
    def draw(cls, rng: Random) -> "Faults":
        return cls(
            loss=rng.choice((0.0, 0.01, 0.1, 0.3)),
            duplication=rng.choice((0.0, 0.05, 0.2)),
            delay_ns_max=rng.choice((1, 5, 60)) * MILLISECOND_NS,
            reorder=rng.random() < 0.5,
            crash_in_commands=rng.choice((0.0, 0.0, 0.003)),
            mean_fault_interval_ns=rng.choice((100, 300, 1000)) * MILLISECOND_NS,
            sync_ns_max=rng.choice((1, 5, 40)) * MILLISECOND_NS,
            client_interval_ns=rng.choice((5, 20, 50)) * MILLISECOND_NS,
            native=rng.random() < 0.5,
            early_scan=rng.random() < 0.5,
            leave_discards=rng.random() < 0.5,
            startup_canvass_ns=rng.choice((300, 1000, 5000)) * MILLISECOND_NS,
            losses=(losses := rng.choice((0, 0, 1, 6))),
            spares=0 if losses else rng.choice((0, 1, 2, 3)),
            changes=0 if losses else rng.choice((0, 6, 20)),
            doubts=rng.choice((0, 0, 1, 4)),
        )
