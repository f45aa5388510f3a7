"""The options that all doors have, on the command line."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from importlib import import_module
from pathlib import Path
from typing import Annotated, Protocol, TypedDict, TypeVar

import typer

from ordo.cluster.client.settings import ClientSettings
from ordo.gateway.doors.settings import check_address
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.reporting.logging import configure_program
from ordo.runtime.security.credentials import credentials_from_file
from ordo.transport.secure.settings import KEY_VARIABLE, TRUSTED_VARIABLE

Endpoints = Annotated[str, typer.Option(help="the members' ingress: host:port,host:port,...")]
Archives = Annotated[
    str, typer.Option(help="where members serve the log and topics: host:port,...; else four above their ingress")
]
Egress = Annotated[str, typer.Option(help="address of this host that the members reach; port 0 for any")]
EGRESS_DEFAULT = "127.0.0.1:0"
TokenFile = Annotated[
    Path | None, typer.Option(help="token of callers that show none; without it the cluster sees them as nobody")
]
Certificate = Annotated[Path | None, typer.Option(help="PEM file of the server's chain: TLS")]
CertificateKey = Annotated[Path | None, typer.Option(help="PEM file of its key")]
ClientCa = Annotated[Path | None, typer.Option(help="PEM file: only callers with a certificate that it signed (mTLS)")]
KeyFile = Annotated[Path | None, typer.Option(help="with encryption in the cluster: the door's key")]
TrustedFile = Annotated[Path | None, typer.Option(help="with encryption in the cluster: the members' keys")]
SessionsMax = Annotated[int, typer.Option(help="sessions with the cluster: one for each token")]


class CommonOptions(TypedDict):
    """What `common_options` makes of them: arguments of DoorSettings."""

    endpoints: list[str]
    archives: list[str]
    client: ClientSettings
    certificate: str
    key: str
    client_ca: str


def common_options(
    endpoints: str,
    archives: str,
    egress: str,
    token_file: Path | None,
    key_file: Path | None,
    trusted_file: Path | None,
    *tls: Path | None,
) -> CommonOptions:
    """Return the settings for these options. `tls`: certificate, its key, the callers' authority.

    Raises ConfigurationError, also for a token that cannot be read.
    """
    check_address("egress", egress)
    certificate, key, client_ca = (str(one or "") for one in tls)
    return {
        "endpoints": split(endpoints),
        "archives": split(archives),
        "client": client_settings(egress, token_file, key_file, trusted_file),
        "certificate": certificate,
        "key": key,
        "client_ca": client_ca,
    }


def client_settings(
    egress: str, token_file: Path | None, key_file: Path | None, trusted_file: Path | None
) -> ClientSettings:
    """Return the settings of sessions. Raises ConfigurationError for a token that cannot be read."""
    credentials = b"" if token_file is None else credentials_from_file(token_file)
    settings = ClientSettings(
        egress_channel=f"aeron:udp?endpoint={egress}",
        credentials=credentials,
        key_file=str(key_file or ""),
        trusted_file=str(trusted_file or ""),
    )
    settings.read_credentials()
    return settings


class ProgramSettings(Protocol):
    """The settings of a program that has sessions with a cluster."""

    @property
    def client(self) -> ClientSettings: ...


S = TypeVar("S", bound=ProgramSettings)
Run = Callable[..., Coroutine[None, None, None]]
"""Serves with settings until SIGTERM or SIGINT."""


def run_here(run: Run, settings: ProgramSettings) -> None:
    """Run a program in this process."""
    asyncio.run(run(settings))


def run_program(module: str, extra: str, settings: S, begin: Callable[[Run, S], None] = run_here) -> None:
    """Run `module.run(settings)`. Raises ConfigurationError where the packages of the extra are missing.

    `begin`: what runs it.
    """
    try:
        run: Run = import_module(module).run
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"{error.name} is not installed: pip install 'ordo-sequencer[{extra}]'") from error
    configure_program()
    _encrypt_all(settings.client)
    begin(run, settings)


def _encrypt_all(client: ClientSettings) -> None:
    """Have every driver of this process encrypt, also those of readers and of single orders."""
    if client.key_file:
        os.environ[KEY_VARIABLE], os.environ[TRUSTED_VARIABLE] = client.key_file, client.trusted_file


def split(text: str) -> list[str]:
    """Return the parts between commas."""
    return [one.strip() for one in text.split(",") if one.strip()]
