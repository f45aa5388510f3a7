"""The counters of an archive that Aeron's tools and programs look for (archive.md B7)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ordo.archive.archive import Archive
from ordo.archive.protocol.driver_requests import DriverRequest, DriverRequests
from ordo.runtime.native.time_units import SECOND_NS
from ordo.transport.client.client import TransportClient

if TYPE_CHECKING:
    from ordo.archive.control.conductor import ControlConductor
    from ordo.archive.control.session import ControlSession
    from ordo.transport.client.client_core import ClientCounter

ERRORS, SESSIONS, CYCLE_MAX, CYCLES_LONG, WRITE_MAX, WRITTEN, WRITE_TIME = range(101, 108)
READ_MAX, READ, READ_TIME, RECORDINGS, REPLAYS, SESSION = range(108, 114)
CYCLE_THRESHOLD_NS = 1 * SECOND_NS
UPDATE_INTERVAL_NS = 10_000_000
LABEL_LENGTH_MAX = 380
LABELS = {
    ERRORS: "Archive Errors",
    SESSIONS: "Archive Control Sessions",
    CYCLE_MAX: "archive-conductor max cycle time in ns: INVOKER",
    CYCLES_LONG: f"archive-conductor work cycle time exceeded count: threshold={CYCLE_THRESHOLD_NS}ns INVOKER",
    WRITE_MAX: "archive-recorder max write time in ns",
    WRITTEN: "archive-recorder total write bytes",
    WRITE_TIME: "archive-recorder total write time in ns",
    READ_MAX: "archive-replayer max read time in ns",
    READ: "archive-replayer total read bytes",
    READ_TIME: "archive-replayer total read time in ns",
    RECORDINGS: "Archive Recording Sessions",
    REPLAYS: "Archive Replay Sessions",
}


class ArchiveCounters:
    """The counters 101 to 112 of one archive, and 113 for each control session. Raises RegistrationError."""

    def __init__(self, client: TransportClient, archive: Archive) -> None:
        self._archive = archive
        self._driver = DriverRequests(client)
        self._suffix = f" - archiveId={archive.archive_id}"
        self._key = struct.pack("<q", archive.archive_id)
        self._counters = {
            type_id: client.add_counter(type_id, label + self._suffix, self._key) for type_id, label in LABELS.items()
        }
        self._sessions: dict[int, ClientCounter | DriverRequest] = {}
        self._due_ns = 0

    def on_error(self) -> None:
        """Count an error."""
        self._counters[ERRORS].increment()

    def on_cycle(self, took_ns: int) -> None:
        """Note how long a duty cycle took."""
        self._counters[CYCLE_MAX].propose_maximum(took_ns)
        if took_ns > CYCLE_THRESHOLD_NS:
            self._counters[CYCLES_LONG].increment()

    def work(self, conductor: ControlConductor, now_ns: int) -> int:
        """Bring the counters up to date, sums when it is time again; return the number of things done."""
        archive = self._archive
        self._set(
            {
                SESSIONS: len(conductor.sessions),
                RECORDINGS: len(archive.active_recordings),
                REPLAYS: len(archive.replays()),
            }
        )
        if now_ns < self._due_ns:
            return self._driver.work()
        self._due_ns = now_ns + UPDATE_INTERVAL_NS
        self._set(
            {
                WRITE_MAX: archive.record_time_max_ns,
                WRITTEN: archive.recorded_bytes,
                WRITE_TIME: archive.record_time_ns,
                READ_MAX: archive.replay_time_max_ns,
                READ: archive.replayed_bytes,
                READ_TIME: archive.replay_time_ns,
            }
        )
        for session in conductor.sessions.values():
            if session.session_id not in self._sessions and session.response_registration_id is not None:
                self._sessions[session.session_id] = self._add(session)
        for session_id in [one for one in self._sessions if one not in conductor.sessions]:
            self._drop(self._sessions.pop(session_id))
        return self._driver.work()

    def _set(self, values: dict[int, int]) -> None:
        for type_id, value in values.items():
            self._counters[type_id].set(value)

    def _add(self, session: ControlSession) -> DriverRequest:
        label = (
            f"control-session: {session.client_info} sourceIdentity={session.image.source_identity} "
            f"sessionId={session.image.session_id}"
        )
        session_id, publication_id = session.session_id, session.response_registration_id or 0

        def on_ready(counter: ClientCounter) -> None:
            counter.refer_to(publication_id)
            counter.set(session_id)
            self._sessions[session_id] = counter

        return self._driver.add_counter(
            SESSION,
            label[: LABEL_LENGTH_MAX - len(self._suffix)].encode("ascii", "replace").decode() + self._suffix,
            self._key + struct.pack("<q", session_id),
            on_ready,
            lambda _: None,
        )

    @staticmethod
    def _drop(counter: ClientCounter | DriverRequest) -> None:
        if isinstance(counter, DriverRequest):
            counter.abandon()
        else:
            counter.close()

    def close(self) -> None:
        """Give the counters back."""
        for counter in (*self._sessions.values(), *self._counters.values()):
            self._drop(counter)
        self._sessions.clear()
