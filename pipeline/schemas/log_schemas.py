"""The schemas that a log has for its messages, found where a read is planned; and decoders made of them.

They are looked for in the newest snapshot of the consensus module that is whole, and in what may be read of the log
behind it, whose checksums are verified. So it takes no look at the whole log where there are snapshots, and finds what
was in a part of the log that was let go. What cannot be read of the log may have been a schema: behind damage, and
where the log begins after its newest whole snapshot, no message is vouched for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from ordo.follow.log_schemas import LogSchemas, SnapshotSchemas, in_front, newest_snapshot, recorded_schema
from ordo.follow.recordings.ranges import Survey
from ordo.pipeline.decoding.batches import arrow_schema
from ordo.pipeline.decoding.errors import CorruptRecordingError, PipelineError
from ordo.pipeline.decoding.log_decoder import LogDecoder
from ordo.pipeline.decoding.payloads import PayloadDecoder, decoded_schema, decoder_fields
from ordo.pipeline.nodes.node_archives import SCHEME
from ordo.pipeline.recordings.network import NetworkLog, plan_network, read_network
from ordo.pipeline.recordings.options import ReadSettings
from ordo.pipeline.recordings.planner import plan, read_runs
from ordo.pipeline.recordings.predicates import INT64_MAX, Predicates
from ordo.pipeline.recordings.recordings import Recording, open_nodes, open_recordings
from ordo.service_api.messages.logged import LoggedSchema

COLUMNS = ("position", "payload")
SCHEMA_KIND = "schema"
BATCH_ROWS = 1024
PARTITION_BYTES = 64 << 20


def with_decoder(options: ReadSettings) -> ReadSettings:
    """Return options whose decoder is ready, with what it adds behind the columns of the log.

    Raises PipelineError where decoder `log` finds no schema.
    """
    if options.decoder is None:
        return options
    decoder = options.decoder
    if isinstance(decoder, LogDecoder) and decoder.logged is None:
        decoder = find_decoder(options)
    inputs = ("payload", "kind", *decoder.inputs)
    decoded_schema(arrow_schema(dict.fromkeys((*options.columns, *inputs))), decoder)
    added = [one.name for one in decoder_fields(decoder)]
    return replace(options, decoder=decoder, columns=(*options.columns, *added))


def ready(decoder: PayloadDecoder, options: ReadSettings) -> PayloadDecoder:
    """Return a decoder that is ready for what these options read. Raises PipelineError."""
    found = with_decoder(replace(options, decoder=decoder)).decoder
    assert found is not None
    return found


def find_decoder(options: ReadSettings) -> LogDecoder:
    """Return the decoder of what these options read. Raises PipelineError where there is no schema."""
    found, searched_to = _find(options)
    known = LogSchemas(found)
    if not known:
        raise PipelineError(
            f"decoder log: {known.problem or 'the log has no schema of messages yet'}; services with typed messages "
            "write it from protocol level 8 on. Otherwise give a file, as sbe:<schema.xml>"
        )
    return LogDecoder(found, searched_to)


def find_schemas(options: ReadSettings) -> tuple[LoggedSchema, ...]:
    """Return the schemas that the logs have which these options read, as far as they may be read; damaged ones too."""
    return _find(options)[0]


def _find(options: ReadSettings) -> tuple[tuple[LoggedSchema, ...], int]:
    """Return the schemas, and up to which position of all these logs they were looked for."""
    found: set[LoggedSchema] = set()
    ends: list[int] = []
    if options.network is not None:
        survey = options.network.survey()
        end = min(survey.end_position, int(options.commit)) if options.commit.isdigit() else survey.end_position
        found.update(_of_nodes(options.network, survey, end))
        ends.append(end)
    else:
        for log in options.open_recordings():
            if not log.is_log:
                raise PipelineError(
                    f"decoder log: {log.key} is not the log, which alone has schemas; use recording=log"
                )
            found.update(_of_recording(log, options))
            ends.append(log.limit if log.exact else log.start)  # it may be read further than it is written
    return tuple(sorted(found)), min(ends, default=0)


def schemas_in(rows: pa.RecordBatch | pa.Table) -> Iterator[LoggedSchema]:
    """Yield the schemas in rows of kind `schema` with their positions and payloads."""
    for position, payload in zip(rows["position"].to_pylist(), rows["payload"].to_pylist(), strict=True):
        yield recorded_schema(position, payload)


class _Message(NamedTuple):
    position: int
    payload: bytes


def _of_recording(log: Recording, options: ReadSettings) -> Iterator[LoggedSchema]:
    is_copy = bool(log.copied)  # all of it was committed
    beside = open_recordings([log.directory], "all", "auto" if is_copy else "recorded", None, options.storage)
    snapshot = _newest(beside, log.limit)
    yield from in_front(snapshot, log.start)
    yield from between(log, snapshot.log_position, INT64_MAX)


def between(log: Recording, after: int, upto: int) -> Iterator[LoggedSchema]:
    """Yield the schemas of a stretch of a log, and what stands for all behind damage."""
    behind = Predicates().narrowed("position", after + 1, upto)
    wanted = replace(behind, kind=frozenset([SCHEMA_KIND]))
    tasks = plan([log], behind, PARTITION_BYTES, None, 0)  # all of it: an index of damaged bytes may lack a schema
    batches = (batch for task in tasks for batch in read_runs(task, wanted, COLUMNS, BATCH_ROWS, True))
    yield from _before_damage(batches, after)


def _of_nodes(log: NetworkLog, found: Survey, end: int) -> Iterator[LoggedSchema]:
    snapshot = _newest(open_nodes([SCHEME + ",".join(log.addresses)], "all", "auto", log.access), end)
    yield from in_front(snapshot, found.start_position)
    yield from between_of_nodes(log, found, snapshot.log_position, end)


def between_of_nodes(log: NetworkLog, found: Survey, after: int, upto: int) -> Iterator[LoggedSchema]:
    """Do the same with a log at nodes, which send nothing else."""
    wanted = Predicates(kind=frozenset([SCHEMA_KIND]))
    runs = plan_network(log, found, after, upto, 0, PARTITION_BYTES, None)
    batches = (batch for run in runs for batch in read_network(run, wanted, COLUMNS, BATCH_ROWS))
    yield from _before_damage(batches, after)


def _before_damage(batches: Iterable[pa.RecordBatch], after: int) -> Iterator[LoggedSchema]:
    """Yield the schemas in rows behind `after`, and what stands for all behind damage."""
    try:
        for batch in batches:
            yield from schemas_in(batch)
    except CorruptRecordingError as error:
        yield LoggedSchema.lost(max(error.position, after), str(error))


def _newest(recordings: Sequence[Recording], limit: int) -> SnapshotSchemas:
    """Return what the newest whole snapshot of the log up to `limit` has."""
    found = ((one.descriptor.stream_id, partial(_messages, one)) for one in reversed(recordings))
    return newest_snapshot(found, limit)


def _messages(recording: Recording) -> Iterator[_Message]:
    try:
        for task in plan([recording], Predicates(), 1 << 30, None, 0):
            for batch in read_runs(task, Predicates(), COLUMNS, BATCH_ROWS, True):
                yield from map(_Message, batch["position"].to_pylist(), batch["payload"].to_pylist())
    except CorruptRecordingError:
        return
