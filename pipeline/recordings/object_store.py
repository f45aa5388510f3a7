"""Copies of archives in object storage: any file system that fsspec reaches, such as `s3://bucket/node0`.

    <url>/manifest.json          what there is: recordings, and of each segment its length and SHA-256; written last
    <url>/<id>-<start>-<end>.rec the bytes of a recording between two positions, at most one segment file

An object is never written again, so the manifest is right whenever a copy is interrupted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any

from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.cluster.wire.log_identity import Origin, identity_text, parse_identity
from ordo.pipeline.decoding.cursor import MessageCursor
from ordo.pipeline.decoding.errors import MissingLibraryError, PipelineError
from ordo.pipeline.decoding.fetched import fetched_file
from ordo.pipeline.recordings.member_store import SnapshotOwner
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.io.durable_files import make_folder_durably, write_durably

MANIFEST = "manifest.json"
FORMAT = 1
_FETCH_BYTES = 8 << 20


@dataclass(frozen=True)
class StoredSegment:
    """One object: positions [start, start + length_bytes) of its recording; `base` is that of the segment file."""

    name: str
    base: int
    start: int
    length_bytes: int
    sha256: str

    @property
    def end(self) -> int:
        return self.start + self.length_bytes


@dataclass(frozen=True)
class StoredRecording:
    """One recording of a copy; its segments follow one another without a gap."""

    node: str
    descriptor: RecordingDescriptor
    segments: tuple[StoredSegment, ...] = ()
    owner: SnapshotOwner | None = None
    """The owner of a service's snapshot, if known."""

    @property
    def end(self) -> int:
        return self.segments[-1].end if self.segments else self.descriptor.start_position


@dataclass
class Store:
    """A place that fsspec reaches; `options` are those of its file system."""

    url: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            core = import_module("fsspec.core")
        except ModuleNotFoundError as error:
            raise MissingLibraryError("fsspec is not installed; run: pip install 'ordo-sequencer[s3]'") from error
        try:
            self._files, self._root = core.url_to_fs(self.url, **self.options)
        except (ImportError, ValueError) as error:
            raise PipelineError(f"{self.url}: {error}; s3:// needs pip install 'ordo-sequencer[s3]'") from error

    def __reduce__(self) -> tuple[type[Store], tuple[str, Mapping[str, Any]]]:
        return (type(self), (self.url, self.options))

    def put(self, name: str, data: bytes) -> None:
        """Raise PipelineError."""
        try:
            if "file" not in self._files.protocol:
                self._files.pipe_file(f"{self._root}/{name}", data)
                return
            make_folder_durably(self._root)
            write_durably(f"{self._root}/{name}", data)
        except Exception as error:  # whatever the libraries of many providers raise
            raise self._failure(name, "written", error) from error

    def get(self, name: str, start: int | None = None, end: int | None = None) -> bytes:
        """Return the bytes [start, end) of an object. Raises PipelineError."""
        found = self.find(name, start, end)
        if found is None:
            raise PipelineError(f"{self.url}/{name} is gone; the manifest names it")
        return found

    def find(self, name: str, start: int | None = None, end: int | None = None) -> bytes | None:
        """Return bytes as `get` does; None where there is no such object."""
        try:
            return bytes(self._files.cat_file(f"{self._root}/{name}", start=start, end=end))
        except FileNotFoundError:
            return None
        except Exception as error:  # whatever the libraries of many providers raise
            raise self._failure(name, "read", error) from error

    def names(self) -> frozenset[str]:
        """Return the names of all objects there. Raises PipelineError."""
        try:
            return frozenset(path.rpartition("/")[2] for path in self._files.ls(self._root, detail=False))
        except FileNotFoundError:
            return frozenset()
        except Exception as error:  # whatever the libraries of many providers raise
            raise self._failure("", "listed", error) from error

    def _failure(self, name: str, what: str, error: Exception) -> PipelineError:
        return PipelineError(f"{self.url}/{name} could not be {what}: {type(error).__name__}: {error}")

    def manifest(self) -> list[StoredRecording]:
        """Return what the copy has; nothing where there is none.

        Raises PipelineError for one that cannot be understood.
        """
        try:
            return [
                StoredRecording(
                    entry["node"],
                    RecordingDescriptor(**entry["descriptor"]),
                    tuple(StoredSegment(**segment) for segment in entry["segments"]),
                    SnapshotOwner(**entry["owner"]) if "owner" in entry else None,
                )
                for entry in self._content().get("recordings", ())
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise self._no_manifest(error) from error

    def cluster(self) -> Origin | None:
        """Return which cluster's log was copied; None where that was not known, or by an earlier release.

        Raises PipelineError for a manifest that cannot be understood.
        """
        text = self._content().get("cluster")
        try:
            return None if text is None else parse_identity(str(text))
        except ConfigurationError as error:
            raise self._no_manifest(error) from error

    def _content(self) -> dict[str, Any]:
        text = self.find(MANIFEST)
        if text is None:
            return {}
        try:
            content = json.loads(text)
            found = content["format"]
        except (KeyError, TypeError, ValueError) as error:
            raise self._no_manifest(error) from error
        if found != FORMAT:
            raise PipelineError(f"{self.url}: the copy has format {found}, this reads {FORMAT}")
        return dict(content)

    def _no_manifest(self, error: Exception) -> PipelineError:
        return PipelineError(f"{self.url}/{MANIFEST} is no manifest of a copy: {error}")

    def write_manifest(self, recordings: list[StoredRecording], origin: Origin | None = None) -> None:
        """Write what the copy has, and which cluster's log it is of, where that is known. Raises PipelineError."""
        entries = [
            {
                "node": entry.node,
                "descriptor": entry.descriptor._asdict(),
                "segments": [asdict(segment) for segment in entry.segments],
                **({} if entry.owner is None else {"owner": entry.owner._asdict()}),
            }
            for entry in recordings
        ]
        cluster = {} if origin is None else {"cluster": identity_text(origin)}
        self.put(MANIFEST, json.dumps({"format": FORMAT, **cluster, "recordings": entries}, indent=1).encode())


@dataclass(frozen=True)
class ObjectFile:
    """A segment that is an object: the positions of its recording from `start` on."""

    store: Store
    name: str
    start: int

    def cluster(self) -> Origin | None:
        """Return which cluster's log it is of, as the manifest says. Raises PipelineError."""
        return self.store.cluster()

    def cursor(
        self, descriptor: RecordingDescriptor, base: int, start: int, end: int, verify: bool, exact: bool
    ) -> MessageCursor:
        """Messages of [start, end). These bytes are fetched into a file without a name, which is gone with the cursor.

        Raises PipelineError. An object that is not there is a fault of the cursor, as a missing segment file is.
        """
        path = f"{self.store.url}/{self.name}"
        with fetched_file() as file:
            for position in range(start, end, _FETCH_BYTES):
                upto = min(position + _FETCH_BYTES, end)
                found = self.store.find(self.name, position - self.start, upto - self.start)
                if found is None:
                    return MessageCursor(path, descriptor, base, start, end, verify, exact)
                os.pwrite(file.fileno(), found, position - base)
            return MessageCursor(path, descriptor, base, start, end, verify, exact, file.fileno())


def parse_storage(text: str | None) -> dict[str, Any]:
    """Options of a file system, from JSON; None is none. Raises PipelineError."""
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise PipelineError(f"options of the file system, {text!r}: must be a JSON object")
    return found
