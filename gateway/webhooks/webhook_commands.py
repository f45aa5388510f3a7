"""`ordo webhook`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ordo.consumers.consumer_commands import parse_place
from ordo.gateway.doors.options import (
    EGRESS_DEFAULT,
    Egress,
    Endpoints,
    KeyFile,
    TrustedFile,
    client_settings,
    run_program,
    split,
)
from ordo.gateway.webhooks.settings import BODIES, Body, WebhookSettings, read_headers
from ordo.gateway.webhooks.signing import read_secrets
from ordo.runtime.errors import ConfigurationError

DEFAULTS = WebhookSettings
Name = Annotated[str, typer.Argument(help="of the hook: the durable consumer that has its place in the log")]
Url = Annotated[str, typer.Argument(help="where messages are posted: https://HOST/PATH")]
StartOption = Annotated[str, typer.Option(help="where a new hook begins: first, live, or a position of the log")]
BodyKind = Annotated[str, typer.Option("--body", help="json: an object with the message in it; payload: its bytes")]
ContentType = Annotated[str, typer.Option(help="of the body; else application/json, application/octet-stream")]
SecretFile = Annotated[Path | None, typer.Option(help="file of secrets, one a line, whsec_ and base64: each signs")]
HeadersFile = Annotated[Path | None, typer.Option(help="file of further headers, one a line")]
CaFile = Annotated[Path | None, typer.Option(help="PEM file of authorities for the receiver; else the system's")]
Certificate = Annotated[Path | None, typer.Option(help="PEM file of this hook's own chain (mTLS)")]
CertificateKey = Annotated[Path | None, typer.Option(help="PEM file of its key")]
TokenFile = Annotated[Path | None, typer.Option(help="token of the cluster, with the roles consumers and log")]
InFlight = Annotated[int, typer.Option(help="posts at a time; above 1 they come in no order")]
Tries = Annotated[
    int | None, typer.Option(help="with --in-flight: a message that was refused so often is a dead letter; else 16")
]
Timeout = Annotated[float, typer.Option(help="seconds that the receiver may take to answer")]
RetryMin = Annotated[float, typer.Option(help="seconds before a message is tried again; doubled with each try")]
RetryMax = Annotated[float, typer.Option(help="but no more seconds than this")]


def webhook(
    name: Name,
    url: Url,
    endpoints: Endpoints,
    start: StartOption = str(DEFAULTS.start),
    body: BodyKind = DEFAULTS.body,
    content_type: ContentType = "",
    secret_file: SecretFile = None,
    headers_file: HeadersFile = None,
    egress: Egress = EGRESS_DEFAULT,
    token_file: TokenFile = None,
    key_file: KeyFile = None,
    trusted_file: TrustedFile = None,
    ca_file: CaFile = None,
    certificate: Certificate = None,
    key: CertificateKey = None,
    in_flight: InFlight = DEFAULTS.in_flight_max,
    tries: Tries = None,
    timeout: Timeout = DEFAULTS.timeout_s,
    retry_min: RetryMin = DEFAULTS.retry_min_s,
    retry_max: RetryMax = DEFAULTS.retry_max_s,
) -> None:
    """Post each message of the log to a URL, until SIGTERM or SIGINT."""
    if tries is not None and in_flight == 1:
        raise ConfigurationError("--tries is for --in-flight above 1: in order, a message is tried until it is taken")
    settings = WebhookSettings(
        name=name,
        url=url,
        endpoints=split(endpoints),
        client=client_settings(egress, token_file, key_file, trusted_file),
        start=parse_place("--start", start),
        body=_body(body),
        content_type=content_type,
        secrets=() if secret_file is None else read_secrets(secret_file),
        headers={} if headers_file is None else read_headers(headers_file),
        ca_file=str(ca_file or ""),
        certificate=str(certificate or ""),
        key=str(key or ""),
        in_flight_max=in_flight,
        tries_max=DEFAULTS.tries_max if tries is None else tries,
        timeout_s=timeout,
        retry_min_s=retry_min,
        retry_max_s=retry_max,
    )
    settings.tls_context()
    run_program("ordo.gateway.webhooks.hooks", "gateway", settings)


def _body(text: str) -> Body:
    for one in BODIES:
        if text == one:
            return one
    raise ConfigurationError(f"--body {text}: allowed is {' or '.join(BODIES)}")
