"""The committed log for callers: one reader for each subscription, which is read no faster than its caller takes it."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from gateway.calls import Deadline, credentials_of, refuse, refuse_with, session_of
from gateway.sessions import GatewaySessions
from gateway.settings import GatewaySettings
from runtime.errors import ArchiveError, OrdoError
from sequencer.entries import EntryKind, LogEntry
from sequencer.reader import NOT_ALLOWED, POSITION_GONE, LogReader
from service_api import ordo_pb2 as pb

POLL_LIMIT = 256
POLL_PAUSE_S = 0.002
POLL_PAUSE_S_MAX = 0.02
KEEP_INTERVAL_S = 0.2
"""While a caller takes nothing, its reader still says to the archive that it is there."""
BATCH_BYTES_MAX = 1 << 20
STATUSES = {POSITION_GONE: grpc.StatusCode.OUT_OF_RANGE, NOT_ALLOWED: grpc.StatusCode.PERMISSION_DENIED}
NUMBERED = (EntryKind.REQUEST, EntryKind.OUTPUT)
KINDS = {kind.value: kind for kind in EntryKind}


class Subscriptions:
    """Serves `Subscribe`."""

    def __init__(self, settings: GatewaySettings, sessions: GatewaySessions, stopping: asyncio.Event) -> None:
        self._settings = settings
        self._sessions = sessions
        self._stopping = stopping
        self._addresses = settings.archive_endpoints()
        self._count = 0

    async def serve(self, request: Any, context: Any) -> None:
        """Carries out one subscription. Callers must be ones that the cluster lets in."""
        problem = _problem_of(request)
        if problem:
            await refuse(context, grpc.StatusCode.INVALID_ARGUMENT, problem)
        deadline = Deadline(context, self._settings.timeout_s)
        await session_of(context, self._sessions, self._settings, deadline)
        credentials = self._settings.credentials_for(credentials_of(context))
        if self._count >= self._settings.subscriptions_max:
            text = f"{self._count} subscriptions are open, as many as there may be: see --subscriptions-max"
            await refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        self._count += 1
        try:
            await self._serve(request, context, credentials)
        except ArchiveError as error:
            await refuse(context, STATUSES.get(error.code, grpc.StatusCode.UNAVAILABLE), error.message)
        except OrdoError as error:
            await refuse_with(context, error)
        finally:
            self._count -= 1
        if self._stopping.is_set():
            await refuse(context, grpc.StatusCode.UNAVAILABLE, "the gateway stops: go on from the last position")

    async def _serve(self, request: Any, context: Any, credentials: bytes) -> None:
        with LogReader(
            self._addresses,
            from_position="live" if request.live else request.from_position,
            kinds=[KINDS[kind] for kind in request.kinds] or None,
            session_ids=list(request.session_ids) or None,
            credentials=credentials,
        ) as reader:
            pause_s = POLL_PAUSE_S
            told_position = None
            while not self._stopping.is_set():
                batch, count = _poll(reader)
                if batch.entries or (reader.position is not None and told_position is None):
                    told_position = reader.position
                    await _write(context, batch, reader)
                if _has_ended(request, reader):
                    if told_position != reader.position:
                        await _write(context, batch, reader)
                    return
                pause_s = POLL_PAUSE_S if count else min(pause_s * 2, POLL_PAUSE_S_MAX)
                await asyncio.sleep(0 if count else pause_s)


def _problem_of(request: Any) -> str:
    unknown = [kind for kind in request.kinds if kind not in KINDS]
    if unknown:
        return f"kind {unknown[0]!r}: must be one of {', '.join(KINDS)}"
    if request.from_position < 0 or request.until_position < 0:
        return "from_position and until_position must be 0 or the position of an entry"
    return ""


def _has_ended(request: Any, reader: LogReader) -> bool:
    is_bounded = request.until_position > 0 and reader.position is not None
    return is_bounded and reader.position is not None and reader.position >= request.until_position


def _poll(reader: LogReader) -> tuple[Any, int]:
    batch = pb.LogBatch()
    length_bytes = 0

    def take(entry: LogEntry) -> None:
        nonlocal length_bytes
        length_bytes += len(entry.payload)
        batch.entries.append(encode(entry))

    count = 0
    while length_bytes < BATCH_BYTES_MAX:
        found = reader.poll(take, POLL_LIMIT)
        count += found
        if not found or count >= 4 * POLL_LIMIT:
            break
    return batch, count


async def _write(context: Any, batch: Any, reader: LogReader) -> None:
    """Sends a batch; the reader goes on saying that it is there until the caller has taken it."""
    batch.position = reader.position or 0
    writing = asyncio.ensure_future(context.write(batch))
    try:
        while not writing.done():
            done, _ = await asyncio.wait((writing,), timeout=KEEP_INTERVAL_S)
            if not done:
                reader.keep_alive()
        await writing
    finally:
        writing.cancel()


def encode(entry: LogEntry) -> Any:
    """An entry of the log as callers get it."""
    found = pb.LogEntry(
        position=entry.position,
        kind=entry.kind.value,
        timestamp=entry.timestamp,
        leadership_term_id=entry.leadership_term_id,
        session_id=entry.session_id,
        payload=entry.payload,
    )
    if entry.kind in NUMBERED:
        found.number = entry.values.number
        found.identity_position = entry.values.open_position
    return found
