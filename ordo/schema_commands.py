"""`ordo schema`: messages with types as SBE schemas in XML, and back (docs/MESSAGES.md)."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from ordo.cluster.container.service_loader import load_attribute
from ordo.runtime.errors import ConfigurationError, StorageError
from ordo.runtime.io.durable_files import create_durably
from ordo.service_api.messages.evolution import breaks
from ordo.service_api.messages.message import Schema
from ordo.service_api.messages.schema_source import source_of
from ordo.service_api.messages.schema_xml import to_xml
from ordo.service_api.messages.typed_service import TypedService

EXIT_BREAKS = 1
schema_app = typer.Typer(help="Messages with types as SBE schemas, and back.", no_args_is_help=True)
Out = Annotated[Path | None, typer.Option(help="the file to write; it must not be there. Without it: print")]
Named = Annotated[str, typer.Argument(help="module:NAME of a Schema or of a TypedService, or an XML file of SBE")]


@schema_app.command(name="export")
def export_schema(
    schema: Annotated[str, typer.Argument(help="module:NAME of a Schema or of a TypedService")], out: Out = None
) -> None:
    """Write the SBE schema of messages, for programs in other languages."""
    _write(to_xml(_load(schema)), out)


@schema_app.command(name="import")
def import_schema(
    file: Annotated[Path, typer.Argument(help="a schema of SBE in XML, such as exchanges publish")], out: Out = None
) -> None:
    """Write Python classes for the messages of an SBE schema."""
    _write(source_of(file), out)


@schema_app.command()
def check(old: Named, new: Named) -> None:
    """Say whether programs with the old schema and with the new one can read each other: status 1 if not."""
    found = breaks(_load(old), _load(new))
    for line in found:
        print(line)
    if found:
        raise typer.Exit(EXIT_BREAKS)
    print("each can read the other's messages")


def _load(name: str) -> Schema:
    """Return the schema that a module has, or that is in a file."""
    if name.endswith(".xml"):
        return _from_file(Path(name))
    found = load_attribute(name, "schema") if ":" in name else None
    if isinstance(found, type) and issubclass(found, TypedService):
        found = getattr(found, "schema", None)
    if not isinstance(found, Schema):
        raise ConfigurationError(f"{name!r} is no schema: give module:NAME of a Schema or a TypedService, or FILE.xml")
    return found


def _from_file(path: Path) -> Schema:
    """Return the schema of the classes that stand for an XML file."""
    module = ModuleType(f"ordo_schema_{path.stem}")
    sys.modules[module.__name__] = module  # annotations are looked up there
    try:
        exec(compile(source_of(path), str(path), "exec"), module.__dict__)
        found: Schema = module.__dict__["SCHEMA"]
    finally:
        del sys.modules[module.__name__]
    return found


def _write(text: str, out: Path | None) -> None:
    if out is None:
        print(text, end="")
        return
    try:
        create_durably(out, text)
    except FileExistsError:
        raise StorageError(f"{out} is there already: give another --out, or delete it") from None
    except OSError as error:
        raise StorageError(f"{out} cannot be written: {error.strerror}") from error
