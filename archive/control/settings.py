"""Settings of an archive that is served, and their limits."""

from __future__ import annotations

from dataclasses import dataclass

from ordo.archive.protocol.codes import CONTROL_STREAM_ID_DEFAULT, LOCAL_CONTROL_CHANNEL_DEFAULT
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.native.time_units import SECOND_NS
from ordo.runtime.settings.kinds import check_kinds
from ordo.transport.uri import ChannelUri


@dataclass(frozen=True)
class ControlSettings:
    """What a control conductor listens on, and what clients may ask for at most.

    Checked when made: ConfigurationError names the setting, its value and what is allowed.
    """

    control_channel: str | None = None
    """A UDP channel for clients elsewhere; None serves clients of the same driver only."""
    control_stream_id: int = CONTROL_STREAM_ID_DEFAULT
    local_control_channel: str | None = LOCAL_CONTROL_CHANNEL_DEFAULT
    local_control_stream_id: int = CONTROL_STREAM_ID_DEFAULT
    replication_channel: str | None = None
    """Where replays of other archives come in, such as aeron:udp?endpoint=10.0.0.1:0; None: each request says."""
    connect_timeout_ns: int = 5 * SECOND_NS
    ping_interval_ns: int = 1 * SECOND_NS
    sessions_max: int = 64
    recordings_max: int = 20
    recorded_streams_max: int = 4096
    """Channels and streams that are recorded whenever somebody publishes there, until a client stops that."""
    replays_max: int = 20
    live_replays_max: int = 4
    """Replays that clients share, each of one recording. A session has one place in each."""
    replay_tokens_max: int = 1024
    requests_per_cycle_max: int = 10
    request_length_bytes_max: int = 64 * 1024
    queued_responses_max: int = 256
    response_term_length_max: int = 1024 * 1024
    linger_ns_max: int = 60 * SECOND_NS

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in (
            "sessions_max",
            "recordings_max",
            "recorded_streams_max",
            "replays_max",
            "connect_timeout_ns",
            "ping_interval_ns",
        ):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name}={getattr(self, name)}, must be 1 or more")
        if self.control_channel is not None and not ChannelUri.parse(self.control_channel).is_udp:
            raise ConfigurationError(f"control_channel={self.control_channel!r}, must be an aeron:udp channel")
        if self.local_control_channel is not None and not ChannelUri.parse(self.local_control_channel).is_ipc:
            raise ConfigurationError(f"local_control_channel={self.local_control_channel!r}, must be aeron:ipc")
