"""A stretch of a log in a file of its own: the state that it begins with, and its records at their positions.

{"format": 1, "service_id": 0, "term_length": ..., "mtu": ...,
 "start": {"position", "time", "term_id", "messages": [base64]},       null: the beginning of the log
 "records": [[position where it begins, record in base64]], "skips": {position: text}}
"""

from __future__ import annotations

import base64
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypedDict, TypeVar, cast

from ordo.archive.segments.catalog import NULL_TIMESTAMP, Catalog, RecordingDescriptor
from ordo.archive.segments.segments import segment_base_position, segment_name
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.wire.streams import LOG_STREAM_ID
from ordo.debugging.replaying.code import code_of
from ordo.debugging.replaying.effects import Effect
from ordo.debugging.replaying.execution import Execution
from ordo.debugging.replaying.recorded_log import Checkpoint, RecordedLog
from ordo.debugging.replaying.timeline import Step
from ordo.follow.entries import decode_entry
from ordo.runtime.errors import ConfigurationError, StorageError
from ordo.runtime.io.durable_files import write_durably
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.sentinels import NULL_POSITION
from ordo.service_api.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ordo.debugging.replaying.code import MakeVersions
    from ordo.pipeline.decoding.synthetic import RecordingWriter

S = TypeVar("S", bound=Service)
FORMAT = 1
SEGMENT_LENGTH = 1 << 30
"""The files of a log that is written here, of which hardly anything takes room."""
LENGTH_MAX = 1 << 40
"""Bytes of log between the beginning of a stretch and its last record."""
CHANNEL = "aeron:ipc?alias=log"


class Record(NamedTuple):
    """One record of the log, and where it begins."""

    start_position: int
    data: bytes


class Recorded:
    """A recorded stretch: `run` executes it with a service, as the cluster did."""

    def __init__(
        self,
        records: Iterable[Record],
        start: Checkpoint | None,
        *,
        term_length: int,
        mtu: int,
        service_id: int = 0,
        skips: Mapping[int, str] | None = None,
    ) -> None:
        self.records = list(records)
        self.start = start
        self.term_length = term_length
        self.mtu = mtu
        self.service_id = service_id
        self.skips = dict(skips or {})

    def with_records(self, records: Iterable[Record]) -> Recorded:
        """Return the stretch with other records, at their positions."""
        return Recorded(
            records,
            self.start,
            term_length=self.term_length,
            mtu=self.mtu,
            service_id=self.service_id,
            skips=self.skips,
        )

    def run(self, service: Callable[[], S] | Mapping[int, Callable[[], S]]) -> RecordedRun[S]:
        """Execute the stretch with the class of a service, or with one for each version.

        Raises ServiceError where the service raises: its message says at which record.
        """
        return cast("RecordedRun[S]", self.run_code(code_of(service)))

    def run_code(self, code: MakeVersions, holds: Callable[[Service], object] | None = None) -> RecordedRun[Service]:
        """Execute the stretch, at most up to the first record after which something does not hold."""
        with tempfile.TemporaryDirectory(prefix="ordo-recorded-") as folder:
            log = write_log(Path(folder), self)
            execution = Execution(log, code, self.start, service_id=self.service_id, skips=self.skips)
            run: RecordedRun[Service] = RecordedRun(execution, [])
            for record in log.records(execution.position):
                run.steps.append(Step(record.position, record.payload, execution.step(record.position)))
                if holds is not None and not holds(execution.service):
                    break
            return run

    def save(self, path: Path) -> None:
        """Write the file. Raises StorageError."""
        values: dict[str, object] = {
            "format": FORMAT,
            "service_id": self.service_id,
            "term_length": self.term_length,
            "mtu": self.mtu,
            "start": None if self.start is None else _encode_start(self.start),
            "skips": self.skips,
            "records": [[one.start_position, base64.b64encode(one.data).decode()] for one in self.records],
        }
        try:
            write_durably(path, json.dumps(values, indent=1) + "\n")
        except OSError as error:
            raise StorageError(f"{path} cannot be written: {error.strerror}") from None


class RecordedRun(Generic[S]):
    """What a service did over a recorded stretch."""

    def __init__(self, execution: Execution, steps: list[Step]) -> None:
        self.execution = execution
        self.steps = steps

    @property
    def service(self) -> S:
        """The service, after the last record."""
        return cast("S", self.execution.service)

    @property
    def effects(self) -> list[Effect]:
        """What the service did, in order."""
        return [effect for step in self.steps for effect in step.effects]


def recorded(path: str | Path) -> Recorded:
    """Return the stretch of a log that `ordo debug record` wrote. Raises ConfigurationError for another file."""
    try:
        values = json.loads(Path(path).read_text())
        if values["format"] != FORMAT:
            raise ConfigurationError(f"{path} has format {values['format']}; this release reads format {FORMAT}")
        records = [Record(int(position), base64.b64decode(data)) for position, data in values["records"]]
        start = None if values["start"] is None else _decode_start(values["start"])
        skips = {int(position): str(text) for position, text in values["skips"].items()}
        lengths = {name: int(values[name]) for name in ("term_length", "mtu", "service_id")}
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{path} is no file of `ordo debug record`: {error}") from None
    _check(path, records, 0 if start is None else start.position, lengths["term_length"], lengths["mtu"])
    return Recorded(records, start, skips=skips, **lengths)


def _check(path: str | Path, records: list[Record], begin: int, term_length: int, mtu: int) -> None:
    """Raise ConfigurationError where records do not lie one after the other."""
    is_sound = 1 << 16 <= term_length <= 1 << 30 and term_length & (term_length - 1) == 0 and 64 <= mtu <= 65536
    is_sound = is_sound and begin >= 0 and (not records or records[-1].start_position - begin <= LENGTH_MAX)
    position = begin
    for record in records:
        is_sound = is_sound and record.start_position >= position and record.start_position % 32 == 0
        is_sound = is_sound and len(record.data) <= term_length // 8
        position = record.start_position + len(record.data)
    if not is_sound:
        raise ConfigurationError(f"{path} is no file of `ordo debug record`: its records do not follow on one another")


class _Start(TypedDict):
    position: int
    time: int
    term_id: int
    messages: list[str]


def _encode_start(start: Checkpoint) -> _Start:
    messages = [base64.b64encode(one).decode() for one in start.messages]
    return {"position": start.position, "time": start.time, "term_id": start.term_id, "messages": messages}


def _decode_start(values: _Start) -> Checkpoint:
    messages = tuple(base64.b64decode(one) for one in values["messages"])
    return Checkpoint(int(values["position"]), int(values["time"]), int(values["term_id"]), messages)


def take(
    log: RecordedLog,
    start: Checkpoint | None,
    end: int,
    *,
    service_id: int = 0,
    anonymise: Callable[[bytes], object] | None = None,
) -> Recorded:
    """Return what a log has from a state on, up to a position. Raises ConfigurationError.

    `anonymise`: makes the payloads that are kept.
    """
    begin = log.start if start is None else start.position
    found = []
    for record in log.records(begin, end):
        data = record.payload if anonymise is None else anonymised(record.payload, record.position, anonymise)
        found.append(Record(record.start_position, data))
    skips = {position: text for position, text in log.skips.items() if begin < position <= end}
    descriptor = log.descriptor
    return Recorded(
        found, start, term_length=descriptor.term_length, mtu=descriptor.mtu, service_id=service_id, skips=skips
    )


def anonymised(record: bytes, position: int, anonymise: Callable[[bytes], object]) -> bytes:
    """Return a record with another payload of the same length, where it has one. Raises ConfigurationError."""
    entry = decode_entry(position, record)
    if entry is None or not entry.payload:
        return record
    payload = anonymise(entry.payload)
    if not isinstance(payload, bytes) or len(payload) != len(entry.payload):
        raise ConfigurationError(
            f"--anonymise: it must return bytes of the same length, so that positions stay; at position {position} it"
            f" was given {len(entry.payload)} bytes and returned {payload!r:.100}"
        )
    return record[: len(record) - len(payload)] + payload


def write_log(folder: Path, stretch: Recorded) -> RecordedLog:
    """Write an archive that has the records of a stretch at their positions."""
    begin = stretch.start.position if stretch.start is not None else 0
    write_archive(folder, stretch.records, stretch.term_length, stretch.mtu, begin)
    return RecordedLog(folder)


def write_archive(folder: Path, records: Iterable[Record], term_length: int, mtu: int, begin: int = 0) -> None:
    """Write an archive with a log that has records at their positions, in the term of `begin` and later ones."""
    base = begin - begin % term_length
    catalog = Catalog.open(FileStorage(open_lmdb), str(folder))
    descriptor = RecordingDescriptor(
        -1, base, NULL_POSITION, 0, NULL_TIMESTAMP, 0, SEGMENT_LENGTH, term_length, mtu, 1, LOG_STREAM_ID, "aeron:ipc",
        CHANNEL, "aeron:ipc",
    )  # fmt: skip
    try:
        descriptor = catalog.add(descriptor)

        def write(position: int, data: memoryview) -> None:
            segment = segment_base_position(base, position, term_length, SEGMENT_LENGTH)
            path = folder / segment_name(descriptor.recording_id, segment)
            with path.open("r+b" if path.exists() else "w+b") as file:
                file.truncate(SEGMENT_LENGTH)
                file.seek(position - segment)
                file.write(data)

        from ordo.pipeline.decoding.synthetic import RecordingWriter  # of the pipeline, which may not be built

        writer = RecordingWriter(write, term_length, 0, LOG_STREAM_ID, 1, mtu, True, base)
        for record in records:
            _pad(writer, record.start_position)
            writer.append(record.data)
        writer.flush()
        catalog.update(descriptor.recording_id, stop_position=writer.position, stop_timestamp=0)
    finally:
        catalog.close()


def _pad(writer: RecordingWriter, position: int) -> None:
    """Fill up to a position."""
    while writer.position < position:
        rest = writer.term_length_bytes - writer.position % writer.term_length_bytes
        if position - writer.position >= rest:
            writer.end_term()
        else:
            writer.append_padding(position - writer.position)
