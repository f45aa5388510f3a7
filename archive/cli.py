"""`ordo archive ...`: looks into the recordings of a folder, whether or not a node runs on it; serves an archive."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from archive import administration, tools
from archive.catalog import RecordingDescriptor
from runtime.console import output_console
from runtime.credentials import credentials_from_file
from runtime.errors import ChannelError, ConfigurationError, UnknownRecordingError
from runtime.logging import configure_logging, get_logger
from transport.driver.config import default_directory
from transport.secure.settings import Encryption
from transport.uri import parse_size

archive_app = typer.Typer(
    name="archive", help="Look into the recordings of an archive folder, or serve one.", no_args_is_help=True
)
DUMP_LENGTH = 64
DUMP_LINE_LENGTH = 16
DirArgument = Annotated[Path, typer.Argument(metavar="DIR", help="the archive folder: <data_dir>/archive of a node")]
RecordingOption = Annotated[int | None, typer.Option("--recording", min=0, help="only this recording")]


AnyDirArgument = Annotated[
    Path | None, typer.Argument(metavar="[DIR]", help="the archive folder: <data_dir>/archive of a node")
]
EndpointsOption = Annotated[
    str | None,
    typer.Option(help="in place of DIR, from any machine: HOST:PORT,... of archives, as `ordo cluster members` says"),
]
TokenOption = Annotated[Path | None, typer.Option(help="with --endpoints, file with a token that has the role log")]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON")]
REACH_TIMEOUT_S = 5.0


@archive_app.command("list")
def list_recordings(
    directory: AnyDirArgument = None,
    endpoints: EndpointsOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Every recording: positions, stream and channel."""
    for name, recordings in _find_recordings(directory, endpoints, token_file):
        if as_json:
            _print_json(name, recordings)
            continue
        if endpoints is not None:
            print(name)
        output_console().print(_table_of(recordings))


def _table_of(recordings: list[RecordingDescriptor]) -> Table:
    table = Table("id", "stream", "session", "start", "stop", "length", "channel", box=None)
    for found in recordings:
        stop, length = "active", "-"
        if not found.is_active:
            stop, length = f"{found.stop_position:,}", f"{found.stop_position - found.start_position:,}"
        numbers = (str(found.recording_id), str(found.stream_id), str(found.session_id), f"{found.start_position:,}")
        table.add_row(*numbers, stop, length, found.stripped_channel)
    return table


@archive_app.command()
def describe(
    directory: AnyDirArgument = None,
    recording: RecordingOption = None,
    endpoints: EndpointsOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """One line with everything the catalog holds of each recording."""
    for name, found in _find_recordings(directory, endpoints, token_file):
        recordings = [one for one in found if recording in (None, one.recording_id)]
        if not recordings and recording is not None:
            raise UnknownRecordingError(f"recording {recording} is not in {name}")
        if as_json:
            _print_json(name, recordings)
            continue
        for one in recordings:
            print(tools.describe_recording(one) + (f" archive={name}" if endpoints is not None else ""))


def _find_recordings(
    directory: Path | None, endpoints: str | None, token_file: Path | None
) -> Iterator[tuple[str, list[RecordingDescriptor]]]:
    """Recordings by archive: those of a folder, or of archives that are asked one after the other."""
    if (directory is None) == (endpoints is None):
        raise ConfigurationError("give either DIR, the folder of an archive, or --endpoints")
    if directory is not None:
        if token_file is not None:
            raise ConfigurationError("--token-file goes with --endpoints only")
        yield str(directory), tools.list_recordings(_folder(directory))
        return
    from archive.client.client import ArchiveClient
    from archive.client.settings import ArchiveClientSettings

    credentials = b"" if token_file is None else credentials_from_file(token_file)
    for endpoint in [one.strip() for one in (endpoints or "").split(",")]:
        try:
            settings = ArchiveClientSettings.at(endpoint, credentials=credentials, message_timeout_s=REACH_TIMEOUT_S)
        except ChannelError:
            raise ConfigurationError(f"--endpoints {endpoint}: give HOST:PORT of archives, with commas") from None
        with ArchiveClient(settings) as client:
            yield endpoint, client.list_recordings()


def _print_json(archive: str, recordings: list[RecordingDescriptor]) -> None:
    """One line for each archive."""
    rows = [one._asdict() | {"state": one.state.name} for one in recordings]
    print(json.dumps({"archive": archive, "recordings": rows}))


@archive_app.command()
def verify(directory: DirArgument, recording: RecordingOption = None) -> None:
    """Check every frame of every recording; status 1 when one is damaged."""
    folder, damaged = _folder(directory), 0
    for result in tools.verify(folder, recording):
        print(result)
        damaged += not result.is_good
    for orphan in tools.orphaned_segments(folder):
        print(f"segment file of no recording: {orphan}")
    if damaged:
        raise typer.Exit(1)


@archive_app.command()
def dump(
    directory: DirArgument,
    recording: Annotated[int, typer.Argument(min=0, metavar="RECORDING", help="id of the recording")],
    from_position: Annotated[int | None, typer.Option("--from", min=0, help="where a message begins")] = None,
    count: Annotated[int, typer.Option(min=1, help="how many messages at most")] = 100,
    full: Annotated[bool, typer.Option("--full", help="all bytes, not the first 64 of a message")] = False,
) -> None:
    """Print messages of a recording with their positions, in hexadecimal and as text."""
    for message in islice(tools.dump(_folder(directory), recording, from_position), count):
        print(f"message at position={message.start_position} up to {message.position} length={len(message.payload)}")
        shown = message.payload if full else message.payload[:DUMP_LENGTH]
        for offset in range(0, len(shown), DUMP_LINE_LENGTH):
            line = shown[offset : offset + DUMP_LINE_LENGTH]
            text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)
            print(f"  {offset:08x}  {line.hex(' '):<{3 * DUMP_LINE_LENGTH}} {text}")
        if len(shown) < len(message.payload):
            print(f"  ... {len(message.payload) - len(shown)} bytes more")


@archive_app.command("mark-invalid")
def mark_invalid(directory: DirArgument, recording: Annotated[int, typer.Argument(min=0)]) -> None:
    """Distrust a recording: it can be read, but not extended."""
    administration.mark_invalid(_folder(directory), recording)
    print(f"recording {recording} is INVALID now")


@archive_app.command("mark-valid")
def mark_valid(directory: DirArgument, recording: Annotated[int, typer.Argument(min=0)]) -> None:
    """Trust a recording again, once every frame of it was found whole."""
    administration.mark_valid(_folder(directory), recording)
    print(f"recording {recording} is VALID now")


@archive_app.command()
def checksum(directory: DirArgument, recording: RecordingOption = None) -> None:
    """Give frames that Aeron or an early version recorded the checksum that covers their headers too."""
    for recording_id, changed_count in administration.renew_checksums(_folder(directory), recording):
        print(f"recording {recording_id}: {changed_count} frames have a new checksum")


@archive_app.command("delete-orphans")
def delete_orphans(
    directory: DirArgument, yes: Annotated[bool, typer.Option("--yes", help="do not ask first")] = False
) -> None:
    """Delete segment files that belong to no recording, or lie outside its positions."""
    folder = _folder(directory)
    orphans = tools.orphaned_segments(folder)
    if orphans and not yes:
        print("\n".join(orphans))
        typer.confirm(f"delete these {len(orphans)} files?", abort=True)
    for name in administration.delete_orphans(folder) if orphans else ():
        print(f"deleted {name}")
    if not orphans:
        print("no segment file is without its recording")


@archive_app.command()
def compact(directory: DirArgument) -> None:
    """Finish purges that were cut short, and give back what the catalog does not need."""
    done = administration.compact(_folder(directory))
    before, after = done.length_before_bytes, done.length_after_bytes
    print(f"{done.finished_purges} purges finished; the catalog has {after:,} bytes, {before - after:,} less")


@archive_app.command("export-catalog")
def export_catalog(
    directory: DirArgument,
    target: Annotated[Path | None, typer.Argument(metavar="TARGET", help="folder; default DIR itself")] = None,
) -> None:
    """Write Aeron's archive.catalog and archive-mark.dat, so that Aeron's ArchiveTool can read the folder."""
    from archive.export import export_catalog as write_catalog

    count = write_catalog(_folder(directory), None if target is None else _folder(target))
    print(f"{count} recordings are in {(target or directory) / 'archive.catalog'}")


@archive_app.command()
def serve(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="folder of the recordings; made when it is not there")
    ],
    control: Annotated[str, typer.Option(metavar="HOST:PORT", help="where clients reach it")] = "127.0.0.1:8010",
    aeron_dir: Annotated[str, typer.Option(help="folder of its media driver")] = "",
    sync: Annotated[
        str, typer.Option(help="commit: positions count when on disk; none: when in the page cache")
    ] = "commit",
    segment_length: Annotated[str, typer.Option(help="of segment files, such as 64m; a power of two")] = "64m",
    recordings_max: Annotated[int, typer.Option(min=1, max=64, help="recordings at a time")] = 20,
    replays_max: Annotated[int, typer.Option(min=1, max=64, help="replays at a time")] = 20,
    sessions_max: Annotated[int, typer.Option(min=1, help="clients at a time")] = 64,
    key_file: Annotated[str, typer.Option(help="encrypt with this key; `ordo keys new` makes one")] = "",
    trusted_file: Annotated[str, typer.Option(help="the keys of those who may take part (`ordo keys trust`)")] = "",
    tokens_file: Annotated[
        Path | None, typer.Option(help="[[tokens]] of those who may use it, with the roles log, record and delete")
    ] = None,
) -> None:
    """Serve an archive to clients, with a media driver of its own, until SIGTERM or SIGINT."""
    from archive.control.config import ControlConfig
    from archive.server import ArchiveServer, ArchiveServerConfig
    from archive.tokens import load_tokens

    configure_logging()
    log = get_logger()
    config = ArchiveServerConfig(
        str(directory),
        ControlConfig(
            control_channel=f"aeron:udp?endpoint={control}",
            replication_channel=f"aeron:udp?endpoint={control.rpartition(':')[0]}:0",
            recordings_max=recordings_max,
            replays_max=replays_max,
            sessions_max=sessions_max,
        ),
        aeron_dir or default_directory(),
        sync,
        _size(segment_length),
        encryption=Encryption.chosen(key_file, trusted_file),
        authenticator=None if tokens_file is None else load_tokens(tokens_file),
    )
    server = ArchiveServer(config, lambda error: log.warning("archive.error", error=str(error)))
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: server.end())
        log.info("archive.serving", control=control, directory=str(directory), aeron_dir=config.aeron_dir)
        server.run()
    finally:
        server.close()


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise ConfigurationError(f"--segment-length {text}: allowed is {error}") from None


def _folder(directory: Path) -> str:
    if not directory.is_dir():
        raise ConfigurationError(f"archive folder {directory} is not there; give <data_dir>/archive of a node")
    return str(directory)
