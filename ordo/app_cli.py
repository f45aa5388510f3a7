"""`ordo app`: one instance of an application, outside the cluster."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from archive.lmdb_store import open_lmdb
from cluster.client.settings import ClientSettings
from cluster.container.service_loader import load_service
from cluster.wire.app_version import parse_version
from runtime.credentials import credentials_from_file
from runtime.errors import OrdoError, ServiceError
from runtime.logging import configure_logging, get_logger
from runtime.storage import FileStorage
from sequencer.application import Application, ApplicationSettings, AppMode
from sequencer.canary import Difference
from sequencer.cli import PAYLOAD_LENGTH_MAX
from sequencer.outputs import Output
from transport.client_transport import ClientTransport

PARK_NS = 1_000_000
T = TypeVar("T")


def app(
    service: Annotated[str, typer.Option(help="the service, as module:Class")],
    group: Annotated[str, typer.Option(help="name of the group; all its instances run the same service")],
    endpoints: Annotated[str, typer.Option(help="first port of each member: host:port,host:port,...")],
    folder: Annotated[Path, typer.Option(help="where this instance keeps its checkpoint; of no other instance")],
    egress: Annotated[
        str, typer.Option(help="address of this host that the members reach; port 0 for any")
    ] = "127.0.0.1:0",
    token_file: Annotated[
        Path | None,
        typer.Option(help="file with a token of the roles ingress and log"),
    ] = None,
    checkpoint: Annotated[float, typer.Option(help="seconds between checkpoints")] = 10.0,
    mode: Annotated[
        AppMode, typer.Option(help="all instances of the group write, or one of them; canary: this one only compares")
    ] = AppMode.ACTIVE_ACTIVE,
    instance: Annotated[str, typer.Option(help="what `ordo apps` calls this instance; else HOST:FOLDER")] = "",
    app_version: Annotated[str, typer.Option(help="of the service's code: N or MAJOR.MINOR.PATCH")] = "1",
) -> None:
    """Run one instance of an application until SIGTERM or SIGINT."""
    configure_logging()
    settings = ApplicationSettings(
        group=group,
        endpoints=[one.strip() for one in endpoints.split(",") if one.strip()],
        folder=str(folder),
        client=ClientSettings(
            egress_channel=f"aeron:udp?endpoint={egress}",
            credentials=b"" if token_file is None else credentials_from_file(token_file),
        ),
        checkpoint_interval_s=checkpoint,
        mode=mode,
        instance=instance or f"{socket.gethostname()}:{folder.name}",
        app_version=parse_version(app_version),
    )
    run_application(service, settings)


def run_application(service: str, settings: ApplicationSettings) -> None:
    """Runs `module:Class` as an instance until this process is told to end. Raises OrdoError."""
    service_class = load_service(service)
    stopping = _stop_signals()
    transport = ClientTransport.embedded("app")
    try:
        application = _in_words(
            lambda: Application(
                service_class,
                settings,
                transport=transport,
                storage=FileStorage(open_lmdb),
                on_difference=lambda one: _log_difference(one, settings),
            ),
            settings,
        )
        get_logger().info("app.started", group=settings.group, position=application.position)
        is_in_order = False
        try:
            _run(application, transport, stopping, settings)
            is_in_order = True
        finally:
            application.close(save=is_in_order)
            get_logger().info("app.ended", group=settings.group, position=application.position)
    finally:
        transport.close()


def _run(
    application: Application, transport: ClientTransport, stopping: list[int], settings: ApplicationSettings
) -> None:
    trouble, is_active = "", settings.mode is AppMode.ACTIVE_ACTIVE
    while not stopping:
        if _in_words(application.work, settings) == 0:
            transport.park(PARK_NS)
        if application.trouble != trouble:
            trouble = application.trouble
            get_logger().warning("app.session", group=settings.group, trouble=trouble)
        if application.is_active != is_active:
            is_active = application.is_active
            event = "app.active" if is_active else "app.passive"
            get_logger().info(event, group=settings.group, position=application.position)


def _log_difference(one: Difference, settings: ApplicationSettings) -> None:
    get_logger().warning(
        "app.difference",
        group=settings.group,
        position=one.input_position,
        index=one.output_index,
        difference=one.describe(),
        written=_show(one.written),
        canary=_show(one.made),
    )


def _show(output: Output | None) -> str | None:
    """Returns the beginning of the payload, as `ordo log` shows it."""
    return None if output is None else repr(output.payload[:PAYLOAD_LENGTH_MAX])


def _in_words(action: Callable[[], T], settings: ApplicationSettings) -> T:
    """What the service raises becomes one line."""
    try:
        return action()
    except OrdoError:
        raise
    except Exception as error:
        raise ServiceError(f"group {settings.group}: the service raised {type(error).__name__}: {error}") from error


def _stop_signals() -> list[int]:
    """Fills once the process is told to end."""
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: stopping.append(received))
    return stopping
