"""`ordo keys`: the keys by which nodes, drivers and programs know each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ordo.transport.secure.keys import add_trusted, public_text, read_secret, write_new_secret

keys_app = typer.Typer(
    name="keys",
    help="Make and trust the keys that datagrams are encrypted with.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
KeyFileArgument = Annotated[
    Path, typer.Argument(metavar="KEY_FILE", help="the key file of one node, driver or program")
]


@keys_app.command()
def new(key_file: KeyFileArgument) -> None:
    """Make a key file for one node, readable by this user only, and print its public key."""
    print(public_text(write_new_secret(str(key_file)).public))


@keys_app.command()
def show(key_file: KeyFileArgument) -> None:
    """Print the public key of a key file: what others trust."""
    print(public_text(read_secret(str(key_file)).public))


@keys_app.command()
def trust(
    trusted_file: Annotated[Path, typer.Argument(metavar="TRUSTED_FILE", help="the file of trusted keys")],
    public_key: Annotated[str, typer.Argument(metavar="KEY", help="a public key, as `ordo keys show` prints it")],
    name: Annotated[str, typer.Option(help="whose key it is; one word")] = "",
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST[:PORT[-PORT]]",
            help="trust it there only; ports belong to this key alone. Again for more places",
        ),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(
            help="what its holder may do where [authentication] by_key is on, once for each role: ingress, queries,"
            " consumers, administration, operator, log, topics,"
            " topic:<name>"
        ),
    ] = None,
) -> None:
    """Add a public key to a file of trusted keys; running programs read it again within a second."""
    add_trusted(str(trusted_file), public_key, name, at or [], role or [])
