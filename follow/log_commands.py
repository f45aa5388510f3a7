"""`ordo log`: the committed log of a cluster, from anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ordo.follow.beginnings import AtSequence, AtTime, Beginning
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.log_schemas import LogSchemas, logged_in, schemas_of, schemas_of_folder
from ordo.follow.reader import LogReader
from ordo.follow.stopped_log import read_stopped_log
from ordo.runtime.errors import ClusterTimeoutError, ConfigurationError, MessageError
from ordo.runtime.reporting.output import printable
from ordo.runtime.security.credentials import credentials_from_file
from ordo.runtime.settings.dates import parse_time

PAYLOAD_LENGTH_MAX = 60


def log(
    addresses: Annotated[
        list[str],
        typer.Argument(metavar="HOST:PORT...|FOLDER", help="archive endpoints of the members, or a stopped archive"),
    ],
    from_position: Annotated[str, typer.Option("--from", help="a position in bytes, a cluster time, or live")] = "0",
    from_sequence: Annotated[
        int | None, typer.Option(min=1, help="begin with the message of this number, and print numbers")
    ] = None,
    until: Annotated[int | None, typer.Option(min=0, help="stop at this position")] = None,
    timeout: Annotated[float | None, typer.Option(min=0, help="stop after this many seconds without an entry")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="only these kinds; may be repeated")] = None,
    repeats: Annotated[
        bool, typer.Option("--repeats", help="also copies of requests that are not executed, marked as repeats")
    ] = False,
    decode: Annotated[
        bool, typer.Option("--decode", help="print messages as the schemas say that the log has for them")
    ] = False,
    token_file: Annotated[Path | None, typer.Option(help="file with a token of the role log")] = None,
) -> None:
    """Print the committed log, one line per entry, until interrupted or until the options end it.

    Requests that were sent again are printed once. Begun in the middle of the log, it first finds out which of them
    were executed before; with --repeats it does not, and prints `repeat=unknown` there. For the numbers of messages it
    reads the log from the snapshot before.

    With --decode, messages are printed as the schemas say that the log has for them: those of typed services. Where
    several services have a schema of the message's id and read it differently, what each reads is printed.

    Of the folder of an archive that nobody serves, it prints all that is there, committed or not, without numbers; what
    `ordo standby rejoin` has kept is one.

    Exit status with --timeout: 1 if in the end no member served it.
    """
    if len(addresses) == 1 and Path(addresses[0]).is_dir():
        folder = Path(addresses[0])
        known = schemas_of_folder(folder) if decode else LogSchemas()
        _print_folder(folder, _beginning(from_position, from_sequence), until, _kinds(kind), known)
        return
    credentials = b"" if token_file is None else credentials_from_file(token_file)
    schemas = schemas_of(addresses, credentials=credentials) if decode else LogSchemas()
    kinds = _kinds(kind)
    with LogReader(
        addresses,
        from_position=_beginning(from_position, from_sequence),
        kinds=[*kinds, EntryKind.SCHEMA] if kinds and decode else kinds,
        repeats=repeats,
        credentials=credentials,
    ) as reader:
        for entry in reader.entries(until_position=until, timeout_s=timeout):
            if decode:
                schemas.note(entry)
                if kinds and entry.kind not in kinds:
                    continue
            print(describe_entry(entry, schemas), flush=True)
        if timeout is not None and reader.source is None:
            why = f": {reader.problem}" if reader.problem else ""
            raise ClusterTimeoutError(f"no member served its log within {timeout:g} s{why}")


def _print_folder(
    folder: Path, begin: Beginning, until: int | None, kinds: list[EntryKind] | None, schemas: LogSchemas
) -> None:
    if not isinstance(begin, int):
        raise ConfigurationError("--from, --from-sequence: in a folder only a position can be begun at")
    for entry in read_stopped_log(folder, begin, until_position=until, kinds=kinds):
        print(describe_entry(entry, schemas))


def describe_entry(entry: LogEntry, schemas: LogSchemas | None = None) -> str:
    """Return one stable line for an entry, its payload as an object where one of `schemas` has it."""
    head = f"{entry.position} {entry.kind.value} time={entry.timestamp} term={entry.leadership_term_id}"
    if entry.sequence:
        head += f" sequence={entry.sequence}"
    if entry.arrival_ns is not None:
        head += f" arrival={entry.arrival_ns}"
    if entry.kind in (EntryKind.REQUEST, EntryKind.OUTPUT):
        head += f" number={entry.request_number}"
        if entry.is_repeat is not False:
            head += f" repeat={'yes' if entry.is_repeat else 'unknown'}"
    if entry.kind is EntryKind.OUTPUT:
        head += f" input={entry.values.input_position}/{entry.values.output_index}"
    if entry.kind in (EntryKind.MESSAGE, EntryKind.REQUEST, EntryKind.OUTPUT):
        more = "" if len(entry.payload) <= PAYLOAD_LENGTH_MAX else "..."
        head += f" session={entry.session_id} length={len(entry.payload)}"
        if schemas is not None and (said := describe_message(schemas.decode(entry.payload, entry.position))):
            return printable(f"{head} {said}")
        return f"{head} {entry.payload[:PAYLOAD_LENGTH_MAX]!r}{more}"
    known = {"timestamp", "leadership_term_id"}
    if entry.kind is EntryKind.SCHEMA:
        return printable(f"{head} {_describe_schema(entry)}")
    fields = [f"{name}={value}" for name, value in entry.values._asdict().items() if name not in known]
    return printable(" ".join([head, *fields]))


def describe_message(found: dict[int, object]) -> str:
    """Return the object that a message is; where services read it differently, that of each. Empty: it is none."""
    said = {service_id: repr(one) for service_id, one in found.items()}
    if len(set(said.values())) <= 1:
        return next(iter(said.values()), "")
    return " or ".join(f"service_id={service_id} {one}" for service_id, one in said.items())


def _describe_schema(entry: LogEntry) -> str:
    logged = logged_in(entry)
    said = f"service_id={logged.service_id} member_id={entry.values.member_id} digest={logged.digest.hex()}"
    try:
        schema = logged.schema
    except MessageError as error:
        return f"{said} {error.message}"
    names = ",".join(one.__name__ for one in schema.messages)
    return f"{said} schema_id={schema.id} version={schema.version} name={schema.name} messages={names}"


def _beginning(text: str, sequence: int | None) -> Beginning:
    if sequence is not None:
        if text != "0":
            raise ConfigurationError("give --from or --from-sequence, not both")
        return AtSequence(sequence)
    if text == "live":
        return "live"
    if text.isascii() and text.isdecimal():
        return int(text)
    timestamp = parse_time(text)
    if timestamp is None:
        raise ConfigurationError(
            f"--from {text}: allowed is a position of 0 or more, a cluster time such as 2026-03-01T12:00:00Z (with its "
            "offset) or 1772366400000ms (us, ns), or live"
        )
    return AtTime(timestamp)


def _kinds(names: list[str] | None) -> list[EntryKind] | None:
    if not names:
        return None
    allowed = [kind.value for kind in EntryKind]
    for name in names:
        if name not in allowed:
            raise ConfigurationError(f"--kind {name}: allowed is {', '.join(allowed)}")
    return [EntryKind(name) for name in names]
