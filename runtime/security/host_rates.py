"""How often strangers may cause work that costs much, counted for each host that they come from."""

from __future__ import annotations

HOSTS_MAX = 1024


class HostRates:
    """Lets each host do something once in an interval, and a burst of it at once; what is more is refused.

    A host is remembered for as long as its burst is not whole again. Where too many are, the newest host is refused.
    """

    def __init__(self, interval: int, burst: int) -> None:
        """`interval` in the time units of `take`."""
        self._interval = interval
        self._burst = burst
        self._paid_until: dict[str, int] = {}

    def take(self, host: str, now: int) -> bool:
        """Whether this host may do it now."""
        paid_until = max(self._paid_until.get(host, now), now)
        if paid_until + self._interval > now + self._interval * self._burst:
            return False
        if host not in self._paid_until and len(self._paid_until) >= HOSTS_MAX:
            self._paid_until = {one: until for one, until in self._paid_until.items() if until > now}
            if len(self._paid_until) >= HOSTS_MAX:
                return False
        self._paid_until[host] = paid_until + self._interval
        return True
