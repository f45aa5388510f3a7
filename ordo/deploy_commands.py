"""`ordo deploy docker`: a local cluster in containers (docs/DEPLOYMENT.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from ordo.deploy.docker_cluster import DockerCluster, Member
from ordo.deploy.docker_containers import Containers, open_docker
from ordo.init import container_config
from ordo.runtime.errors import NoQuorumError

deploy_app = typer.Typer(help="Run clusters with what runs containers.", no_args_is_help=True)
docker_app = typer.Typer(help="A cluster in containers of this machine's Docker.", no_args_is_help=True)
deploy_app.add_typer(docker_app, name="docker")

Name = Annotated[str, typer.Option(help="of the cluster: of its network, and of its containers before -node0")]
Image = Annotated[str, typer.Option(help="an image with Ordo and the service, as deploy/Dockerfile makes it")]
AsJson = Annotated[bool, typer.Option("--json", help="for programs: what `status --json` prints")]
Timeout = Annotated[float, typer.Option(min=1, help="seconds that one member, or one order, may take")]
Count = Annotated[int, typer.Argument(metavar="MEMBERS", help="how many members there are to be, 1 to 7")]
NAME_DEFAULT = "ordo"
TIMEOUT_DEFAULT_S = 120.0


@contextmanager
def _opened(name: str, timeout_s: float, as_json: bool) -> Iterator[DockerCluster]:
    """Open the cluster; print its state when the order is done."""

    def tell(line: str) -> None:
        if not as_json:
            print(line, flush=True)

    with open_docker() as client:
        cluster = DockerCluster(Containers(client, name), timeout_s=timeout_s, tell=tell)
        yield cluster
        _show(name, cluster.members(), as_json)


@docker_app.command()
def start(
    service: Annotated[str, typer.Option(help="the service, as module:Class of the image")],
    image: Image = "ordo",
    members: Annotated[int, typer.Option(help="how many members, 1 to 7")] = 3,
    name: Name = NAME_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    as_json: AsJson = False,
) -> None:
    """Start a cluster, and return when it is ready. Nothing of it stays when that fails."""
    with _opened(name, timeout, as_json) as cluster:
        cluster.start(image, service, members, container_config)


@docker_app.command()
def status(name: Name = NAME_DEFAULT, as_json: AsJson = False) -> None:
    """Show the members: their containers, images, roles and positions. Exit status 3: none leads."""
    with _opened(name, TIMEOUT_DEFAULT_S, as_json):
        pass


@docker_app.command()
def scale(
    members: Count, name: Name = NAME_DEFAULT, timeout: Timeout = TIMEOUT_DEFAULT_S, as_json: AsJson = False
) -> None:
    """Add members, each a learner first that gets its vote once it has the log.

    Or take out those with the highest ids, with their data.
    """
    with _opened(name, timeout, as_json) as cluster:
        cluster.scale(members, container_config)


@docker_app.command()
def upgrade(
    image: Image, name: Name = NAME_DEFAULT, timeout: Timeout = TIMEOUT_DEFAULT_S, as_json: AsJson = False
) -> None:
    """Replace the containers by those of another image, one at a time, the leader's last; the data stays."""
    with _opened(name, timeout, as_json) as cluster:
        cluster.upgrade(image)


@docker_app.command()
def remove(name: Name = NAME_DEFAULT, as_json: AsJson = False) -> None:
    """Remove the cluster: containers, network, and the members' data."""
    from ordo.cluster.commands.printing import print_json, show

    with open_docker() as client:
        removed = DockerCluster(Containers(client, name), timeout_s=TIMEOUT_DEFAULT_S, tell=show).remove()
    if as_json:
        print_json({"name": name, "removed": removed})
    else:
        show(f"removed {', '.join(removed)}, with their data")


def _show(name: str, members: list[Member], as_json: bool) -> None:
    from ordo.cluster.commands.printing import make_table, print_json, show

    leader = next((one.member_id for one in members if one.is_leader), None)
    if as_json:
        rows = [one._asdict() for one in members]
        print_json({"name": name, "network": name, "leader_member_id": leader, "members": rows})
    else:
        table = make_table("member", "container", "image", "state", "role", "log position", "address")
        for one in members:
            state = one.state if one.state != "running" else one.health or one.state
            role = "leader" if one.is_leader else one.role or "-"
            position = "-" if one.log_position is None else f"{one.log_position:,}"
            table.add_row(str(one.member_id), one.container, one.image, state, role, position, one.address or "-")
        show(table)
    if leader is None:
        raise NoQuorumError(f"no member of {name} leads: see `docker logs {members[0].container}`")
