"""The name of each of a node's counters as a metric, with its unit and meaning."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.log_index.index_counters import INDEX_COUNTERS

SYSTEM_TYPE = 0
REFUSED_TYPE = 1050
NANOSECONDS = 1e-9


class Kind(StrEnum):
    """COUNTER only grows while a node runs, GAUGE goes up and down, HISTOGRAM counts durations by their length."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """A metric; `scale` converts the counter to its unit.

    A counter's name gets `_total` at its end when it is shown.
    """

    name: str
    kind: Kind
    help: str
    scale: float = 1.0

    @property
    def shown_names(self) -> tuple[str, ...]:
        """The names of its series."""
        if self.kind is Kind.HISTOGRAM:
            return tuple(f"{self.name}_{part}" for part in ("bucket", "count", "sum"))
        return (f"{self.name}_total" if self.kind is Kind.COUNTER else self.name,)


def _counter(name: str, text: str) -> Metric:
    return Metric(f"ordo_{name}", Kind.COUNTER, text)


def _gauge(name: str, text: str, scale: float = 1.0) -> Metric:
    return Metric(f"ordo_{name}", Kind.GAUGE, text, scale)


def _histogram(name: str, text: str) -> Metric:
    return Metric(f"ordo_{name}_seconds", Kind.HISTOGRAM, text)


def _slowest(part: str, name: str) -> tuple[Metric, Metric]:
    return (
        _gauge(f"{name}_cycle_max_seconds", f"Longest duty cycle of the {part} since the start", NANOSECONDS),
        _counter(f"{name}_cycles_exceeded", f"Duty cycles of the {part} that took longer than 100 ms"),
    )


NODE_METRICS: dict[int, Metric] = {
    CounterType.COMMIT_POSITION: _gauge("commit_position_bytes", "How far the log is known to be on a quorum"),
    CounterType.SERVICE_POSITION: _gauge("service_position_bytes", "How far the service has executed the log"),
    CounterType.LEADERSHIP_TERM_ID: _gauge("leadership_term", "Number of the leadership term, -1 before the first"),
    CounterType.SNAPSHOT_COUNT: _counter("snapshots", "Snapshots that this member has taken since its start"),
    CounterType.MAX_SNAPSHOT_DURATION: _gauge(
        "snapshot_duration_max_seconds", "Longest time from a snapshot's record to its entry", NANOSECONDS
    ),
    CounterType.SNAPSHOT_DURATION_EXCEEDED: _counter("snapshots_exceeded", "Snapshots that took longer than 1 s"),
    **dict(zip((CounterType.MAX_CYCLE_TIME, CounterType.CYCLE_TIME_EXCEEDED), _slowest("node", "node"), strict=True)),
    CounterType.MODULE_ERRORS: _counter("errors", "Errors of the consensus module (`ordo errors`)"),
    CounterType.CLIENT_TIMEOUTS: _counter("client_timeouts", "Sessions closed because their client was silent"),
    CounterType.INVALID_REQUESTS: _counter("invalid_requests", "Messages that were refused because they cannot be"),
    CounterType.ELECTION_COUNT: _counter("elections", "Elections that this member has seen since its start"),
    CounterType.SKIPPED_RECORDS: _counter("skipped_records", "Records that were left out (`ordo cluster skipped`)"),
    CounterType.LOG_LINES_DROPPED: _counter(
        "log_lines_dropped", "Lines of the log of the node and its services that could not be written"
    ),
    CounterType.QUOTA_SESSIONS: _gauge("quota_sessions", "Sessions whose messages wait for a quota at this leader"),
    CounterType.QUOTA_HOLDS: _counter("quota_holds", "Times that a leader left a message in its stream for a quota"),
    CounterType.STANDBY_LAG_BYTES: _gauge(
        "standby_lag_bytes", "Of a standby: how much of the primary's committed log is known not to be here"
    ),
    CounterType.STANDBY_LAG_MS: _gauge(
        "standby_lag_seconds", "Of a standby: what the primary committed in so long may not be here; -1: unknown", 0.001
    ),
    CounterType.STANDBY_HEARD_MS: _gauge(
        "standby_heard_seconds", "Of a standby: how long ago the primary said how far it is; -1: never", 0.001
    ),
    CounterType.STANDBY_HEARTBEATS: _counter(
        "standby_heartbeats", "Of a standby: how often the primary has said how far it is, since the start"
    ),
    CounterType.STANDBY_SOURCE_MEMBER: _gauge(
        "standby_source_member", "Of a standby: the member whose archive sends the log; -1: none does"
    ),
    CounterType.STANDBY_SNAPSHOTS: _counter(
        "standby_snapshots", "Of a standby: snapshots that it alone was ordered to take, since the start"
    ),
    CounterType.COPIED_SNAPSHOTS: _counter(
        "copied_snapshots", "Snapshots that this member has copied from a standby, since its start"
    ),
    CounterType.SNAPSHOTS_INSTEAD: _counter(
        "snapshots_without_standby", "Of the leader: snapshots that members took since no standby gave one"
    ),
    CounterType.CLOCK_AHEAD: _gauge(
        "clock_ahead_seconds", "How far this machine's clock is ahead of cluster time, which is slewed", 0.001
    ),
    CounterType.NO_ROOM: _gauge(
        "no_room", "What a full disk keeps the member from: 1 it is short, 2 records nothing, 4 takes no messages"
    ),
    CounterType.SCRUBBED_BYTES: _counter("scrubbed_bytes", "Recorded bytes that were read again to find damage"),
    CounterType.SCRUB_PROGRESS: _gauge(
        "scrub_progress_ratio", "How much of its present pass the scrubber has read", 1e-3
    ),
    CounterType.SCRUB_ENDED: _gauge(
        "scrub_ended_timestamp_seconds", "When a whole pass of the scrubber last ended; 0: none since the start", 1e-3
    ),
    CounterType.DAMAGE_FOUND: _counter("damage_found", "Damaged places of recordings that the scrubber found"),
    CounterType.DAMAGE_MENDED: _counter("damage_mended", "Damaged places that are whole again"),
    CounterType.DAMAGE_LEFT: _gauge("damage_left", "Damaged places that are not mended"),
    CounterType.DISTRUST: _gauge("distrust", "What the member lost: 0 nothing, 1 log, 2 vote, 4 the service's state"),
}
"""Keyed by type; a node has one of each."""

SYSTEM_METRICS: tuple[Metric, ...] = (
    _counter("sent_bytes", "Bytes sent as datagrams"),
    _counter("received_bytes", "Bytes received as datagrams"),
    _counter("receiver_proxy_fails", "Commands for the receiver that found its queue full"),
    _counter("sender_proxy_fails", "Commands for the sender that found its queue full"),
    _counter("conductor_proxy_fails", "Commands for the conductor that found its queue full"),
    _counter("naks_sent", "Requests to send lost frames again, sent"),
    _counter("naks_received", "Requests to send lost frames again, received"),
    _counter("status_messages_sent", "Status messages of receivers, sent"),
    _counter("status_messages_received", "Status messages of receivers, received"),
    _counter("heartbeats_sent", "Heartbeat frames sent on idle streams"),
    _counter("heartbeats_received", "Heartbeat frames received"),
    _counter("retransmits_sent", "Retransmissions of lost frames"),
    _counter("flow_control_under_runs", "Frames received from before the receiver's window"),
    _counter("flow_control_over_runs", "Frames received from beyond the receiver's window"),
    _counter("invalid_packets", "Datagrams that follow no format"),
    _counter("driver_errors", "Errors of the media driver (`ordo errors`)"),
    _counter("short_sends", "Datagrams that the system did not take whole"),
    _counter("free_fails", "Failed attempts to remove log buffers"),
    _counter("back_pressure_events", "Times that a sender had to wait for a receiver"),
    _counter("unblocked_publications", "Publications freed of a message that was never completed"),
    _counter("unblocked_commands", "Commands to the driver that were never completed"),
    _counter("possible_ttl_asymmetries", "Multicast setups that seem to reach further than their answers"),
    _gauge("controllable_idle_status", "State of a controllable idle strategy"),
    _counter("loss_gap_fills", "Gaps filled without their data, on streams that are not reliable"),
    _counter("client_liveness_timeouts", "Clients of the driver that were given up as dead"),
    _counter("resolution_changes", "Endpoint names that came to stand for another address"),
    *_slowest("driver's conductor", "conductor"),
    *_slowest("driver's sender", "sender"),
    *_slowest("driver's receiver", "receiver"),
    _gauge("name_resolution_max_seconds", "Longest resolution of a name since the start", NANOSECONDS),
    _counter("name_resolutions_exceeded", "Resolutions of a name that took longer than 5 s"),
    _gauge("driver_software_version", "Version of the driver's software as major * 65536 + minor * 256 + patch"),
    _gauge("mapped_bytes", "Shared memory of log buffers and counters that the driver has mapped"),
    _counter("retransmitted_bytes", "Bytes sent again because they were lost"),
    _counter("retransmit_overflows", "Retransmissions not made because too many were under way"),
    _counter("error_frames_received", "Error frames received"),
    _counter("error_frames_sent", "Error frames sent"),
    _counter("publications_revoked", "Publications revoked by their clients"),
    _counter("publication_images_revoked", "Images ended because their publication was revoked"),
    _counter("images_rejected", "Images rejected by their subscribers"),
    _gauge("control_protocol_version", "Version of the driver's control protocol as major * 65536 + minor * 256"),
    _counter("status_messages_rejected", "Status messages that were not taken"),
    _counter("native_resource_proxy_fails", "Commands for the agent of native resources that found its queue full"),
)
"""Counters of the driver, in the order of their keys (cnc-and-driver-protocol.md §5.4)."""

REFUSED_METRIC = _counter("refused", "What was refused because it cannot be or goes beyond a limit, by reason")
REFUSED_REASONS = (
    "overlapping_frames",
    "bad_client_frames",
    "term_too_long",
    "source_limit",
    "driver_limit",
    "setup_rate",
    "pending_setups",
    "contradicting_setup",
    "foreign_address",
    "not_encrypted",
    "forged",
    "repeated",
    "unknown_keys",
    "handshake",
    "unexpected_encryption",
    "keys_agreed",
    "reply_over_credit",
    "unanswered_setups",
)

OWN_METRICS = {
    "up": _gauge("node_up", "1 while the node's driver shows its heartbeat"),
    "ready": _gauge("ready", "1 while /readyz says that the node is ready"),
    "quorum": _gauge("has_quorum", "1 while the member leads with a quorum behind it, or follows a leader"),
    "state": _gauge("module_state", "1 for the state that the consensus module is in"),
    "role": _gauge("role", "1 for the role that the member has"),
    "sessions": _gauge("sessions", "Client sessions that are open"),
    "service_lag": _gauge("service_lag_bytes", "Log that is committed and that the service has not executed"),
    "log_position": _gauge("log_position_bytes", "How far the member has recorded the log"),
    "data_free": _gauge("data_free_bytes", "Room on the file system of data_dir"),
    "memory_free": _gauge("shared_memory_free_bytes", "Room on the file system of aeron_dir"),
    "disk_mark": _gauge("disk_free_mark_bytes", "With less room than this the node is not ready (disk_free_min)"),
    "clock": _gauge("clock_seconds", "The machine's clock when it was asked, to be compared with Prometheus's own"),
    "clock_synchronized": _gauge(
        "clock_synchronized", "1 while the kernel takes its clock for synchronized, 0 while not; -1: unknown"
    ),
    "clock_offset": _gauge(
        "clock_offset_seconds", "By how much the kernel is still correcting its clock; NaN: unknown", NANOSECONDS
    ),
    "clock_error_estimate": _gauge(
        "clock_error_estimate_seconds", "Error of the clock as its time source estimates it; NaN: unknown", NANOSECONDS
    ),
    "clock_error_bound": _gauge(
        "clock_error_bound_seconds", "Error that the clock has at most, says the kernel; NaN: unknown", NANOSECONDS
    ),
    "clock_error_limit": _gauge(
        "clock_error_limit_seconds", "With a greater bound than this the alert fires (clock_error_max)", NANOSECONDS
    ),
    "info": _gauge("build_info", "Always 1; what runs, as labels"),
}
"""What is made of several counters, or of none."""

STAGE_METRICS = {
    "append": _histogram("append", "From when the leader takes a message until its own log has it, as `sync` says"),
    "sync": _histogram("sync", "How long one fdatasync of what the archive records takes"),
    "commit": _histogram("commit", "From when the leader takes a message until a quorum has it"),
    "callback": _histogram("callback", "How long the service takes for a message, or a run of on_session_messages"),
    "round_trip": _histogram(
        "round_trip", "From when the leader takes a message until its service has executed it and the answer is sent"
    ),
}
"""Keyed by stage (cluster.wire.counters.latencies); samples, at most a thousand a second; `sync` has all."""

DETAIL_TYPES = {
    **dict.fromkeys((1, 2, 3, 4, 5, 6, 7, 9, 10, 12), "a stream's position, limit or count: `ordo streams`"),
    **dict.fromkeys((13, 14, 15, 16, 18, 19, 20), "a stream's position, limit or count: `ordo streams`"),
    11: "heartbeat of one of the driver's clients",
    CounterType.RECORDING_POSITION: "of a recording; that of the log is ordo_log_position_bytes",
    CounterType.MODULE_STATE: "ordo_module_state",
    CounterType.NODE_ROLE: "ordo_role",
    CounterType.ELECTION_STATE: "ordo_has_quorum",
    CounterType.SESSION: "ordo_sessions counts them",
    CounterType.CONTROL_TOGGLE: "what an operator asked for",
    CounterType.RECOVERY_STATE: "what the node found at its start",
    CounterType.RECORD_ORDERS: "how many orders a service waits for at its start",
    CounterType.LEADER_TERM: "the term that the member leads, for tools",
    CounterType.LOG_RECORDING: "id of the log's recording",
    **{
        int(kind): "the last message's number, and what the index of the log has: `ordo debug index`"
        for kind in INDEX_COUNTERS
    },
    CounterType.CONTAINER_PARK_FLAG: "whether the service's thread is parked",
    CounterType.DRIVER_PARK_FLAG: "whether the node's thread is parked",
}
"""Counters that are no metric of their own, and why: there would be one a client or stream, or they are no quantity."""
