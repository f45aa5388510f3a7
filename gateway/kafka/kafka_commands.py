"""`ordo kafka`."""

from __future__ import annotations

from typing import Annotated

import typer

from ordo.gateway.doors.options import (
    EGRESS_DEFAULT,
    Archives,
    Certificate,
    CertificateKey,
    ClientCa,
    Egress,
    Endpoints,
    KeyFile,
    SessionsMax,
    TokenFile,
    TrustedFile,
    common_options,
    run_program,
)
from ordo.gateway.kafka.settings import KafkaSettings

DEFAULTS = KafkaSettings
Listen = Annotated[str, typer.Option(help="host:port for Kafka's clients; port 0 for any")]
Advertise = Annotated[str, typer.Option(help="host:port that clients are told; else the address by which they came")]
Network = Annotated[str, typer.Option(help="doors of one network know each other; else tls, plain, or this machine")]
Lease = Annotated[float, typer.Option(help="seconds after which a door that is not heard of loses its groups")]
CreateTopics = Annotated[bool, typer.Option(help="create a topic when a client that wants so first asks for it")]
ConnectionsMax = Annotated[int, typer.Option(help="connections of clients")]
AddressConnectionsMax = Annotated[int, typer.Option(help="connections from one address; 0: half of all")]
RequestBytes = Annotated[int, typer.Option(help="bytes of the longest request that is taken")]
ReadersMax = Annotated[int, typer.Option(help="places in topics that are read at a time")]
Timeout = Annotated[float, typer.Option(help="seconds that the cluster is waited for")]


def kafka(
    endpoints: Endpoints,
    listen: Listen = DEFAULTS.listen,
    advertise: Advertise = "",
    network: Network = "",
    lease: Lease = DEFAULTS.lease_s,
    archives: Archives = "",
    egress: Egress = EGRESS_DEFAULT,
    token_file: TokenFile = None,
    certificate: Certificate = None,
    key: CertificateKey = None,
    client_ca: ClientCa = None,
    key_file: KeyFile = None,
    trusted_file: TrustedFile = None,
    create_topics: CreateTopics = DEFAULTS.creates_topics,
    connections_max: ConnectionsMax = DEFAULTS.connections_max,
    address_connections_max: AddressConnectionsMax = DEFAULTS.address_connections_max,
    request_bytes_max: RequestBytes = DEFAULTS.request_bytes_max,
    readers_max: ReadersMax = DEFAULTS.readers_max,
    sessions_max: SessionsMax = DEFAULTS.sessions_max,
    timeout: Timeout = DEFAULTS.timeout_s,
) -> None:
    """Serve Kafka's protocol in front of a cluster until SIGTERM or SIGINT."""
    settings = KafkaSettings(
        **common_options(endpoints, archives, egress, token_file, key_file, trusted_file, certificate, key, client_ca),
        listen=listen,
        advertise=advertise,
        network=network,
        lease_s=lease,
        creates_topics=create_topics,
        connections_max=connections_max,
        address_connections_max=address_connections_max,
        request_bytes_max=request_bytes_max,
        readers_max=readers_max,
        sessions_max=sessions_max,
        timeout_s=timeout,
    )
    run_program("ordo.gateway.kafka.server", "kafka", settings)
