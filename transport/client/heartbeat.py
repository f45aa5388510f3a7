"""A client's heartbeat: shows the driver that the client lives, and finds out when one of the two does not."""

from __future__ import annotations

import struct
from typing import Final

from ordo.runtime.errors import ClientTimeoutError, OrdoError
from ordo.runtime.native.counters import Counter
from ordo.transport.client.driver_link import NULL_COUNTER_ID, DriverLink

CLIENT_HEARTBEAT_TYPE_ID: Final = 11


class ClientHeartbeat:
    """The heartbeat counter of one client. The driver allocates it, and takes it away when the client was silent."""

    def __init__(self, link: DriverLink, client_id: int, name: str, interval_ns: int) -> None:
        """Take `name`, which is shown in the counter's label; `interval_ns` from one beat to the next."""
        self.next_ns = 0
        """When the next beat is due."""
        self._link = link
        self._client_id = client_id
        self._name = name
        self._interval_ns = interval_ns
        self._last_ns = link.clock.now()
        self._counter: Counter | None = None

    def beat(self, now_ns: int) -> OrdoError | None:
        """Show that the client lives. Return the error that ends it: it is late, or the driver is gone."""
        late_ns = now_ns - self._last_ns
        self._last_ns = now_ns
        self.next_ns = now_ns + self._interval_ns
        link = self._link
        if link.invoker is None and late_ns > link.cnc.client_liveness_timeout_ns:
            return ClientTimeoutError(
                f"{self._who} did not run for {late_ns} ns, the driver gives clients up after "
                f"{link.cnc.client_liveness_timeout_ns} ns"
            )
        return link.fault() or self._set_counter()

    @property
    def _who(self) -> str:
        return f"transport-client {self._name}".rstrip()

    def _set_counter(self) -> OrdoError | None:
        if self._counter is None:
            self._counter = self._find_counter()
        if self._counter is None:
            return None
        if not self._link.counters.is_active(self._counter.counter_id, self._client_id):
            return ClientTimeoutError(f"{self._who} has no heartbeat counter any more: the driver gave it up")
        self._counter.set(self._link.clock.epoch_ms())
        return None

    def _find_counter(self) -> Counter | None:
        counters = self._link.counters
        counter_id = counters.find(CLIENT_HEARTBEAT_TYPE_ID, struct.pack("<q", self._client_id))
        if counter_id == NULL_COUNTER_ID or not counters.is_active(counter_id, self._client_id):
            return None
        if self._name:
            self._link.cnc.append_label(counter_id, f" name={self._name}")
        return counters.counter(counter_id)
