"""`ordo consumers`: durable consumers of a running cluster, from anywhere (docs/CONSUMERS.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ordo.runtime.errors import ConfigurationError

if TYPE_CHECKING:
    from ordo.consumers.consumer_orders import ConsumerOrders

consumers_app = typer.Typer(help="Look at durable consumers, and move them.", no_args_is_help=True)

Endpoints = Annotated[str, typer.Option(help="HOST:PORT,... of the members' ingress")]
TokenFile = Annotated[
    Path | None, typer.Option(help="file with a token: of the role consumers, or administration for orders")
]
Egress = Annotated[str, typer.Option(help="HOST:PORT of this machine that members answer to; else found out")]
Name = Annotated[str, typer.Argument(help="of the consumer")]
AsJson = Annotated[bool, typer.Option("--json", help="for programs")]


@contextmanager
def open_orders(
    endpoints: str, token_file: Path | None, egress: str, client_name: str = "ordo consumers"
) -> Iterator[ConsumerOrders]:
    """Open a session with the cluster as the options say; a context manager."""
    from ordo.cluster.client.connection.endpoints import own_address, parse_list
    from ordo.cluster.client.settings import ClientSettings
    from ordo.consumers.consumer_orders import ConsumerOrders
    from ordo.runtime.security.credentials import credentials_from_file

    members = parse_list(endpoints)
    if egress:
        parse_list(egress, "--egress")
    settings = ClientSettings(
        egress_channel=f"aeron:udp?endpoint={egress or own_address(members[0]) + ':0'}",
        credentials=b"" if token_file is None else credentials_from_file(token_file),
        client_name=client_name,
    )
    with ConsumerOrders(members, settings=settings) as orders:
        yield orders


@consumers_app.command("list")
def list_consumers(
    endpoints: Endpoints, token_file: TokenFile = None, egress: Egress = "", as_json: AsJson = False
) -> None:
    """Show every consumer: its position, its lag, and how many members it has.

    Of a shared one what is with them, what waits, and its dead letters.
    """
    from ordo.cluster.commands.printing import print_json, show

    with open_orders(endpoints, token_file, egress) as orders:
        found = orders.list_all()
    if as_json:
        print_json(found)
    else:
        show(make_consumers_table(found))


def make_consumers_table(found: list[dict[str, Any]]) -> Any:
    """Return a line for each consumer, as `ConsumerOrders.list_all` has them."""
    from ordo.cluster.commands.printing import make_table

    counts = ("position", "lag", "members", "in_flight", "waiting", "dead")
    names = ("consumer", "mode", "position", "lag", "members", "in flight", "waiting", "dead")
    table = make_table(*names, padding=(0, 1, 0, 0))
    for one in found:
        shown = (str(one.get(count, "")) for count in counts)
        table.add_row(one["name"], "paused" if one["paused"] else one["mode"], *shown)
    return table


@consumers_app.command()
def describe(
    name: Name, endpoints: Endpoints, token_file: TokenFile = None, egress: Egress = "", as_json: AsJson = False
) -> None:
    """Show one consumer with the sessions of its members."""
    from ordo.cluster.commands.printing import print_json, print_values

    with open_orders(endpoints, token_file, egress) as orders:
        found = orders.describe(name)
    if as_json:
        print_json(found)
        return
    sessions, dead_letters = found.pop("sessions"), found.pop("dead_letters", [])
    print_values(found)
    for one in dead_letters:
        print(f"dead letter at {one['position']} after {one['tries']} tries")
    for one in sessions:
        print(f"session {one['session']}{' is active' if one['active'] else ''}")


@consumers_app.command()
def pause(
    name: Name, endpoints: Endpoints, token_file: TokenFile = None, egress: Egress = "", as_json: AsJson = False
) -> None:
    """Hand out nothing more, until `resume`; members stay."""
    with open_orders(endpoints, token_file, egress) as orders:
        orders.pause(name)
    tell("", as_json, name=name, paused=True)


@consumers_app.command()
def resume(
    name: Name, endpoints: Endpoints, token_file: TokenFile = None, egress: Egress = "", as_json: AsJson = False
) -> None:
    """Go on after `pause`."""
    with open_orders(endpoints, token_file, egress) as orders:
        orders.resume(name)
    tell("", as_json, name=name, paused=False)


@consumers_app.command()
def seek(
    name: Name,
    to: Annotated[str, typer.Option("--to", help="a position in bytes, first, or live")],
    endpoints: Endpoints,
    token_file: TokenFile = None,
    egress: Egress = "",
    as_json: AsJson = False,
) -> None:
    """Move a consumer forward or back; its members continue from there."""
    wanted = parse_place("--to", to)
    with open_orders(endpoints, token_file, egress) as orders:
        position = orders.seek(name, wanted)
    tell(f"{name} goes on at position {position}", as_json, name=name, position=position)


@consumers_app.command()
def remove(
    name: Name, endpoints: Endpoints, token_file: TokenFile = None, egress: Egress = "", as_json: AsJson = False
) -> None:
    """Forget a consumer and its position; what members it has end with an error."""
    with open_orders(endpoints, token_file, egress) as orders:
        orders.remove(name)
    tell("", as_json, name=name, removed=True)


def tell(text: str, as_json: bool, **values: object) -> None:
    """Print the result of an order, as text or as JSON."""
    from ordo.cluster.commands.printing import print_json

    if as_json:
        print_json(values)
    elif text:
        print(text)


def parse_place(option: str, text: str) -> int | Literal["first", "live"]:
    """Return a place in the log as an option has it. Raises ConfigurationError."""
    if text == "first":
        return "first"
    if text == "live":
        return "live"
    if text.isdecimal() and text.isascii():
        return int(text)
    raise ConfigurationError(f"{option} {text}: allowed is a position of 0 or more, first, or live")
