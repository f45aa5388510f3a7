"""`ordo app`: one instance of an application, outside the cluster; `ordo app diff`: what canaries found."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ordo.applications.app_mode import AppMode
from ordo.cluster.wire.app_version import format_version, parse_version
from ordo.consumers.consumer_commands import AsJson, Egress, Endpoints, open_orders, tell
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.security.credentials import credentials_from_file


class RunUnlessNamed(TyperGroup):
    """Without the name of a command, `run` is meant."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["run", *args])


app_app = typer.Typer(
    cls=RunUnlessNamed,
    help="Run an instance of an application (ordo app OPTIONS is ordo app run OPTIONS), or look after its group.",
    no_args_is_help=True,
    context_settings={"ignore_unknown_options": True},
)


@app_app.command("diff")
def diff(
    group: Annotated[str, typer.Option(help="name of the group")],
    endpoints: Endpoints,
    token_file: Annotated[Path | None, typer.Option(help="file with a token of the role consumers")] = None,
    egress: Egress = "",
    as_json: AsJson = False,
) -> None:
    """Show where canaries of a group would have written something else: the newest differences, oldest first."""
    from ordo.cluster.commands.printing import make_table, print_json, show

    with open_orders(endpoints, token_file, egress, "ordo app diff") as orders:
        found = orders.list_differences(group)
    for one in found:
        one["version"] = format_version(one["version"])
    if as_json:
        print_json(found)
        return
    table = make_table("position", "index", "canary", "version", "difference", "written", "canary writes")
    for one in found:
        payloads = (_show_payload(one[name], one[f"{name}_length"]) for name in ("written", "canary"))
        place = (str(one[name]) for name in ("position", "index"))
        table.add_row(*place, one["instance"], one["version"], one["difference"], *payloads)
    show(table)


@app_app.command("upgrade")
def upgrade(
    group: Annotated[str, typer.Option(help="name of the group")],
    to: Annotated[str, typer.Option(help="version of the code: N or MAJOR.MINOR.PATCH")],
    endpoints: Endpoints,
    token_file: Annotated[Path | None, typer.Option(help="file with a token of the roles of an operator")] = None,
    egress: Egress = "",
    as_json: AsJson = False,
) -> None:
    """Change all instances of a group to another version of their code, from one record of the log on."""
    with open_orders(endpoints, token_file, egress, "ordo app upgrade") as orders:
        position = orders.upgrade_group(group, parse_version(to))
    done = f"version {to} of group {group} is in force from position {position} on"
    tell(done, as_json, group=group, version=to, position=position)


def _show_payload(text: str | None, length_bytes: int) -> str:
    from ordo.cluster.wire.sessions.difference_codec import PAYLOAD_BYTES_MAX

    return "" if text is None else text + ("..." if length_bytes > PAYLOAD_BYTES_MAX else "")


@app_app.command("run")
def app(
    service: Annotated[
        list[str],
        typer.Option(help="the service, as module:Class; or VERSION=module:Class for each version of its code"),
    ],
    group: Annotated[str, typer.Option(help="name of the group; all its instances run the same service")],
    endpoints: Annotated[str, typer.Option(help="first port of each member: host:port,host:port,...")],
    folder: Annotated[Path, typer.Option(help="where this instance keeps its checkpoint; of no other instance")],
    egress: Annotated[
        str, typer.Option(help="address of this host that the members reach; port 0 for any")
    ] = "127.0.0.1:0",
    token_file: Annotated[
        Path | None,
        typer.Option(help="file with a token: ingress, log, and consumers to answer"),
    ] = None,
    checkpoint: Annotated[float, typer.Option(help="seconds between checkpoints")] = 10.0,
    mode: Annotated[
        AppMode, typer.Option(help="all instances of the group write, or one of them; canary: this one only compares")
    ] = AppMode.ACTIVE_ACTIVE,
    instance: Annotated[str, typer.Option(help="what `ordo apps` calls this instance; else HOST:FOLDER")] = "",
    app_version: Annotated[
        str, typer.Option(help="of the service's code, where there is one: N or MAJOR.MINOR.PATCH")
    ] = "1",
    archive: Annotated[
        str, typer.Option(help="HOST:PORT of an archive for snapshots of the group; the next port takes them in")
    ] = "",
    archive_every: Annotated[float, typer.Option(help="seconds between snapshots of the group in the archive")] = 60.0,
    archive_token_file: Annotated[
        Path | None, typer.Option(help="file with a token of the archive's roles log, record and delete")
    ] = None,
) -> None:
    """Run one instance of an application until SIGTERM or SIGINT."""
    from ordo.applications.application import ApplicationSettings
    from ordo.applications.commands.run import make_keeper, run_application
    from ordo.cluster.client.settings import ClientSettings

    settings = ApplicationSettings(
        group=group,
        endpoints=[one.strip() for one in endpoints.split(",") if one.strip()],
        folder=str(folder),
        client=ClientSettings(
            egress_channel=f"aeron:udp?endpoint={egress}",
            credentials=b"" if token_file is None else credentials_from_file(token_file),
        ),
        checkpoint_interval_s=checkpoint,
        mode=mode,
        instance=instance or f"{socket.gethostname()}:{folder.name}",
        app_version=parse_version(app_version),
    )
    keeper = make_keeper(archive, archive_every, archive_token_file, group)
    run_application(_parse_services(service, settings.app_version), settings, keeper)


def _parse_services(names: list[str], app_version: int) -> dict[int, str]:
    """Return the names of the classes by version. Raises ConfigurationError."""
    if len(names) == 1 and "=" not in names[0]:
        return {app_version: names[0]}
    found: dict[int, str] = {}
    for one in names:
        version, separator, name = one.partition("=")
        if not separator:
            raise ConfigurationError(f"--service {one}: of several, each must be VERSION=module:Class")
        number = parse_version(version)
        if number in found:
            raise ConfigurationError(f"--service {one}: version {version} is given twice")
        found[number] = name
    return found
