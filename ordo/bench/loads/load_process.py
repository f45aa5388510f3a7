"""A load as a process of its own: `python -m ordo.bench.loads.load_process PLAN`, PLAN as `LoadPlan.to_json` writes it.

It opens its sessions, warms up, prints `ready`, and for every line that it reads runs the plan once and prints
`took SECONDS`. It ends with its standard input.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass

from ordo.bench.loads.echo_session import EchoSession
from ordo.bench.loads.native_load import NativeLoad


@dataclass(frozen=True)
class LoadPlan:
    """`count` messages of `size_bytes`, up to `window` on the way, from `session_count` sessions of one process."""

    ingress_endpoints: dict[int, str]
    size_bytes: int
    count: int
    window: int = 1
    session_count: int = 1
    is_native: bool = True
    warm_up_count: int = 500

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> LoadPlan:
        values = json.loads(text)
        values["ingress_endpoints"] = {int(member): where for member, where in values["ingress_endpoints"].items()}
        return cls(**values)

    def open(self) -> NativeLoad | EchoSession:
        """Open the sessions; both kinds of client have `pipelined`."""
        if self.is_native:
            return NativeLoad(self.ingress_endpoints, self.size_bytes, self.session_count)
        return EchoSession(self.ingress_endpoints, self.size_bytes)


def main(text: str) -> None:
    plan = LoadPlan.from_json(text)
    with plan.open() as load:
        load.pipelined(plan.warm_up_count, plan.window)
        print("ready", flush=True)
        for _ in sys.stdin:
            print("took", load.pipelined(plan.count, plan.window), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
