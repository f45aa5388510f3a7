"""The ways in which `ordo archive` reaches recordings: in an archive's folder, or over the network."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer
from typer.core import TyperCommand

from ordo.runtime.errors import ChannelError, ConfigurationError, OrdoError

if TYPE_CHECKING:
    from ordo.archive.client.client import ArchiveClient
    from ordo.archive.inspection.recording_inspection import Verification
    from ordo.archive.segments.catalog import RecordingDescriptor
    from ordo.archive.segments.reader import RecordedMessage

REACH_TIMEOUT_S = 5.0

DirArgument = Annotated[Path, typer.Argument(metavar="DIR", help="the archive folder: <data_dir>/archive of a node")]
AnyDirArgument = Annotated[
    Path | None, typer.Argument(metavar="[DIR]", help="the archive folder: <data_dir>/archive of a node")
]
EndpointsOption = Annotated[
    str | None,
    typer.Option(help="in place of DIR, from any machine: HOST:PORT,... of archives, as `ordo cluster members` says"),
]
TokenOption = Annotated[Path | None, typer.Option(help="with --endpoints, file with a token that has the role log")]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON")]


class FolderCommand(TyperCommand):
    """A command that needs the files themselves, and refuses --endpoints with a reason."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any(one.partition("=")[0] == "--endpoints" for one in args):
            raise ConfigurationError(
                f"ordo archive {self.name} has no --endpoints: it works on the files of an archive; run it on their"
                " machine and give DIR"
            )
        return super().parse_args(ctx, args)


class OpenArchive(Protocol):
    """An archive that can be looked into. Raises OrdoError."""

    name: str
    """The archive's folder or its address."""

    def list_recordings(self) -> list[RecordingDescriptor]: ...

    def verify(self, recording_id: int | None) -> Iterator[Verification]: ...

    def dump(self, recording_id: int, from_position: int | None, count: int) -> Iterator[RecordedMessage]: ...

    def orphans(self) -> list[str] | None:
        """Return the segment files of no recording; None if that cannot be seen."""

    def migrate(self, source_id: int, target_id: int) -> int:
        """Give the segment files of one recording to another; return how many."""


class FolderArchive:
    """The archive in a folder of this machine."""

    def __init__(self, folder: str) -> None:
        from ordo.archive.inspection import administration, recording_inspection

        self.name = folder
        self._tools, self._administration = recording_inspection, administration

    def list_recordings(self) -> list[RecordingDescriptor]:
        return self._tools.list_recordings(self.name)

    def verify(self, recording_id: int | None) -> Iterator[Verification]:
        return self._tools.verify(self.name, recording_id)

    def dump(self, recording_id: int, from_position: int | None, count: int) -> Iterator[RecordedMessage]:
        return islice(self._tools.dump(self.name, recording_id, from_position), count)

    def orphans(self) -> list[str] | None:
        return self._tools.orphaned_segments(self.name)

    def migrate(self, source_id: int, target_id: int) -> int:
        return self._administration.migrate(self.name, source_id, target_id)


class RemoteArchive:
    """An archive elsewhere, of a node or one that is served alone."""

    def __init__(self, name: str, client: ArchiveClient) -> None:
        self.name = name
        self._client = client

    def list_recordings(self) -> list[RecordingDescriptor]:
        return self._client.list_recordings()

    def verify(self, recording_id: int | None) -> Iterator[Verification]:
        from ordo.archive.inspection import remote_recordings

        return remote_recordings.verify(self._client, recording_id)

    def dump(self, recording_id: int, from_position: int | None, count: int) -> Iterator[RecordedMessage]:
        """End the replay when enough has come."""
        from ordo.archive.inspection import remote_recordings

        with closing(remote_recordings.dump(self._client, recording_id, from_position)) as messages:
            yield from islice(messages, count)

    def orphans(self) -> list[str] | None:
        return None

    def migrate(self, source_id: int, target_id: int) -> int:
        return self._client.migrate_segments(source_id, target_id)


@dataclass(frozen=True)
class Place:
    """The options that say where to look. Raises ConfigurationError unless they name one place."""

    directory: Path | None
    endpoints: str | None
    token_file: Path | None

    def __post_init__(self) -> None:
        if (self.directory is None) == (self.endpoints is None):
            raise ConfigurationError("give either DIR, the folder of an archive, or --endpoints")
        if self.endpoints is None and self.token_file is not None:
            raise ConfigurationError("--token-file goes with --endpoints only")

    def check_one(self) -> None:
        """Raise ConfigurationError where several archives are named and one is to be changed."""
        if "," in (self.endpoints or ""):
            raise ConfigurationError(
                f"--endpoints {self.endpoints}: give one archive; others number their recordings alone"
            )

    @property
    def is_remote(self) -> bool:
        return self.endpoints is not None

    def archives(self) -> Iterator[OpenArchive]:
        """Yield the archives one after the other.

        One that cannot be reached does not keep the others from being asked: the last such error is raised in
        the end, and those before it are printed.
        """
        if self.directory is not None:
            yield FolderArchive(folder_of(self.directory))
            return
        from ordo.archive.client.client import ArchiveClient
        from ordo.archive.client.settings import ArchiveClientSettings
        from ordo.runtime.security.credentials import credentials_from_file

        credentials = b"" if self.token_file is None else credentials_from_file(self.token_file)
        places = []
        for endpoint in [one.strip() for one in (self.endpoints or "").split(",")]:
            try:
                timeout_s = REACH_TIMEOUT_S
                made = ArchiveClientSettings.at(endpoint, credentials=credentials, message_timeout_s=timeout_s)
            except ChannelError:
                raise ConfigurationError(f"--endpoints {endpoint}: give HOST:PORT of archives, with commas") from None
            places.append((endpoint, made))
        failures: list[OrdoError] = []
        for endpoint, settings in places:
            try:
                client = ArchiveClient(settings)
            except OrdoError as error:
                failures.append(error)
                continue
            with client:
                yield RemoteArchive(endpoint, client)
        for failure in failures[:-1]:
            print(f"ordo: {failure.message}", file=sys.stderr)
        if failures:
            raise failures[-1]


def folder_of(directory: Path) -> str:
    """Return the path of an existing folder. Raises ConfigurationError."""
    if not directory.is_dir():
        raise ConfigurationError(f"archive folder {directory} is not there; give <data_dir>/archive of a node")
    return str(directory)
