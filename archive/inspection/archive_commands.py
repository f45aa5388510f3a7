"""`ordo archive ...`: looks into the recordings of an archive, in its folder or from anywhere; serves an archive."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordo.archive.control.settings import ControlSettings
from ordo.archive.inspection.recording_sources import (
    AnyDirArgument,
    DirArgument,
    EndpointsOption,
    FolderCommand,
    JsonOption,
    OpenArchive,
    Place,
    TokenOption,
    folder_of,
)
from ordo.runtime.errors import ConfigurationError, CorruptFrameError, OrdoError, UnknownRecordingError
from ordo.runtime.reporting.logging import configure_program, get_logger

if TYPE_CHECKING:
    from ordo.archive.inspection.recording_inspection import Verification
    from ordo.archive.inspection.server import ArchiveServerSettings
    from ordo.archive.segments.catalog import RecordingDescriptor
    from ordo.archive.segments.reader import RecordedMessage

archive_app = typer.Typer(
    name="archive", help="Look into the recordings of an archive, or serve one.", no_args_is_help=True
)
DUMP_LENGTH = 64
DUMP_LINE_LENGTH = 16
RecordingOption = Annotated[int | None, typer.Option("--recording", min=0, help="only this recording")]
RecordingArgument = Annotated[int, typer.Argument(min=0)]


def _print_json(**values: object) -> None:
    """Print one line of JSON."""
    print(json.dumps(values))


@archive_app.command("list")
def list_recordings(
    directory: AnyDirArgument = None,
    endpoints: EndpointsOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List every recording: positions, stream and channel."""
    place = Place(directory, endpoints, token_file)
    for archive in place.archives():
        recordings = archive.list_recordings()
        if as_json:
            _print_recordings(archive, recordings)
            continue
        if place.is_remote:
            print(archive.name)
        _show_table(recordings)


def _show_table(recordings: list[RecordingDescriptor]) -> None:
    from ordo.runtime.reporting.terminal import output_console

    output_console().print(make_recordings_table(recordings))


def make_recordings_table(recordings: list[RecordingDescriptor]) -> Any:
    """Print a line for each recording. A channel that does not fit on a terminal is cut: `describe` shows it whole."""
    from ordo.runtime.reporting.terminal import OutputTable

    table = OutputTable(
        "id", "stream", "session", "start", "stop", "length", box=None, pad_edge=False, padding=(0, 1, 0, 0)
    )
    is_cut = sys.stdout.isatty()
    table.add_column("channel", no_wrap=is_cut, overflow="ellipsis" if is_cut else "fold")
    for found in recordings:
        stop, length = "active", "-"
        if not found.is_active:
            stop, length = f"{found.stop_position:,}", f"{found.stop_position - found.start_position:,}"
        numbers = (str(found.recording_id), str(found.stream_id), str(found.session_id), f"{found.start_position:,}")
        table.add_row(*numbers, stop, length, found.stripped_channel)
    return table


def _print_recordings(archive: OpenArchive, recordings: list[RecordingDescriptor]) -> None:
    rows = [one._asdict() | {"state": one.state.name} for one in recordings]
    _print_json(archive=archive.name, recordings=rows)


@archive_app.command()
def describe(
    directory: AnyDirArgument = None,
    recording: RecordingOption = None,
    endpoints: EndpointsOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print one line with everything the catalog holds for each recording."""
    from ordo.archive.inspection import recording_inspection

    place = Place(directory, endpoints, token_file)
    for archive in place.archives():
        recordings = [one for one in archive.list_recordings() if recording in (None, one.recording_id)]
        if not recordings and recording is not None:
            raise UnknownRecordingError(f"recording {recording} is not in {archive.name}")
        if as_json:
            _print_recordings(archive, recordings)
            continue
        for one in recordings:
            print(
                recording_inspection.describe_recording(one) + (f" archive={archive.name}" if place.is_remote else "")
            )


@archive_app.command()
def verify(
    directory: AnyDirArgument = None,
    recording: RecordingOption = None,
    endpoints: EndpointsOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check every frame of every recording; status 1 when one is damaged.

    With --endpoints the archives check: each sends its recordings, to be thrown away here.
    """
    place, damaged = Place(directory, endpoints, token_file), 0
    try:
        for archive in place.archives():
            if place.is_remote and not as_json:
                print(archive.name)
            damaged += _verify(archive, recording, as_json)
    except OrdoError as error:
        if not damaged:
            raise
        print(f"ordo: {error.message}", file=sys.stderr)
    if damaged:
        raise typer.Exit(1)


def _verify(archive: OpenArchive, recording: int | None, as_json: bool) -> int:
    """Print the results and return how many recordings are damaged.

    As JSON it is one line for all, otherwise one for each as soon as it is known.
    """
    results = []
    for result in archive.verify(recording):
        results.append(result)
        if not as_json:
            print(result, flush=True)
    orphans = archive.orphans()
    if as_json:
        _print_json(archive=archive.name, recordings=[_row_of(one) for one in results], orphans=orphans)
    else:
        if not results:
            print("no recordings: nothing was checked")
        for orphan in orphans or ():
            print(f"segment file of no recording: {orphan}")
    return sum(not one.is_good for one in results)


def _row_of(result: Verification) -> dict[str, Any]:
    damage, values = result.damage, result._asdict()
    values["damage"] = None if damage is None else damage.message
    values["damaged_at"] = damage.position if isinstance(damage, CorruptFrameError) else None
    return {"is_good": result.is_good, **values}


@archive_app.command()
def dump(
    words: Annotated[
        list[str],
        typer.Argument(metavar="[DIR] RECORDING", help="the archive folder, without --endpoints; id of the recording"),
    ],
    from_position: Annotated[int | None, typer.Option("--from", min=0, help="where a message begins")] = None,
    count: Annotated[int, typer.Option(min=1, help="how many messages at most")] = 100,
    full: Annotated[bool, typer.Option("--full", help="all bytes, not the first 64 of a message")] = False,
    endpoints: EndpointsOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print messages of a recording with their positions, in hexadecimal and as text."""
    *folders, number = words
    if len(folders) > 1 or not number.isdecimal():
        raise ConfigurationError(f"{' '.join(words)}: give DIR and the id of a recording, or --endpoints and the id")
    place = Place(Path(folders[0]) if folders else None, endpoints, token_file)
    for archive in place.archives():
        if place.is_remote and not as_json:
            print(archive.name)
        for message in archive.dump(int(number), from_position, count):
            shown = message.payload if full else message.payload[:DUMP_LENGTH]
            if as_json:
                where = {"start_position": message.start_position, "position": message.position}
                length = len(message.payload)
                _print_json(archive=archive.name, **where, length_bytes=length, payload_hex=shown.hex())
            else:
                _print_message(message, shown)


def _print_message(message: RecordedMessage, shown: bytes) -> None:
    print(f"message at position={message.start_position} up to {message.position} length={len(message.payload)}")
    for offset in range(0, len(shown), DUMP_LINE_LENGTH):
        line = shown[offset : offset + DUMP_LINE_LENGTH]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)
        print(f"  {offset:08x}  {line.hex(' '):<{3 * DUMP_LINE_LENGTH}} {text}")
    if len(shown) < len(message.payload):
        print(f"  ... {len(message.payload) - len(shown)} bytes more")


@archive_app.command("mark-invalid", cls=FolderCommand)
def mark_invalid(directory: DirArgument, recording: RecordingArgument, as_json: JsonOption = False) -> None:
    """Distrust a recording: it can be read, but not extended."""
    from ordo.archive.inspection import administration

    administration.mark_invalid(folder_of(directory), recording)
    _tell_state(directory, recording, "INVALID", as_json)


@archive_app.command("mark-valid", cls=FolderCommand)
def mark_valid(directory: DirArgument, recording: RecordingArgument, as_json: JsonOption = False) -> None:
    """Trust a recording again, once every frame of it was found whole."""
    from ordo.archive.inspection import administration

    administration.mark_valid(folder_of(directory), recording)
    _tell_state(directory, recording, "VALID", as_json)


def _tell_state(directory: Path, recording: int, state: str, as_json: bool) -> None:
    if as_json:
        _print_json(archive=str(directory), recording_id=recording, state=state)
    else:
        print(f"recording {recording} is {state} now")


@archive_app.command(cls=FolderCommand)
def checksum(directory: DirArgument, recording: RecordingOption = None, as_json: JsonOption = False) -> None:
    """Give frames that Aeron or an early version recorded the checksum that covers their headers too."""
    from ordo.archive.inspection import administration

    found = administration.renew_checksums(folder_of(directory), recording)
    if as_json:
        rows = [{"recording_id": recording_id, "frame_count": count} for recording_id, count in found]
        _print_json(archive=str(directory), recordings=rows)
        return
    for recording_id, changed_count in found:
        print(f"recording {recording_id}: {changed_count} frames have a new checksum")


@archive_app.command("delete-orphans", cls=FolderCommand)
def delete_orphans(
    directory: DirArgument,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask first")] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete segment files that belong to no recording, or lie outside its positions."""
    from ordo.archive.inspection import administration, recording_inspection

    if as_json and not yes:
        raise ConfigurationError("--json goes with --yes only: nobody could be asked")
    folder = folder_of(directory)
    orphans = recording_inspection.orphaned_segments(folder)
    if orphans and not yes:
        print("\n".join(orphans))
        typer.confirm(f"delete these {len(orphans)} files?", abort=True)
    deleted = administration.delete_orphans(folder) if orphans else []
    if as_json:
        _print_json(archive=str(directory), deleted=deleted)
        return
    for name in deleted:
        print(f"deleted {name}")
    if not orphans:
        print("no segment file is without its recording")


@archive_app.command(cls=FolderCommand)
def compact(directory: DirArgument, as_json: JsonOption = False) -> None:
    """Finish interrupted purges, and free the unused space of the catalog."""
    from ordo.archive.inspection import administration

    done = administration.compact(folder_of(directory))
    if as_json:
        _print_json(archive=str(directory), **done._asdict())
        return
    before, after = done.length_before_bytes, done.length_after_bytes
    print(f"{done.finished_purges} purges finished; the catalog has {after:,} bytes, {before - after:,} less")


@archive_app.command()
def migrate(
    source: Annotated[int, typer.Option("--from", min=0, help="the recording that is emptied; it is stopped")],
    target: Annotated[
        int, typer.Option("--to", min=0, help="the recording that begins where that one ends, or ends there")
    ],
    directory: AnyDirArgument = None,
    endpoints: EndpointsOption = None,
    token_file: Annotated[
        Path | None, typer.Option(help="with --endpoints, file with a token that has the role delete")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Join two recordings of one stream that meet at a base position: the segments of one become the other's."""
    place = Place(directory, endpoints, token_file)
    place.check_one()
    for archive in place.archives():
        count = archive.migrate(source, target)
        if as_json:
            _print_json(archive=archive.name, source=source, target=target, segments=count)
        else:
            print(f"{count} segments of recording {source} belong to recording {target} now")


@archive_app.command("export-catalog", cls=FolderCommand)
def export_catalog(
    directory: DirArgument,
    target: Annotated[Path | None, typer.Argument(metavar="TARGET", help="folder; default DIR itself")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write Aeron's archive.catalog and archive-mark.dat, so that Aeron's ArchiveTool can read the folder."""
    from ordo.archive.inspection.export import export_catalog as write_catalog

    count = write_catalog(folder_of(directory), None if target is None else folder_of(target))
    path = (target or directory) / "archive.catalog"
    if as_json:
        _print_json(archive=str(directory), path=str(path), recording_count=count)
    else:
        print(f"{count} recordings are in {path}")


ServedSync = Annotated[str, typer.Option(help="commit: positions count when on disk; none: when in the page cache")]
RecordingsMax = Annotated[int, typer.Option(min=1, max=64, help="recordings at a time")]
EventsChannel = Annotated[
    str, typer.Option(metavar="CHANNEL", help="tell of recordings there, on stream 30, as Aeron's archives do")
]
OwnDriver = Annotated[
    bool,
    typer.Option("--own-driver/--no-own-driver", help="run a driver, or use the one that runs in --aeron-dir"),
]
TokensFile = Annotated[
    Path | None, typer.Option(help="[[tokens]] of those who may use it, with the roles log, record and delete")
]


@archive_app.command()
def serve(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="folder of the recordings; made when it is not there")
    ],
    control: Annotated[str, typer.Option(metavar="HOST:PORT", help="where clients reach it")] = "127.0.0.1:8010",
    aeron_dir: Annotated[str, typer.Option(help="folder of its media driver")] = "",
    own_driver: OwnDriver = True,
    sync: ServedSync = "commit",
    segment_length: Annotated[str, typer.Option(help="of segment files, such as 64m; a power of two")] = "64m",
    recordings_max: RecordingsMax = ControlSettings.recordings_max,
    replays_max: Annotated[int, typer.Option(min=1, max=64, help="replays at a time")] = ControlSettings.replays_max,
    sessions_max: Annotated[int, typer.Option(min=1, help="clients at a time")] = ControlSettings.sessions_max,
    events: EventsChannel = "",
    key_file: Annotated[str, typer.Option(help="encrypt with this key; `ordo keys new` makes one")] = "",
    trusted_file: Annotated[str, typer.Option(help="the keys of those who may take part (`ordo keys trust`)")] = "",
    tokens_file: TokensFile = None,
) -> None:
    """Serve an archive to clients until SIGTERM or SIGINT, with a media driver of its own unless one runs."""
    from ordo.archive.inspection.server import ArchiveServerSettings
    from ordo.archive.inspection.tokens import load_tokens
    from ordo.transport.driver.channels.settings import default_directory
    from ordo.transport.secure.settings import Encryption

    configure_program()
    if not own_driver and (key_file or trusted_file):
        raise ConfigurationError("--no-own-driver with --key-file: it is the driver that encrypts, give it the keys")
    config = ArchiveServerSettings(
        str(directory),
        ControlSettings(
            control_channel=f"aeron:udp?endpoint={control}",
            replication_channel=f"aeron:udp?endpoint={control.rpartition(':')[0]}:0",
            recordings_max=recordings_max,
            replays_max=replays_max,
            sessions_max=sessions_max,
        ),
        aeron_dir or default_directory(),
        own_driver,
        sync=sync,
        segment_length_bytes=_size(segment_length),
        events_channel=events,
        encryption=Encryption.chosen(key_file, trusted_file) if own_driver else Encryption(),
        authenticator=None if tokens_file is None else load_tokens(tokens_file),
    )
    _run_server(config, control)


def _run_server(config: ArchiveServerSettings, control: str) -> None:
    from ordo.archive.inspection.server import ArchiveServer

    log = get_logger()
    server = ArchiveServer(config, lambda error: log.warning("archive.error", error=str(error)))
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: server.end())
        log.info("archive.serving", control=control, directory=config.directory, aeron_dir=config.aeron_dir)
        server.run()
    finally:
        server.close()


def _size(text: str) -> int:
    from ordo.transport.uri import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise ConfigurationError(f"--segment-length {text}: allowed is {error}") from None
