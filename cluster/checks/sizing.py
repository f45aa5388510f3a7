"""What a load needs of disk, memory, network and processor at each member, computed from its configuration.

The lengths are those of the formats. What the processor takes was measured (docs/PERFORMANCE.md, What a request costs),
and so was the memory of processes without any state (docs/SIZING.md).
"""

from __future__ import annotations

from typing import NamedTuple

from ordo.cluster.checks.requirements import memory_used_bytes
from ordo.cluster.module.state.state_store import EVIDENCE_MAX
from ordo.cluster.settings.config import NodeSettings
from ordo.transport.streams.logbuffer import framed_bytes

REQUEST_HEADER_BYTES = 56
"""Before the payload of a request in the log; other messages have less."""
ANSWER_HEADER_BYTES = 60
DAY_S = 86_400
NODE_BYTES, SERVICE_BYTES = 72 << 20, 50 << 20
"""Resident memory of a node's two processes, with a service that has no state."""
REQUEST_TOGETHER_US, REQUEST_ALONE_US = 1.7, 100.0
"""Processor time of a node and its service for a request: of many at a time, and of one at a time."""


class Load(NamedTuple):
    """The load of the clients, and the state of the service."""

    requests_per_s: float
    length_bytes: int
    answer_bytes: int = 0
    kept_days: float = 0.0
    state_bytes: int = 0


class Need(NamedTuple):
    """What one member has to have. `amount` is in `unit`: bytes, bytes/s, or cores."""

    subject: str
    amount: float
    unit: str
    reason: str


def needs_of(config: NodeSettings, load: Load) -> list[Need]:
    """Return all needs that can be computed; not those of the user's own code and Python objects."""
    mtu_bytes = config.cluster.mtu_bytes
    record = framed_bytes(REQUEST_HEADER_BYTES + load.length_bytes, mtu_bytes)
    log_bytes_per_s = load.requests_per_s * record
    answers_bytes_per_s = load.requests_per_s * framed_bytes(ANSWER_HEADER_BYTES + load.answer_bytes, mtu_bytes)
    followers = len(config.member_list) - 1
    return [
        Need("log", log_bytes_per_s, "bytes/s", f"a request of {load.length_bytes} bytes takes {record}"),
        _disk(config, load, log_bytes_per_s),
        Need("shared memory", memory_used_bytes(config), "bytes", "log terms; up to 3 MiB more for each busy client"),
        Need("memory", NODE_BYTES + SERVICE_BYTES + 2 * load.state_bytes, "bytes", "state: twice, for snapshots"),
        Need("leader sends", log_bytes_per_s * followers + answers_bytes_per_s, "bytes/s", f"to {followers} followers"),
        Need("leader receives", log_bytes_per_s, "bytes/s", "from clients; a follower receives as much"),
        Need("processor", load.requests_per_s * REQUEST_TOGETHER_US / 1e6, "cores", "requests that come together"),
        Need("processor", load.requests_per_s * REQUEST_ALONE_US / 1e6, "cores", "if each of them came alone"),
    ]


def _disk(config: NodeSettings, load: Load, log_bytes_per_s: float) -> Need:
    """Return the room needed on disk.

    A snapshot that is being taken is beside those that are kept, as are some that differed.

    Log goes by whole files.
    """
    retention, days, reason = config.retention, load.kept_days, f"log of {load.kept_days:g} days"
    if not days and retention.seconds is not None:
        days, reason = retention.seconds / DAY_S, "log as [retention] keeps it"
    if not days and retention.bytes is None:
        days, reason = 1.0, "log of one day (without [retention] all stays)"
    kept = max(days * DAY_S * log_bytes_per_s, retention.bytes or 0) + config.cluster.segment_length_bytes
    snapshots = (config.snapshot.keep + 1) * load.state_bytes + config.snapshot.every_bytes
    snapshots += min(EVIDENCE_MAX * load.state_bytes, config.snapshot.evidence_bytes)
    return Need("disk", kept + snapshots + config.archive.disk_high_bytes, "bytes", f"{reason}, snapshots, disk_high")
