"""Settings of a door for Kafka's clients."""

from __future__ import annotations

from dataclasses import dataclass

from ordo.gateway.doors.settings import DoorSettings, check_address
from ordo.runtime.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class KafkaSettings(DoorSettings):
    """Times in seconds, lengths in bytes. Raises ConfigurationError for a value out of its range."""

    listen: str = "127.0.0.1:9092"
    """host:port that clients connect to; port 0 takes a free one."""
    advertise: str = ""
    """host:port that clients are told to connect to; empty: the address by which they came."""
    creates_topics: bool = True
    """Whether a topic is created when a client that wants so first asks for it."""
    connections_max: int = 1_024
    request_bytes_max: int = 4 << 20
    """The longest request that is taken."""
    requests_bytes_max: int = 128 << 20
    """So many bytes of requests are held at a time."""
    readers_max: int = 32
    """So many places in topics are read at a time; consumers near each other share one."""
    idle_s: float = 600.0
    """A connection without a request for so long is closed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.advertise:
            check_address("advertise", self.advertise)
        self.check_counts("connections_max", "readers_max")
        self.check_seconds("idle_s")
        if not 1 << 16 <= self.request_bytes_max <= self.requests_bytes_max:
            raise ConfigurationError(
                f"request_bytes_max={self.request_bytes_max}: must be {1 << 16} to {self.requests_bytes_max}"
            )
