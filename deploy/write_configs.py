"""Writes node.toml for every member of a cluster.

    python -m deploy.write_configs --host 10.0.0.1 --host 10.0.0.2 --host 10.0.0.3 --out configs

The files are `configs/node0.toml` and so on: equal but for the member id. Nothing of a file that is there is changed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import tomlkit
import typer

EXIT_USAGE = 2
PORT_MAX = 65_535 - 4
MEMBERS_MAX = 7


def render(member_id: int, hosts: list[str], port: int, data_dir: str, service: str | None) -> str:
    """node.toml of one member; all members listen on `port` and the four after it."""
    members = [{"id": other_id, "host": host, "port": port} for other_id, host in enumerate(hosts)]
    content: dict[str, Any] = {"node": {"member_id": member_id, "data_dir": data_dir}, "members": members}
    if service is not None:
        content["service"] = {"class": service}
    return tomlkit.dumps(content)


def main(
    host: Annotated[list[str], typer.Option(help="address of a member; once for each, in order of their ids")],
    out: Annotated[Path, typer.Option(help="folder for the files")],
    port: Annotated[
        int, typer.Option(min=1, max=PORT_MAX, help="first of five ports, the same on every host")
    ] = 20_000,
    data_dir: Annotated[str, typer.Option(help="folder of the data on each host")] = "/var/lib/ordo",
    service: Annotated[str | None, typer.Option(help="the service, as module:Class")] = None,
) -> None:
    """Write node.toml for every member of a cluster."""
    if len(host) > MEMBERS_MAX or len(set(host)) != len(host):
        _fail(f"--host {' '.join(host)}: 1 to {MEMBERS_MAX} different hosts are allowed")
    paths = [out / f"node{member_id}.toml" for member_id in range(len(host))]
    for path in paths:
        if path.exists():
            _fail(f"{path} is there already; remove it or give another --out")
    out.mkdir(parents=True, exist_ok=True)
    for member_id, path in enumerate(paths):
        path.write_text(render(member_id, host, port, data_dir, service))


def _fail(message: str) -> None:
    print(message, file=sys.stderr)
    raise typer.Exit(EXIT_USAGE)


if __name__ == "__main__":
    typer.run(main)
