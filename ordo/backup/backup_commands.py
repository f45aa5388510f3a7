"""`ordo backup run | status | verify`, and `ordo restore`."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordo.runtime.errors import ConfigurationError, OrdoError

if TYPE_CHECKING:
    from ordo.transport.client.client_transport import ClientTransport

PARK_NS = 1_000_000
FOLDER = Annotated[Path, typer.Argument(help="folder of the backup")]
JSON = Annotated[bool, typer.Option("--json", help="print one JSON object")]

backup_app = typer.Typer(
    name="backup",
    help="Keep a copy of a cluster's snapshots and log on another machine.",
    no_args_is_help=True,
)


@backup_app.command("run")
def run_backup(
    folder: FOLDER,
    endpoints: Annotated[
        str | None, typer.Option(help="HOST:PORT,... of some members' ingress; default those of the last time")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="file with a token that has the role log, where the cluster has [[tokens]]")
    ] = None,
    interval: Annotated[
        float, typer.Option(min=0.1, help="seconds after which members are asked for a newer snapshot")
    ] = 60.0,
    once: Annotated[bool, typer.Option("--once", help="end when everything is here that there is now")] = False,
    timeout: Annotated[float, typer.Option(min=1, help="with --once, give up after this many seconds")] = 3600.0,
    segment_length: Annotated[
        str, typer.Option(help="length of a file of the log: a power of two from 64k to 1g")
    ] = "64m",
) -> None:
    """Follow a cluster and keep its snapshots and its log in a folder, until interrupted."""
    from ordo.backup.folder import CLUSTER, BackupFolder, read_json
    from ordo.backup.follow import Backup, demand_addresses
    from ordo.cluster.client.connection.endpoints import parse_list
    from ordo.runtime.reporting.logging import configure_program, get_logger
    from ordo.runtime.security.credentials import credentials_from_file
    from ordo.transport.client.client_transport import ClientTransport

    configure_program()
    addresses = parse_list(endpoints) if endpoints else list(read_json(folder / CLUSTER).get("endpoints", ()))
    demand_addresses(addresses)
    segment_length_bytes = _parse_length(segment_length)
    credentials = b"" if token_file is None else credentials_from_file(token_file)()
    transport = ClientTransport.embedded("backup", clients_max=4)
    try:
        kept = BackupFolder(folder, transport.client, segment_length_bytes=segment_length_bytes)
        with kept:
            backup = Backup(
                kept,
                transport.client,
                addresses,
                credentials=credentials,
                interval_s=interval,
                report=lambda text: get_logger().info("backup", text=text),
            )
            try:
                _run(backup, kept, transport, once, timeout)
            finally:
                backup.close()
                kept.write_status({**backup.status(), "state": "stopped"})
    finally:
        transport.close()


def _parse_length(text: str) -> int:
    from ordo.runtime.settings.config import parse_size_bytes

    try:
        return parse_size_bytes(text)
    except ValueError as error:
        raise ConfigurationError(f"--segment-length {text}: {error}") from None


def _run(backup: Any, kept: Any, transport: ClientTransport, once: bool, timeout_s: float) -> None:
    """Duty cycles until a signal, or until everything is here."""
    ends: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda found, _: ends.append(found))
    deadline_s = time.monotonic() + timeout_s
    while not ends:
        now_ns = transport.drive()
        if kept.archive.do_work(now_ns) + backup.work(now_ns) == 0:
            transport.park(PARK_NS)
        if once and backup.is_complete:
            return
        if once and time.monotonic() > deadline_s:
            raise OrdoError(f"not everything was copied within {timeout_s:g} s: {_describe_lack(backup)}")
    if once:
        raise OrdoError(f"interrupted before everything was copied: {_describe_lack(backup)}; run it again")
    if signal.SIGINT in ends and sys.stderr.isatty():
        print("stopped", file=sys.stderr)


def _describe_lack(backup: Any) -> str:
    """Say what is not here yet, or what failed last."""
    found = backup.status()
    if found["problem"]:
        return str(found["problem"])
    if found["cluster_position"] < 0:
        return f"{found['state']}; none of {', '.join(found['endpoints'])} has answered"
    return f"{found['state']}; the log is here up to {found['position']}, the cluster had {found['cluster_position']}"


@backup_app.command()
def status(folder: FOLDER, as_json: JSON = False) -> None:
    """Show what a backup has, and what the process that keeps it does."""
    from ordo.backup.report import describe_backup, describe_lines

    found = describe_backup(folder)
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        print("\n".join(describe_lines(found)))


@backup_app.command()
def verify(folder: FOLDER) -> None:
    """Check every byte of a backup: all frames of log and snapshots, and each snapshot against its digest.

    Says up to where a cluster could be restored from it. Status 1 when something is damaged, or nothing could be.
    """
    from ordo.backup.report import verify_backup

    damages = count = 0
    for line, is_good in verify_backup(folder):
        print(line, flush=True)
        damages, count = damages + (not is_good), count + 1
    if not count:
        raise OrdoError(f"{folder}: nothing was checked: this backup has neither log nor snapshots yet")
    if damages:
        raise OrdoError(f"{folder}: {damages} of its parts are damaged; the lines above name them")


def restore(
    backup: FOLDER,
    config: Annotated[
        list[Path], typer.Option(help="node.toml of a member of the new cluster; once for each that is made here")
    ],
    position: Annotated[
        int | None, typer.Option(min=0, help="a log position, where an entry ends; default the end of the backup")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--time", help="a cluster time instead: 2026-03-01T12:00:00Z, or milliseconds since 1970"),
    ] = None,
) -> None:
    """Make the data folders of a new cluster from a backup, as the cluster was at a position or a time."""
    from ordo.backup.plan import Target
    from ordo.backup.restore import parse_time, restore_members
    from ordo.cluster.settings.config import load_config

    if position is not None and at is not None:
        raise ConfigurationError("give --position or --time, not both")
    target = Target(position, None if at is None else parse_time(at))
    done = restore_members(backup, [load_config(path) for path in config], target)
    for line in done.lines():
        print(line)
