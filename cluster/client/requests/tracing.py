"""The choice of a client's traced requests, and the destination of their spans."""

from __future__ import annotations

from dataclasses import dataclass

from ordo.runtime.errors import ConfigurationError
from ordo.runtime.reporting.spans import check_packages
from ordo.runtime.settings.kinds import check_kinds


@dataclass(frozen=True, kw_only=True)
class Tracing:
    """Where a client sends the spans of which requests; the members' `[tracing]` must have the same `rate`.

    Raises ConfigurationError for a rate out of its range, and where packages are missing.
    """

    endpoint: str
    """URL of a collector's traces, OTLP over HTTP: http://127.0.0.1:4318/v1/traces."""
    rate: float = 0.001
    """Share of the requests that is traced, above 0, at most 1."""
    service_name: str = "ordo-client"

    def __post_init__(self) -> None:
        if not isinstance(self.rate, int | float) or not 0 < self.rate <= 1:
            raise ConfigurationError(f"tracing: rate={self.rate!r}: must be above 0 and at most 1")
        check_kinds(self)
        check_packages("tracing")
