"""Errors of the pipeline.

OrdoError
 +-- PipelineError              what the caller can put right: options, folders, schemas
      +-- MissingLibraryError    a library of an extra is not installed
      +-- VersionChangesError    a replay would execute a stretch with code of another version
      +-- CorruptRecordingError  bytes on disk that cannot be what was recorded
      +-- CommitUnknownError     nothing near a log tells how far it is committed, or not yet
      +-- DataLossError          a stream cannot go on where it ended
"""

from __future__ import annotations

import re

from ordo.runtime.errors import OrdoError, OtherClusterError


class PipelineError(OrdoError):
    """A wrong option, a missing folder or recording, a schema that does not fit. The message says what is allowed."""


class MissingLibraryError(PipelineError):
    """A library is not installed that only this takes. The message says which extra has it."""


class CommitUnknownError(PipelineError):
    """The counters file of the log's node is not there, or not ready: the node is down, or it is elsewhere."""


class DataLossError(PipelineError):
    """The folders do not have the log that a stream's checkpoint names."""


class VersionChangesError(PipelineError):
    """The service was upgraded within the part of the log that one class is to execute."""

    def __init__(self, position: int, version: str) -> None:
        super().__init__(
            f"version {version} of the service came into force at position {position}: one class cannot execute what"
            f" lies before and behind it; replay up to there (--end {position}), and from a snapshot behind it"
        )
        self.position, self.version = position, version

    def __reduce__(self) -> tuple[type[VersionChangesError], tuple[int, str]]:
        return (type(self), (self.position, self.version))


class CorruptRecordingError(PipelineError):
    """A segment file has invalid data at `position`."""

    def __init__(self, message: str, path: str = "", position: int = -1, fault: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.position = position
        self.fault = fault

    @classmethod
    def of(cls, path: str, position: int, fault: str, expected: int, actual: int) -> CorruptRecordingError:
        detail = "" if expected == actual else f" expected={expected} actual={actual}"
        return cls(
            f"damaged segment: fault={fault} position={position} file={path}{detail}; run `ordo pipeline audit` over "
            f"all nodes' folders to see what can be taken from a peer",
            path,
            position,
            fault,
        )

    def __reduce__(self) -> tuple[type[CorruptRecordingError], tuple[str, str, int, str]]:
        return (type(self), (str(self), self.path, self.position, self.fault))


def one_line(error: Exception) -> str:
    """Return what a library says in one line, whatever it is laid out in."""
    return " ".join(str(error).split())


_OWN = re.compile(r"^ordo\.[\w.]*?(\w+Error): (.+)$", re.MULTILINE)


def own_error(error: Exception) -> OrdoError | None:
    """Return Ordo's own error that a library (Spark, DuckDB, delta-rs) put into its text; None where it did not."""
    found = _OWN.findall(str(error))
    if not found:
        return None
    name, text = found[-1]
    if name == OtherClusterError.__name__:
        return OtherClusterError(text)
    return CorruptRecordingError(text) if name == CorruptRecordingError.__name__ else PipelineError(text)
