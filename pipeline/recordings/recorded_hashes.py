"""Hashes of states that the log has: what a quorum of services agreed on while the cluster ran (docs/RETENTION.md)."""

from __future__ import annotations

from typing import Any, NamedTuple

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.snapshots.snapshot_digest import digest_of
from ordo.runtime.errors import DecodeError
from ordo.service_api.service import Service
from ordo.service_api.state_hash import hash_state, implements_state_hash


class HashDifference(NamedTuple):
    """The state at a position, as the log has it and as the service has it in the replay."""

    position: int
    recorded: str
    replayed: str


class RecordedHashes:
    """Compares the hash that a replayed service gives at each StateHashEvent with what a later one says of it.

    What was agreed at an event before the replay began, or is told behind its end, is not compared.
    """

    def __init__(self) -> None:
        self._replayed: dict[int, bytes] = {}
        self.compared = 0
        self.compared_position = -1
        """Up to here the state is known to be that of the cluster."""

    def look(self, record: dict[str, Any], service: Service) -> HashDifference | None:
        """To be called with each record of kind `state_hash`, after its execution. Returns what differs."""
        event = _event_of(bytes(record["payload"]))
        if event is None or not implements_state_hash(type(service)):
            return None
        self._replayed[record["position"]] = digest_of([hash_state(service)])
        replayed = self._replayed.get(event.agreed_position)
        if replayed is None:
            return None
        recorded = bytes(event.agreed_digest)
        if recorded != replayed:
            return HashDifference(event.agreed_position, recorded.hex(), replayed.hex())
        self.compared += 1
        self.compared_position = event.agreed_position
        self._replayed = {one: digest for one, digest in self._replayed.items() if one > event.agreed_position}
        return None


def _event_of(message: bytes) -> Any:
    """Return the fields of a StateHashEvent, None for any other record."""
    try:
        found = ordo_codecs.decode(message)
    except DecodeError:
        return None  # the audit's to say
    return found[1] if found is not None and found[0] is ordo_codecs.STATE_HASH_EVENT else None
