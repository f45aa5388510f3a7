"""`ordo pipeline ...`: the jobs over recordings, with progress and a written report.

Exit status: 0 done (audit: clean, replay: all of it agrees); 1 damage or a difference; 2 a wrong command line; 3 not
all that was asked for could be checked; 6 it could not be done; 7 a library is not installed.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.engine import AUDIT_SPARK_FROM_BYTES, REPLAY_SPARK_FROM_BYTES, Engine, choose_engine
from ordo.pipeline.job_run import Job, needing, running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

app = typer.Typer(
    name="pipeline",
    help="Data frames, SQL and jobs over recordings, on Spark or without.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


EXIT_FOUND = 1
EXIT_NOT_CHECKED = 3

Folders = Annotated[
    list[str],
    typer.Argument(help="archive folders, such as data/node0/archive, copies of them, or ordo://host:port,..."),
]
Folder = Annotated[
    str,
    typer.Argument(
        help="archive folder of one node, such as data/node0/archive, a copy of it, or ordo://host:port,..."
    ),
]
ReportTo = Annotated[str, typer.Option("--report", help="folder for the report")]
Master = Annotated[str | None, typer.Option(help="Spark master, such as spark://host:7077; default this machine")]
Cores = Annotated[int | None, typer.Option(help="cores of this machine to use; default all")]
Commit = Annotated[str, typer.Option(help="auto, recorded, a position, or the node's aeron_dir")]
RecordingOption = Annotated[str, typer.Option("--recording", help="log, all, or recording ids")]
EngineOption = Annotated[
    Engine, typer.Option("--engine", help="Spark, or this process alone, without a JVM; auto: by the size of the log")
]
StorageOption = Annotated[str | None, typer.Option("--storage", help="of copies: fsspec options, as JSON")]
RepeatsOption = Annotated[
    bool, typer.Option("--repeats", help="count copies of requests as well, which were sent again and not executed")
]
ServiceOption = Annotated[str, typer.Option("--service", help="the service, as module:Class")]


def _load(
    job: Job, folders: list[str], recording: str, commit: str, storage: str | None, **options: str | None
) -> DataFrame:
    reader = job.spark.read.format("ordo").option("recording", recording).option("commit", commit)
    if storage is not None:
        reader = reader.option("storageOptions", storage)
    for name, value in options.items():
        if value is not None:
            reader = reader.option(name, value)
    return reader.load(folders)


@app.command()
def audit(
    folders: Folders, report: ReportTo = "audit", recording: RecordingOption = "log", commit: Commit = "auto",
    master: Master = None, cores: Cores = None, engine: EngineOption = Engine.AUTO, storage: StorageOption = None,
) -> None:  # fmt: skip
    """Check every byte, and that all nodes' logs agree."""
    from ordo.pipeline.jobs import audit_report
    from ordo.pipeline.jobs.clock_stretches import describe_clocks, find_clocks

    on_spark = master is not None or cores is not None
    with needing("local"):
        engine = choose_engine(engine, folders, AUDIT_SPARK_FROM_BYTES, recording, commit, storage, on_spark)
    run = _audit_here if engine is Engine.LOCAL else _audit
    facts, violations = run(folders, recording, commit, master, cores, storage)
    facts["session_violations"] = violations
    page = audit_report.write_report(facts, report)
    problem = facts["first_problem"]
    for node in facts["nodes"]:
        typer.echo(f"{node['node']}: {node['messages']:,} messages, positions {node['start']} to {node['limit']}, "
                   f"{node['finding_count']} findings")  # fmt: skip
    for end in facts["uncommitted"]:
        typer.echo(audit_report.describe_end(end))
    for member in facts["shorter"]:
        typer.echo(audit_report.describe_shorter(member))
    for sentence in facts["not_proven"]:
        typer.echo(f"not proven: {sentence}")
    for line in describe_clocks(find_clocks(facts["nodes"])):
        typer.echo(line)
    for line in audit_report.describe_arrivals(audit_report.find_arrivals(facts["nodes"])):
        typer.echo(line)
    if problem is not None:
        typer.echo(f"first problem at position {problem['position']}: {audit_report.describe(problem)}")
    for row in violations[:10]:
        typer.echo(f"session {row['session_id']} of {row['node']}: {row['violation']} at position {row['position']}")
    verdict = "damaged" if problem else f"{len(violations)} violations by sessions" if violations else "clean"
    typer.echo(f"{verdict}; report: {page}")
    raise typer.Exit(EXIT_FOUND if problem is not None or violations else 0)


Audited = tuple[dict[str, Any], list[dict[str, Any]]]


def _audit(
    folders: list[str], recording: str, commit: str, master: str | None, cores: int | None, storage: str | None
) -> Audited:
    """Return the facts of the audit, and violations by sessions where the log itself is sound."""
    with running("audit", master, cores) as job:
        from ordo.pipeline.jobs.audit import audit as run
        from ordo.pipeline.jobs.session_order import session_violations
        from ordo.pipeline.recordings.object_store import parse_storage

        facts = run(job.spark, folders, recording, commit, parse_storage(storage))
        if facts["status"] != "clean":
            return facts, []
        log = _load(job, folders, recording, commit, storage)
        return facts, [row.asDict() for row in session_violations(log).collect()]


def _audit_here(
    folders: list[str], recording: str, commit: str, master: str | None, cores: int | None, storage: str | None
) -> Audited:
    """Audits recordings in this process, without Spark."""
    with needing("local"):
        from ordo.pipeline.jobs.audit import audit as run
        from ordo.pipeline.jobs.session_order import COLUMNS, SESSION_KINDS, find_violations
        from ordo.pipeline.recordings.object_store import parse_storage
        from ordo.pipeline.sql.local import read
    facts = run(None, folders, recording, commit, parse_storage(storage))
    if facts["status"] != "clean":
        return facts, []
    log = read(folders, recording=recording, commit=commit, columns=COLUMNS, kinds=SESSION_KINDS,
               storage_options=storage)  # fmt: skip
    return facts, find_violations(log.batches())


def _refuse_spark_options(master: str | None, cores: int | None) -> None:
    if master is not None or cores is not None:
        raise PipelineError("--format delta runs in this process: leave out --master and --cores")


class Lake(StrEnum):
    """What an export writes."""

    PARQUET = "parquet"
    DELTA = "delta"


@app.command()
def export(
    folders: Folders,
    to: Annotated[str, typer.Option(help="folder for the files, or a Delta table")],
    lake: Annotated[Lake, typer.Option("--format", help="parquet (by Spark) or delta (without Spark)")] = Lake.PARQUET,
    recording: RecordingOption = "log",
    columns: Annotated[str | None, typer.Option(help="columns, separated by commas; default all")] = None,
    partition_by: Annotated[str, typer.Option(help="columns, separated by commas; may be empty")] = "day",
    sort_by: Annotated[str, typer.Option(help="columns by which rows are sorted in each file")] = "",
    decoder: Annotated[str | None, typer.Option(help="payloads into columns, as for `decode`")] = None,
    compact: Annotated[bool, typer.Option(help="delta: afterwards few large files of many small ones")] = False,
    to_storage: Annotated[str | None, typer.Option(help="delta: options of the table's object store, as JSON")] = None,
    storage: StorageOption = None,
    commit: Commit = "auto", master: Master = None, cores: Cores = None,
) -> None:  # fmt: skip
    """Write what is new as Parquet, or into a Delta table; may be run again at any time."""
    with needing("local"):
        from ordo.pipeline.recordings.object_store import parse_storage
    if columns:  # the day comes from the first; the second says which rows are copies that were not executed
        columns = ",".join(dict.fromkeys([*columns.split(","), "timestamp", "is_repeat"]))
    parts = tuple(filter(None, partition_by.split(",")))
    order = tuple(filter(None, sort_by.split(",")))
    if lake is Lake.DELTA:
        _refuse_spark_options(master, cores)
        exported = _export_delta(folders, to, recording, commit, compact, columns, decoder, parts, order,
                                 parse_storage(to_storage), parse_storage(storage))  # fmt: skip
    elif compact or to_storage is not None:
        raise PipelineError("--compact and --to-storage are for --format delta")
    else:
        with needing("pipeline"):
            from ordo.pipeline.decoding.payloads import parse_decoder
            from ordo.pipeline.first_look import look_at_archives
        if decoder:
            parse_decoder(decoder)  # what is wrong with it is told of before Spark starts
        look_at_archives(folders, recording, commit, storage)
        with running("export", master, cores) as job:
            from ordo.pipeline.export.export import export as run

            exported = run(
                job.spark, folders, to, recording=recording, columns=columns, decoder=decoder, commit=commit,
                partition_by=parts, sort_by=order, storage=parse_storage(storage),
                on_progress=lambda chunk, done, total: job.show(
                    done, total, f"export {chunk.recording.key} to {chunk.end}"
                ),
            )  # fmt: skip
    for key, position in exported.items():
        typer.echo(f"{key}: exported to position {position}")


def _export_delta(
    folders: list[str], to: str, recording: str, commit: str, wants_compact: bool, columns: str | None,
    decoder: str | None, parts: tuple[str, ...], order: tuple[str, ...], to_storage: dict[str, Any],
    storage: dict[str, Any],
) -> dict[str, int]:  # fmt: skip
    with needing("local"):
        from ordo.pipeline.decoding.payloads import parse_decoder
        from ordo.pipeline.export.lake import LakeSettings, compact, export_delta
    settings = LakeSettings(
        columns, parse_decoder(decoder) if decoder else None, parts, order, storage=to_storage or None,
        source_storage=storage or None,
    )  # fmt: skip
    exported = export_delta(folders, to, settings, recording=recording, commit=commit)
    if wants_compact:
        before, after = compact(to, order, settings.storage)
        typer.echo(f"{before} files became {after}")
    return exported


@app.command()
def sessions(
    folders: Folders, report: ReportTo = "sessions", commit: Commit = "auto", storage: StorageOption = None,
    master: Master = None, cores: Cores = None,
) -> None:  # fmt: skip
    """Show the life of each client session; messages are what was executed, and repeats are counted apart."""
    with needing("pipeline"):
        from ordo.pipeline.first_look import look_at_frame
    look_at_frame(folders, "log", commit, storage)
    with running("sessions", master, cores) as job:
        from ordo.pipeline.jobs import sessions as sessions_job

        page = sessions_job.write_report(sessions_job.sessions(_load(job, folders, "log", commit, storage)), report)
    typer.echo(f"report: {page}")


@app.command()
def latency(
    folders: Folders,
    sent: Annotated[str | None, typer.Option(help="where payloads say when they were sent, such as i64@0:ns")] = None,
    report: ReportTo = "latency",
    repeats: RepeatsOption = False,
    commit: Commit = "auto",
    storage: StorageOption = None,
    master: Master = None,
    cores: Cores = None,
) -> None:
    """Percentiles by minute, session and kind."""
    with needing("pipeline"):
        from ordo.pipeline.first_look import look_at_frame
        from ordo.pipeline.jobs import latency as latency_job
    look_at_frame(folders, "log", commit, storage)
    if sent is not None:
        latency_job.SentField.parse(sent)
    with running("latency", master, cores) as job:
        columns = ",".join(latency_job.columns_for(sent, repeats))
        log = _load(job, folders, "log", commit, storage, columns=columns)
        page = latency_job.write_report(log, sent, report, repeats)
    typer.echo(f"report: {page}")


@app.command()
def decode(
    folders: Folders,
    decoder: Annotated[str, typer.Option(help="log, sbe:<xml>, protobuf:<set>:<message> or struct:<format>:<names>")],
    to: Annotated[str, typer.Option(help="folder for the Parquet files")],
    repeats: RepeatsOption = False,
    commit: Commit = "auto",
    storage: StorageOption = None,
    master: Master = None,
    cores: Cores = None,
) -> None:
    """Write messages that were executed, each once, with their payloads in columns as Parquet."""
    with needing("pipeline"):
        from ordo.pipeline.decoding.payloads import MESSAGE_KINDS, parse_decoder
        from ordo.pipeline.first_look import look_at_frame
        from ordo.pipeline.jobs.decode import decode as run
        from ordo.pipeline.schemas.log_schemas import ready
        from ordo.pipeline.spark.executed import describe_unknown
    payloads = parse_decoder(decoder)  # what is wrong with it, or with the schemas, is told of before Spark starts
    payloads = ready(payloads, look_at_frame(folders, "log", commit, storage))
    with running("decode", master, cores) as job:
        log = _load(job, folders, "log", commit, storage, kinds=",".join(MESSAGE_KINDS))
        run(log, payloads, repeats=repeats).write.mode("overwrite").parquet(to)
        written = job.spark.read.parquet(to)
        counts = written.groupBy("message").count().orderBy("message").collect()
        unknown = written.where("is_repeat is null").count()
    for row in counts:
        typer.echo(f"{row['message'] or 'not decoded'}: {row['count']:,}")
    if unknown and not repeats:
        typer.echo(describe_unknown(unknown))
    if counts and all(row["message"] is None for row in counts):
        typer.echo("nothing could be decoded: is it the right decoder? `problem` in the rows says what was wrong")
        raise typer.Exit(EXIT_NOT_CHECKED)


@app.command()
def replay(
    folder: Folder,
    service: ServiceOption,
    baseline: Annotated[str | None, typer.Option(help="the version to compare with, as module:Class")] = None,
    end: Annotated[
        str | None, typer.Option(help="replay up to here: a position, or `snapshot` for the last one")
    ] = None,
    service_id: Annotated[
        int | None, typer.Option(min=0, help="id of the service among several: upgrades of the others change nothing")
    ] = None,
    report: ReportTo = "replay",
    commit: Commit = "auto",
    storage: StorageOption = None,
    master: Master = None,
    cores: Cores = None,
    engine: EngineOption = Engine.AUTO,
) -> None:
    """Run a service over the log again and compare its state at every snapshot, and with a baseline every message.

    Exit status 0: all that was replayed was compared and agrees; 1: it differs; 3: not all of it could be compared.
    """
    with needing("pipeline"):
        from ordo.pipeline.first_look import look_at_services
        from ordo.pipeline.jobs import replay as replay_job
        from ordo.pipeline.recordings.object_store import parse_storage
    options, on_spark = parse_storage(storage), master is not None or cores is not None
    engine = choose_engine(engine, [folder], REPLAY_SPARK_FROM_BYTES, commit=commit, storage=storage, on_spark=on_spark)
    if engine is Engine.LOCAL:
        facts = replay_job.replay(None, folder, service, baseline, commit, end, options, service_id)
    else:
        look_at_services(service, baseline)
        with running("replay", master, cores) as job:
            facts = replay_job.replay(job.spark, folder, service, baseline, commit, end, options, service_id)
    page, said = replay_job.write_report(facts, report), replay_job.describe_status(facts)
    first = facts["first_difference"]
    typer.echo(f"{facts['records']:,} records, {facts['emitted']:,} effects, {facts['snapshots_compared']} snapshots")
    for result in facts["stretches"]:
        if result["verdict"] == "not checked":
            typer.echo(f"not checked: positions {result['start']} to {result['end']}, {result['records']:,} records: "
                       f"{result['reason']}")  # fmt: skip
    if first is not None:
        typer.echo(f"expected={first['expected']} actual={first['actual']}")
        if first["record"] is not None and "message" in first["record"]:
            typer.echo(f"record at position {first['position']}: {first['record']['message']}")
    typer.echo(f"{said}; report: {page}")
    raise typer.Exit({"agrees": 0, "differs": EXIT_FOUND}.get(facts["status"], EXIT_NOT_CHECKED))


@app.command()
def market(
    folder: Folder,
    service: ServiceOption = "ordo.matching.service:MatchingEngine",
    shares: Annotated[int, typer.Option(help="shares of a volume bar")] = 1000,
    report: ReportTo = "market",
    commit: Commit = "auto",
    storage: StorageOption = None,
    master: Master = None,
    cores: Cores = None,
) -> None:
    """Trades, volume bars, spread and depth from a matching engine's log."""
    with needing("pipeline"):
        from ordo.pipeline.first_look import look_at_archives, look_at_services
        from ordo.pipeline.jobs import market as market_job
    look_at_archives([folder], "log", commit, storage)
    look_at_services(service)
    with running("market", master, cores) as job:
        from ordo.pipeline.recordings.object_store import parse_storage

        found = market_job.events(job.spark, folder, service, commit, storage=parse_storage(storage))
        page = market_job.write_report(found, report, shares)
    typer.echo(f"report: {page}")


@app.command()
def query(
    folders: Folders,
    sql: Annotated[str, typer.Option("--sql", help="a SELECT over table log")],
    decoder: Annotated[str | None, typer.Option(help="payloads into columns, as for `decode`")] = None,
    columns: Annotated[str | None, typer.Option(help="columns to read, separated by commas; default all")] = None,
    kinds: Annotated[str | None, typer.Option(help="kinds of record, separated by commas; default all")] = None,
    start_time: Annotated[str | None, typer.Option(help="ISO time, inclusive")] = None,
    end_time: Annotated[str | None, typer.Option(help="ISO time, exclusive")] = None,
    recording: RecordingOption = "log",
    commit: Commit = "auto",
    storage: StorageOption = None,
    output: Annotated[str, typer.Option("--format", help="table, csv or json")] = "table",
) -> None:
    """Ask the log in SQL, without Spark: `--sql "SELECT kind, count(*) FROM log GROUP BY ALL"`."""
    with needing("local"):
        from ordo.pipeline.sql import query as query_job
        from ordo.pipeline.sql.local import read
    if output not in query_job.FORMATS:
        raise PipelineError(f"--format {output!r}: allowed are {', '.join(query_job.FORMATS)}")
    log = read(folders, columns=columns, kinds=kinds, start_time=start_time, end_time=end_time, recording=recording,
               commit=commit, storage_options=storage, decoder=decoder)  # fmt: skip
    with query_job.query(log, sql) as rows:
        query_job.write_rows(rows, output)


@app.command()
def alerts(
    folders: Folders,
    checkpoint: Annotated[str, typer.Option(help="folder that keeps how far was watched")],
    webhook: Annotated[str | None, typer.Option(help="URL that gets each alert as a POST of JSON")] = None,
    gap: Annotated[float | None, typer.Option(help="seconds without a record that are an alert")] = None,
    rate_min: Annotated[float | None, typer.Option(help="messages a second, at least")] = None,
    rate_max: Annotated[float | None, typer.Option(help="messages a second, at most")] = None,
    window: Annotated[float, typer.Option(help="seconds over which rates are taken")] = 10.0,
    terms: Annotated[bool, typer.Option(help="new leadership terms are alerts")] = False,
    states: Annotated[bool, typer.Option(help="compare snapshots of the nodes whose folders are given")] = False,
    start: Annotated[str, typer.Option(help="of a new checkpoint: earliest, latest, a position")] = "latest",
    once: Annotated[bool, typer.Option(help="end at what there is now; exit status 1 with alerts")] = False,
    webhook_timeout: Annotated[float, typer.Option(help="seconds to try to deliver an alert")] = 60.0,
    repeats: RepeatsOption = False,
    commit: Commit = "auto", storage: StorageOption = None, master: Master = None, cores: Cores = None,
) -> None:  # fmt: skip
    """Watch a log while it grows, and call a webhook: gaps in time, rates, leadership terms, members' states."""
    with needing("pipeline"):
        from ordo.pipeline.alerts.alerts import Alert, Rules
        from ordo.pipeline.alerts.webhook import Webhook, tell_alert
        from ordo.pipeline.first_look import look_at_options
        from ordo.pipeline.recordings.object_store import parse_storage
    rules = Rules(None if gap is None else int(gap * 1e6), rate_min, rate_max, int(window * 1e6), terms, repeats)
    if gap is None and not rules.has_rates and not terms and not states:
        raise PipelineError("nothing to watch: give --gap, --rate-min, --rate-max, --terms or --states")
    call = Webhook(webhook, webhook_timeout) if webhook is not None else None
    told: list[str] = []
    options = {"commit": commit, "startingPosition": start}
    if storage is not None:
        options["storageOptions"] = storage
    found = look_at_options(folders, options)
    if states and (found.network is not None or len(found.directories) < 2):
        raise PipelineError("--states compares members: give the archive folders of two or more")
    with running("alerts", master, cores) as job:
        from ordo.pipeline.alerts.state_watch import StateWatch
        from ordo.pipeline.alerts.watch import stream_of, watch

        def tell(alert: Alert) -> None:
            tell_alert(alert, call)
            told.append(alert["id"])

        watched = StateWatch(folders, commit, parse_storage(storage)) if states else None
        watch(stream_of(job.spark, folders, options, rules), checkpoint, rules, tell, watched, once, ",".join(folders))
    raise typer.Exit(EXIT_FOUND if told else 0)


@app.command()
def diff(
    left: Folder,
    right: Annotated[str, typer.Argument(help="archive folder of the other log")],
    compare: Annotated[str, typer.Option(help="columns compared, separated by commas")] = "kind,session_id,payload",
    kinds: Annotated[str | None, typer.Option(help="kinds of record, separated by commas; default all")] = None,
    commit: Commit = "auto",
    storage: StorageOption = None,
) -> None:
    """Compare two logs record by record, such as those of a run and its repetition; exit status 1 when they differ.

    3: there is nothing to compare.
    """
    with needing("local"):
        from ordo.pipeline.jobs import diff as diff_job
        from ordo.pipeline.recordings.recordings import is_copy
        from ordo.pipeline.sql.local import read
    columns = diff_job.checked_columns(compare.split(","))
    wanted = list(dict.fromkeys([*columns, "kind", "position"]))
    logs = [
        read(folder, columns=wanted, kinds=kinds, commit=commit, storage_options=storage if is_copy(folder) else None)
        for folder in (left, right)
    ]
    facts = diff_job.diff(logs[0], logs[1], columns)
    for difference in facts["differences"]:
        typer.echo(diff_job.describe(difference))
    typer.echo(f"{facts['status']}: {facts['left_records']:,} and {facts['right_records']:,} records, "
               f"{facts['differing']:,} differ")  # fmt: skip
    if facts["status"] == "not compared":
        typer.echo("neither log has a record of these kinds")
        raise typer.Exit(EXIT_NOT_CHECKED)
    raise typer.Exit(EXIT_FOUND if facts["differing"] else 0)


@app.command()
def copy(
    folder: Folder,
    to: Annotated[str, typer.Option(help="where, such as s3://bucket/node0")],
    commit: Commit = "auto",
    storage: StorageOption = None,
) -> None:
    """Copy what is closed and new, log and snapshots, to object storage; may be run again at any time."""
    with needing("local"):
        from ordo.pipeline.recordings.object_copy import copy_archive
        from ordo.pipeline.recordings.object_store import Store, parse_storage
    count = length_bytes = 0
    for segment in copy_archive(folder, Store(to.rstrip("/"), parse_storage(storage)), commit):
        count, length_bytes = count + 1, length_bytes + segment.length_bytes
    typer.echo(f"{count} segments copied, {length_bytes:,} bytes")
    if not count:
        typer.echo("nothing new is closed: the segment that is being written is copied when it is full, or was stopped")


@app.command()
def fetch(
    source: Annotated[str, typer.Argument(help="where a copy is, such as s3://bucket/node0")],
    folder: Annotated[str, typer.Argument(help="a new archive folder")],
    storage: StorageOption = None,
) -> None:
    """Make an archive folder of a copy in object storage, checked, for what reads folders."""
    with needing("local"):
        from ordo.pipeline.recordings.object_copy import fetch_archive
        from ordo.pipeline.recordings.object_store import Store, parse_storage
    segments = list(fetch_archive(Store(source.rstrip("/"), parse_storage(storage)), folder))
    typer.echo(f"{len(segments)} segments fetched, {sum(segment.length_bytes for segment in segments):,} bytes")


@app.command()
def index(folders: Folders, recording: RecordingOption = "all", commit: Commit = "recorded") -> None:
    """Build the indexes that let reads skip; reads do so by themselves otherwise.

    Status 1 where a segment is damaged.
    """
    from ordo.pipeline.nodes.node_archives import is_network
    from ordo.pipeline.recordings.index import index_directory, index_of, kept_index
    from ordo.pipeline.recordings.recordings import is_copy, open_recordings

    lacking = 0
    if any(is_copy(folder) or is_network(folder) for folder in folders):
        raise PipelineError("indexes are of archive folders; reads of nodes and of copies in object storage need none")
    for entry in open_recordings(folders, recording, commit):
        segments = list(entry.segments(entry.start))
        indexes = index_of(entry, segments)
        typer.echo(f"{entry.key}: {sum(len(one.blocks) for one in indexes)} blocks")
        for segment, one in zip(segments, indexes, strict=True):
            if one.fault_position >= 0 or not segment.present:
                lacking += 1
                where = f"damaged at position {one.fault_position}" if segment.present else "missing"
                typer.echo(f"{segment.path}: {where}, and has no index; `ordo pipeline audit` says more")
            elif kept_index(entry, segment) is None:
                raise PipelineError(f"indexes cannot be written to {index_directory()}: is it full, or read-only?")
    typer.echo(f"indexes are in {index_directory()}")
    raise typer.Exit(EXIT_FOUND if lacking else 0)


@app.command()
def generate(
    folder: Annotated[str, typer.Argument(help="archive folder to create the log in")],
    messages: Annotated[int, typer.Option(help="how many")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="the same seed gives the same bytes")] = 1,
) -> None:
    """Write a generated log, to size a Spark cluster with."""
    from ordo.pipeline.generate import LogShape, generate_log

    if os.path.isdir(folder) and os.listdir(folder):
        raise PipelineError(f"{folder} is not empty; give a new folder")
    entry = generate_log(folder, LogShape(messages=messages, seed=seed))
    typer.echo(f"recording {entry.recording_id}: {messages:,} messages, {entry.stop_position:,} bytes")
