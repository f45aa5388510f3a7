"""Errors of a command line that are found before Spark is started for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ordo.pipeline.recordings.object_store import parse_storage
from ordo.pipeline.recordings.options import ReadSettings
from ordo.pipeline.recordings.recordings import open_recordings
from ordo.pipeline.replaying.service_names import make_service


def look_at_archives(folders: Sequence[str], recording: str, commit: str, storage: str | None) -> None:
    """Raise what opening these archives, or copies of them, raises; read their catalogs only."""
    open_recordings(list(folders), recording, commit, storage=parse_storage(storage))


def look_at_frame(folders: Sequence[str], recording: str, commit: str, storage: str | None) -> ReadSettings:
    """Return the options of a data frame of these folders, patterns or addresses.

    Raises what the frame would raise; nodes are not asked yet.
    """
    given = {"recording": recording, "commit": commit}
    options = look_at_options(folders, given if storage is None else {**given, "storageOptions": storage})
    if options.network is None:
        options.open_recordings()
    return options


def look_at_options(folders: Sequence[str], options: Mapping[str, str]) -> ReadSettings:
    """Raise PipelineError for folders that are not there, and for options that do not fit; open nothing."""
    return ReadSettings.parse({"paths": json.dumps(list(folders)), **options})


def look_at_services(*names: str | None) -> None:
    """Raise PipelineError when one of these classes, `module:Class`, cannot be loaded."""
    for name in names:
        if name is not None:
            make_service(name)
