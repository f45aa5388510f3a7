"""`ordo gateway`."""

from __future__ import annotations

from typing import Annotated

import typer

from ordo.gateway.callers.settings import MESSAGE_BYTES_DEFAULT, GatewaySettings
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
    run_here,
    run_program,
    split,
)
from ordo.gateway.workers import run_workers

DEFAULTS = GatewaySettings
OPERATOR_HOSTS = ",".join(GatewaySettings.operator_hosts)
Listen = Annotated[str, typer.Option(help="host:port of the gRPC server; port 0 for any")]
ConsoleAddress = Annotated[
    str, typer.Option(help="host:port, or a port of 127.0.0.1, of a web page to watch the cluster; else none")
]
ConsoleNames = Annotated[
    list[str] | None, typer.Option(help="host name by which browsers reach the console; may be repeated")
]
WorkersCount = Annotated[int, typer.Option(help="processes that serve at this address, each with the limits below")]
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
OperatorSessions = Annotated[int, typer.Option(help="of them, kept for operators; -1: a sixteenth of them")]
SubscriptionsMax = Annotated[int, typer.Option(help="subscriptions to the log")]
ArchiveCallsMax = Annotated[int, typer.Option(help="calls that read or verify recordings")]
Timeout = Annotated[float, typer.Option(help="seconds that a call without a deadline waits for the cluster")]
Grace = Annotated[float, typer.Option(help="seconds that calls under way are waited for at the end")]
DecoderName = Annotated[
    str,
    typer.Option(help="makes payloads readable in the console: log, for the log's schemas, or module:function"),
]


def gateway(
    endpoints: Endpoints,
    listen: Listen = DEFAULTS.listen,
    archives: Archives = "",
    egress: Egress = EGRESS_DEFAULT,
    token_file: TokenFile = None,
    certificate: Certificate = None,
    key: CertificateKey = None,
    client_ca: ClientCa = None,
    key_file: KeyFile = None,
    trusted_file: TrustedFile = None,
    workers: WorkersCount = DEFAULTS.workers,
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
        **common_options(endpoints, archives, egress, token_file, key_file, trusted_file, certificate, key, client_ca),
        listen=listen,
        workers=workers,
        requests_max=requests_max,
        stream_requests_max=stream_requests_max,
        message_bytes_max=message_bytes_max,
        sessions_max=sessions_max,
        sessions_per_host=sessions_per_host,
        sessions_per_principal=sessions_per_principal,
        operator_sessions=operator_sessions,
        operator_hosts=split(operator_hosts),
        subscriptions_max=subscriptions_max,
        archive_calls_max=archive_calls_max,
        timeout_s=timeout,
        grace_s=grace,
        console=f"127.0.0.1:{console}" if console.isdecimal() else console,
        console_names=console_name or (),
        decoder=decoder,
    )
    run_program("ordo.gateway.server", "gateway", settings, run_workers if workers > 1 else run_here)
