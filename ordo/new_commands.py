"""`ordo init` and `ordo dev`: a new cluster, and one to develop a service with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ordo.dev import run_dev
from ordo.init import PORT_DEFAULT, PORT_MAX, Profile, next_steps, write_cluster
from ordo.runtime.errors import ConfigurationError


def init(
    folder: Annotated[Path, typer.Argument(help="folder for the files")] = Path("."),
    host: Annotated[
        list[str] | None, typer.Option(help="address of a member; once for each, in order of their ids")
    ] = None,
    members: Annotated[int | None, typer.Option(help="how many members, on this machine; 3 without --host")] = None,
    port: Annotated[
        int,
        typer.Option(min=1, max=PORT_MAX, help="first of a member's five ports; on one machine others are 10 apart"),
    ] = PORT_DEFAULT,
    profile: Annotated[
        Profile,
        typer.Option(
            help="auto: development on one machine, production on several hosts; container: production in containers"
        ),
    ] = Profile.AUTO,
    data_dir: Annotated[
        Path | None, typer.Option(help="folder of the members' data folders; /var/lib/ordo on hosts, else ./data")
    ] = None,
    service: Annotated[str | None, typer.Option(help="the service, as module:Class")] = None,
    encryption: Annotated[
        bool | None, typer.Option(help="write keys and encrypt datagrams; by default on several hosts")
    ] = None,
) -> None:
    """Write a configuration for each member of a new cluster; on one machine a service and a client to try, too."""
    if host and members is not None:
        raise ConfigurationError("--members: is for one machine; with --host there are as many members as hosts")
    hosts = host or []
    written = write_cluster(
        folder,
        hosts=hosts,
        member_count=3 if members is None else members,
        port=port,
        profile=profile,
        data_dir=data_dir,
        service=service,
        is_encrypted=encryption,
    )
    for line in next_steps(folder, written, hosts):
        print(line)


def dev(
    service: Annotated[str, typer.Option(help="the service, as module:Class")],
    members: Annotated[int, typer.Option(help="how many members")] = 3,
    port: Annotated[
        int, typer.Option(min=1, max=PORT_MAX, help="first port of member 0; those of the others are 10 apart")
    ] = PORT_DEFAULT,
    data: Annotated[
        Path | None, typer.Option(help="folder that keeps data and logs; without it they go at the end")
    ] = None,
    reload: Annotated[bool, typer.Option(help="start again when Python files below this folder change")] = True,
    fresh: Annotated[bool, typer.Option("--fresh", help="begin with an empty log at every reload")] = False,
) -> None:
    """Run a cluster here in the foreground, for development; it starts again when the code changes."""
    run_dev(service, member_count=members, port=port, data=data, is_watching=reload, is_fresh=fresh)
