"""Rate limits for expensive work that strangers may cause, counted per host."""

from __future__ import annotations

HOSTS_MAX = 1024


class HostRates:
    """A limit that lets each host do something once per interval, with a burst at once, and refuses the rest.

    A host is remembered for as long as its burst is not whole again. Where too many are, the newest host is refused.
    """

    def __init__(self, interval: int, burst: int) -> None:
        """Set the limit; `interval` is in the time units of `take`."""
        self._interval = interval
        self._burst = burst
        self._paid_until: dict[str, int] = {}

    def take(self, host: str, now: int) -> bool:
        """Return whether this host may do it now, and count it if so."""
        paid_until = max(self._paid_until.get(host, now), now)
        if paid_until + self._interval > now + self._interval * self._burst:
            return False
        if host not in self._paid_until and len(self._paid_until) >= HOSTS_MAX:
            self._paid_until = {one: until for one, until in self._paid_until.items() if until > now}
            if len(self._paid_until) >= HOSTS_MAX:
                return False
        self._paid_until[host] = paid_until + self._interval
        return True
