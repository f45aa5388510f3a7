"""`ordo kafka`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from ordo.cluster.client.settings import ClientSettings
from ordo.gateway.callers.settings import LISTEN
from ordo.gateway.kafka.settings import KafkaSettings
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.reporting.logging import configure_program
from ordo.runtime.security.credentials import credentials_from_file

DEFAULTS = KafkaSettings


Endpoints = Annotated[str, typer.Option(help="the members' ingress: host:port,host:port,...")]
Listen = Annotated[str, typer.Option(help="host:port for Kafka's clients; port 0 for any")]
Advertise = Annotated[str, typer.Option(help="host:port that clients are told; else the address by which they came")]
Archives = Annotated[str, typer.Option(help="where members serve topics: host:port,...; else four above their ingress")]
Egress = Annotated[str, typer.Option(help="address of this host that the members reach; port 0 for any")]
TokenFile = Annotated[
    Path | None, typer.Option(help="token of clients without SASL; else the cluster sees them as nobody")
]
Certificate = Annotated[Path | None, typer.Option(help="PEM file of the server's chain: TLS")]
CertificateKey = Annotated[Path | None, typer.Option(help="PEM file of its key")]
ClientCa = Annotated[Path | None, typer.Option(help="PEM file: only clients with a certificate that it signed (mTLS)")]
KeyFile = Annotated[Path | None, typer.Option(help="with encryption in the cluster: the door's key")]
TrustedFile = Annotated[Path | None, typer.Option(help="with encryption in the cluster: the members' keys")]
CreateTopics = Annotated[bool, typer.Option(help="create a topic when a client that wants so first asks for it")]
ConnectionsMax = Annotated[int, typer.Option(help="connections of clients")]
RequestBytes = Annotated[int, typer.Option(help="bytes of the longest request that is taken")]
ReadersMax = Annotated[int, typer.Option(help="places in topics that are read at a time")]
SessionsMax = Annotated[int, typer.Option(help="sessions with the cluster: one for each token")]
Timeout = Annotated[float, typer.Option(help="seconds that the cluster is waited for")]


def kafka(
    endpoints: Endpoints,
    listen: Listen = DEFAULTS.listen,
    advertise: Advertise = "",
    archives: Archives = "",
    egress: Egress = "127.0.0.1:0",
    token_file: TokenFile = None,
    certificate: Certificate = None,
    key: CertificateKey = None,
    client_ca: ClientCa = None,
    key_file: KeyFile = None,
    trusted_file: TrustedFile = None,
    create_topics: CreateTopics = DEFAULTS.creates_topics,
    connections_max: ConnectionsMax = DEFAULTS.connections_max,
    request_bytes_max: RequestBytes = DEFAULTS.request_bytes_max,
    readers_max: ReadersMax = DEFAULTS.readers_max,
    sessions_max: SessionsMax = DEFAULTS.sessions_max,
    timeout: Timeout = DEFAULTS.timeout_s,
) -> None:
    """Serve Kafka's protocol in front of a cluster until SIGTERM or SIGINT."""
    if LISTEN.fullmatch(egress) is None:
        raise ConfigurationError(f"--egress {egress}: must be host:port")
    settings = KafkaSettings(
        endpoints=_split(endpoints),
        listen=listen,
        advertise=advertise,
        archives=_split(archives),
        client=ClientSettings(
            egress_channel=f"aeron:udp?endpoint={egress}",
            credentials=b"" if token_file is None else credentials_from_file(token_file),
            key_file=str(key_file or ""),
            trusted_file=str(trusted_file or ""),
        ),
        certificate=str(certificate or ""),
        key=str(key or ""),
        client_ca=str(client_ca or ""),
        creates_topics=create_topics,
        connections_max=connections_max,
        request_bytes_max=request_bytes_max,
        readers_max=readers_max,
        sessions_max=sessions_max,
        timeout_s=timeout,
    )
    _run(settings)


def _run(settings: KafkaSettings) -> None:
    try:
        from ordo.gateway.kafka.server import run
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"{error.name} is not installed: pip install 'ordo-sequencer[kafka]'") from error
    configure_program()
    asyncio.run(run(settings))


def _split(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]
