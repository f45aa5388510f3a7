"""Stands in for Aeron's archive beside a driver that runs: takes its arguments, and serves Ordo's archive.

A setting is one of Aeron's names: `-Daeron.archive.dir=...`, a line of a file of properties, or `AERON_ARCHIVE_DIR` in
the environment. The first line on standard output is `ready` and the archive's id, or why it does not start.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ordo.archive.control.settings import ControlSettings
from ordo.archive.inspection.server import ArchiveServer, ArchiveServerSettings
from ordo.runtime.errors import ConfigurationError, OrdoError
from tools.aeronmd import Rule, duration_ns, given, size_bytes

PREFIX = "ARCHIVE_"
USAGE_STATUS = 2
CONTROL: dict[str, Rule] = {
    "CONTROL_CHANNEL": ("control_channel", str),
    "CONTROL_STREAM_ID": ("control_stream_id", int),
    "LOCAL_CONTROL_CHANNEL": ("local_control_channel", str),
    "LOCAL_CONTROL_STREAM_ID": ("local_control_stream_id", int),
    "REPLICATION_CHANNEL": ("replication_channel", str),
    "MAX_CONCURRENT_RECORDINGS": ("recordings_max", int),
    "MAX_CONCURRENT_REPLAYS": ("replays_max", int),
    "CONNECT_TIMEOUT": ("connect_timeout_ns", duration_ns),
    "SESSION_LIVENESS_CHECK_INTERVAL": ("ping_interval_ns", duration_ns),
}
ARCHIVE: dict[str, Rule] = {
    "DIR": ("directory", str),
    "ID": ("archive_id", int),
    "FILE_SYNC_LEVEL": ("sync", lambda text: "commit" if int(text) else "none"),
    "SEGMENT_FILE_LENGTH": ("segment_length_bytes", size_bytes),
    "LOW_STORAGE_SPACE_THRESHOLD": ("low_space_bytes", size_bytes),
    "RECORDING_EVENTS_CHANNEL": ("events_channel", str),
    "RECORDING_EVENTS_STREAM_ID": ("events_stream_id", int),
}
"""Aeron's names without their prefix, Ordo's fields, and how a value is read."""


def fields_of(values: Mapping[str, str], rules: Mapping[str, Rule]) -> dict[str, Any]:
    """Return the fields that are set. Raises ConfigurationError for a value that cannot be read."""
    found = {}
    for name, (field, read) in rules.items():
        text = values.get(PREFIX + name)
        if text is not None:
            try:
                found[field] = read(text)
            except ValueError as error:
                raise ConfigurationError(f"AERON_{PREFIX}{name}={text}: {error}") from None
    return found


def archive_settings(values: Mapping[str, str]) -> ArchiveServerSettings:
    """Return an archive's settings. Raises ConfigurationError for what Ordo's archive could not do."""
    known = {"DIR", *(PREFIX + name for name in (*CONTROL, *ARCHIVE))}
    for name in sorted(values):
        if name.startswith(PREFIX) and name not in known:
            raise ConfigurationError(f"AERON_{name}={values[name]}: Ordo's archive has no such thing: leave it out")
    if missing := [name for name in ("DIR", "ARCHIVE_DIR") if name not in values]:
        raise ConfigurationError(f"AERON_{missing[0]} is not set: name the folders of the driver and of the archive")
    return ArchiveServerSettings(
        control=ControlSettings(**fields_of(values, CONTROL)),
        aeron_dir=values["DIR"],
        own_driver=False,
        **fields_of(values, ARCHIVE),
    )


def serve(settings: ArchiveServerSettings, say: Callable[[str], object]) -> None:
    """Serve until SIGTERM or SIGINT; errors of clients are told on standard error. Raises OrdoError subclasses."""
    server = ArchiveServer(settings, lambda error: print(f"archive: {error}", file=sys.stderr, flush=True))
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: server.end())
        say(f"ready {server.archive.archive_id}")
        server.run()
    finally:
        server.close()


def main() -> int:
    """Run until it is ended; 2 when the settings are wrong, 1 when the archive cannot go on."""

    def say(line: str) -> None:
        print(line, flush=True)

    try:
        settings = archive_settings(given(os.environ, sys.argv[1:]))
    except (ConfigurationError, OSError) as error:
        say(f"archive: {error}")
        return USAGE_STATUS
    try:
        serve(settings, say)
    except OrdoError as error:
        say(f"archive: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
