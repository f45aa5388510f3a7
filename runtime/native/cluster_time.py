"""The unit of a cluster's clock: that of all timestamps of its log, and of the deadlines of timers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import IntEnum

from ordo.runtime.native.time_units import MICROSECOND_NS, MILLISECOND_NS, SECOND_NS

MICROS_MIN, NANOS_MIN = 10**14, 10**17
"""A timestamp below the first is in ms, from the second on in ns, between them in us.

That is true of any time from March 1973 to 5138; in us and ns, cluster time begins no earlier (ClusterClock).

Native code has the same numbers in time_units.pxd.
"""
TIMESTAMP_MAX = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class TimeUnit(IntEnum):
    """The unit of all timestamps of one cluster: `[cluster] time_unit`, Aeron's ClusterTimeUnit."""

    MILLIS = 0
    MICROS = 1
    NANOS = 2

    @classmethod
    def of_timestamp(cls, timestamp: int) -> TimeUnit:
        """Return the unit of a timestamp of a log, which its size tells."""
        if timestamp < MICROS_MIN:
            return cls.MILLIS
        return cls.MICROS if timestamp < NANOS_MIN else cls.NANOS

    @property
    def length_ns(self) -> int:
        """Return one unit in nanoseconds: 1_000_000, 1_000 or 1."""
        return LENGTHS_NS[self]

    @classmethod
    def named(cls, symbol: str) -> TimeUnit:
        """Return the unit that settings call `ms`, `us` or `ns`."""
        return {known: unit for unit, known in SYMBOLS.items()}[symbol]

    @property
    def symbol(self) -> str:
        """Return the unit as settings have it: `ms`, `us` or `ns`."""
        return SYMBOLS[self]

    def duration(
        self, *, seconds: float = 0, milliseconds: float = 0, microseconds: float = 0, nanoseconds: float = 0
    ) -> int:
        """Return a duration in this unit, rounded up, so that a timer that is set with it is never early.

        Whole numbers are exact.
        """
        parts = (seconds, SECOND_NS), (milliseconds, MILLISECOND_NS), (microseconds, MICROSECOND_NS), (nanoseconds, 1)
        duration_ns = sum(round(value * length_ns) for value, length_ns in parts)
        return -(-duration_ns // self.length_ns)

    def to_ns(self, value: int) -> int:
        """Return a time or a duration of this unit in nanoseconds."""
        return value * self.length_ns

    def rescale(self, value: int, wanted: TimeUnit) -> int:
        """Return a time or a duration of this unit in another one: rounded down, and within 64 bits."""
        return max(-TIMESTAMP_MAX - 1, min(TIMESTAMP_MAX, value * self.length_ns // wanted.length_ns))

    def to_datetime(self, timestamp: int) -> datetime:
        """Return a timestamp as a date in UTC, rounded down to microseconds."""
        return _EPOCH + timedelta(microseconds=self.to_ns(timestamp) // MICROSECOND_NS)

    def from_datetime(self, when: datetime) -> int:
        """Return the timestamp of a date, rounded down. Raises ValueError for one without its offset to UTC."""
        if when.tzinfo is None:
            raise ValueError(f"{when.isoformat()}: a date needs its offset to UTC, as tzinfo")
        return (when - _EPOCH) // _MICROSECOND * MICROSECOND_NS // self.length_ns


SYMBOLS = {TimeUnit.MILLIS: "ms", TimeUnit.MICROS: "us", TimeUnit.NANOS: "ns"}
EARLIEST = {TimeUnit.MILLIS: 0, TimeUnit.MICROS: MICROS_MIN, TimeUnit.NANOS: NANOS_MIN}
"""The earliest timestamp that a log of each unit has."""
LENGTHS_NS = {TimeUnit.MILLIS: MILLISECOND_NS, TimeUnit.MICROS: MICROSECOND_NS, TimeUnit.NANOS: 1}


def time_ns(timestamp: int) -> int:
    """Return a timestamp of a log, of whichever unit, in nanoseconds since 1970."""
    return timestamp * TimeUnit.of_timestamp(timestamp).length_ns


def time_ms(timestamp: int) -> int:
    """Return a timestamp of a log, of whichever unit, in milliseconds since 1970, rounded down."""
    return timestamp if timestamp < MICROS_MIN else time_ns(timestamp) // MILLISECOND_NS


def timestamp_of_ns(value_ns: int) -> int:
    """Return nanoseconds since 1970 as a timestamp whose size tells its unit: times before March 1973 in ms.

    What is later than the year 2262 is TIMESTAMP_MAX, which no log comes to.
    """
    value_ns = min(value_ns, TIMESTAMP_MAX)
    return value_ns if value_ns >= NANOS_MIN else value_ns // MILLISECOND_NS


def timestamp_of_date(when: datetime) -> int:
    """Return a date as a timestamp whose size tells its unit. Raises ValueError for one without its offset to UTC."""
    return timestamp_of_ns(TimeUnit.NANOS.from_datetime(when))


def describe_time(timestamp: int) -> str:
    """Return a timestamp of a log as a date in UTC, as exact as its unit; as the number where it is no date."""
    unit = TimeUnit.of_timestamp(timestamp)
    seconds, of_second_ns = divmod(time_ns(timestamp), SECOND_NS)
    try:
        whole = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return str(timestamp)
    digits = 3 * (unit + 1)
    return f"{whole.replace(tzinfo=None).isoformat()}.{of_second_ns:09d}"[: 20 + digits] + "+00:00"
