"""`ordo gateway`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from ordo.cluster.client.settings import ClientSettings
from ordo.gateway.callers.settings import MESSAGE_BYTES_DEFAULT, GatewaySettings
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.reporting.logging import configure_program
from ordo.runtime.security.credentials import credentials_from_file

DEFAULTS = GatewaySettings
OPERATOR_HOSTS = ",".join(GatewaySettings.operator_hosts)
Archives = Annotated[
    str, typer.Option(help="where members serve the log: host:port,...; else four above their ingress")
]
Egress = Annotated[str, typer.Option(help="address of this host that the members reach; port 0 for any")]
TokenFile = Annotated[
    Path | None, typer.Option(help="token of callers that show none; without it the cluster sees them as nobody")
]
ClientCa = Annotated[Path | None, typer.Option(help="PEM file: only callers with a certificate that it signed (mTLS)")]
ConsoleAddress = Annotated[
    str, typer.Option(help="host:port, or a port of 127.0.0.1, of a web page to watch the cluster; else none")
]
ConsoleNames = Annotated[
    list[str] | None, typer.Option(help="host name by which browsers reach the console; may be repeated")
]
MessageBytes = Annotated[int, typer.Option(help="bytes of the longest gRPC message taken from a caller")]
HostSessions = Annotated[int, typer.Option(help="of them, opened by callers of one host; 0: three quarters of them")]
PrincipalSessions = Annotated[
    int, typer.Option(help="of them, of one principal with whatever tokens; 0: three quarters of them")
]
OperatorHosts = Annotated[
    str, typer.Option(help="addresses that operators call from; that of a proxy on this machine is not theirs alone")
]
RequestsMax = Annotated[int, typer.Option(help="requests and queries under way in all")]
StreamRequestsMax = Annotated[int, typer.Option(help="requests under way of one stream")]
SessionsMax = Annotated[int, typer.Option(help="sessions with the cluster: one for each token")]
OperatorSessions = Annotated[int, typer.Option(help="of them, kept for operators; -1: a sixteenth of them")]
SubscriptionsMax = Annotated[int, typer.Option(help="subscriptions to the log")]
ArchiveCallsMax = Annotated[int, typer.Option(help="calls that read or verify recordings")]
Timeout = Annotated[float, typer.Option(help="seconds that a call without a deadline waits for the cluster")]
Grace = Annotated[float, typer.Option(help="seconds that calls under way are waited for at the end")]
DecoderName = Annotated[
    str, typer.Option(help="module:function that makes a payload readable for the console's message browser")
]


def gateway(
    endpoints: Annotated[str, typer.Option(help="the members' ingress: host:port,host:port,...")],
    listen: Annotated[str, typer.Option(help="host:port of the gRPC server; port 0 for any")] = DEFAULTS.listen,
    archives: Archives = "",
    egress: Egress = "127.0.0.1:0",
    token_file: TokenFile = None,
    certificate: Annotated[Path | None, typer.Option(help="PEM file of the server's chain: TLS")] = None,
    key: Annotated[Path | None, typer.Option(help="PEM file of its key")] = None,
    client_ca: ClientCa = None,
    key_file: Annotated[Path | None, typer.Option(help="with encryption in the cluster: the gateway's key")] = None,
    trusted_file: Annotated[Path | None, typer.Option(help="with encryption in the cluster: the members' keys")] = None,
    requests_max: RequestsMax = DEFAULTS.requests_max,
    stream_requests_max: StreamRequestsMax = DEFAULTS.stream_requests_max,
    message_bytes_max: MessageBytes = MESSAGE_BYTES_DEFAULT,
    sessions_max: SessionsMax = DEFAULTS.sessions_max,
    sessions_per_host: HostSessions = DEFAULTS.sessions_per_host,
    sessions_per_principal: PrincipalSessions = DEFAULTS.sessions_per_principal,
    operator_sessions: OperatorSessions = DEFAULTS.operator_sessions,
    operator_hosts: OperatorHosts = OPERATOR_HOSTS,
    subscriptions_max: SubscriptionsMax = DEFAULTS.subscriptions_max,
    archive_calls_max: ArchiveCallsMax = DEFAULTS.archive_calls_max,
    timeout: Timeout = DEFAULTS.timeout_s,
    grace: Grace = DEFAULTS.grace_s,
    console: ConsoleAddress = "",
    console_name: ConsoleNames = None,
    decoder: DecoderName = "",
) -> None:
    """Serve gRPC in front of a cluster until SIGTERM or SIGINT."""
    settings = GatewaySettings(
        endpoints=_split(endpoints),
        listen=listen,
        archives=_split(archives),
        client=_client(egress, token_file, key_file, trusted_file),
        **_tls(certificate, key, client_ca),
        requests_max=requests_max,
        stream_requests_max=stream_requests_max,
        message_bytes_max=message_bytes_max,
        sessions_max=sessions_max,
        sessions_per_host=sessions_per_host,
        sessions_per_principal=sessions_per_principal,
        operator_sessions=operator_sessions,
        operator_hosts=_split(operator_hosts),
        subscriptions_max=subscriptions_max,
        archive_calls_max=archive_calls_max,
        timeout_s=timeout,
        grace_s=grace,
        console=f"127.0.0.1:{console}" if console.isdecimal() else console,
        console_names=console_name or (),
        decoder=decoder,
    )
    _run(settings)


def _tls(certificate: Path | None, key: Path | None, client_ca: Path | None) -> dict[str, Any]:
    return {"certificate": str(certificate or ""), "key": str(key or ""), "client_ca": str(client_ca or "")}


def _client(egress: str, token_file: Path | None, key_file: Path | None, trusted_file: Path | None) -> ClientSettings:
    return ClientSettings(
        egress_channel=f"aeron:udp?endpoint={egress}",
        credentials=b"" if token_file is None else credentials_from_file(token_file),
        key_file=str(key_file or ""),
        trusted_file=str(trusted_file or ""),
    )


def _run(settings: GatewaySettings) -> None:
    try:
        from ordo.gateway.server import run
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"{error.name} is not installed: pip install 'ordo-sequencer[gateway]'") from error
    configure_program()
    asyncio.run(run(settings))


def _split(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]
