"""For tests of services: in memory without a cluster, or with a whole cluster on this machine.

`ServiceHarness` and `check_service` run a service in the caller's thread; see `ordo.service_api.testing.harness`.
`check_environments` runs it in processes with other hash seeds, garbage collections, time zones and locales.
`check_hostile` looks for a message with which a client stops it; see `ordo.service_api.testing.hostile`.
`recorded` runs a service over a stretch of a log that `ordo debug record` wrote; see docs/DEBUGGING.md.
`LocalCluster` runs real nodes on loopback ports; see `ordo.deploy.launcher`.
"""

from ordo.debugging.recorded_file import Recorded, RecordedRun, recorded
from ordo.debugging.replaying.effects import Effect as RecordedEffect
from ordo.deploy.launcher import LocalCluster
from ordo.service_api.testing.environments import check_environments
from ordo.service_api.testing.harness import (
    AdvanceTime,
    CloseSession,
    Effect,
    Input,
    Message,
    OpenSession,
    Query,
    ServiceHarness,
    TakeSnapshot,
    check_service,
)
from ordo.service_api.testing.hostile import check_hostile

__all__ = [
    "AdvanceTime",
    "CloseSession",
    "Effect",
    "Input",
    "LocalCluster",
    "Message",
    "OpenSession",
    "Query",
    "Recorded",
    "RecordedEffect",
    "RecordedRun",
    "ServiceHarness",
    "TakeSnapshot",
    "check_environments",
    "check_hostile",
    "check_service",
    "recorded",
]
