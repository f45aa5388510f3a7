"""The body of `ordo app run`: runs an instance of an application until the process is told to end."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ordo.applications.application import Application, ApplicationSettings, AppMode
from ordo.applications.canary import Difference
from ordo.applications.outputs import Output, RefusedOutput
from ordo.applications.snapshot_keeper import SnapshotKeeper, SnapshotPlace
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.container.service_loader import load_service
from ordo.cluster.wire.sessions.difference_codec import PAYLOAD_BYTES_MAX
from ordo.runtime.errors import OrdoError, ServiceError
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.reporting.logging import configure_program, get_logger
from ordo.runtime.security.credentials import credentials_from_file
from ordo.transport.client.client_transport import ClientTransport

T = TypeVar("T")


def make_keeper(archive: str, every_s: float, token_file: Path | None, group: str) -> SnapshotKeeper | None:
    """Return a keeper of the group's snapshots in an archive, or None without an archive."""
    if not archive:
        return None
    token = b"" if token_file is None else credentials_from_file(token_file)
    return SnapshotKeeper(SnapshotPlace(archive, every_s, token), group)


def run_application(
    services: dict[int, str], settings: ApplicationSettings, keeper: SnapshotKeeper | None = None
) -> None:
    """Run an instance until this process is told to end. `module:Class` names the code of each version.

    Raises OrdoError.
    """
    configure_program()
    code = {version: load_service(name) for version, name in services.items()}
    stopping = _stop_signals()
    transport = ClientTransport.embedded("app")
    try:
        application = _in_words(
            lambda: Application(
                code,
                settings,
                transport=transport,
                storage=FileStorage(open_lmdb),
                on_difference=lambda one: _log_difference(one, settings),
                on_query_error=lambda error: _log_query_error(error, settings),
                find_snapshot=None if keeper is None else keeper.find,
                on_refused=lambda one: _log_refused(one, settings),
            ),
            settings,
        )
        get_logger().info("app.started", group=settings.group, position=application.position)
        is_in_order = False
        try:
            _run(application, transport, stopping, settings, keeper)
            is_in_order = True
        finally:
            application.close(save=is_in_order)
            counts = {"refused": application.outputs_refused, "repeated": application.executor.outputs_repeated}
            get_logger().info("app.ended", group=settings.group, position=application.position, **counts)
    finally:
        transport.close()


def _run(
    application: Application,
    transport: ClientTransport,
    stopping: list[int],
    settings: ApplicationSettings,
    keeper: SnapshotKeeper | None,
) -> None:
    trouble, held, is_active = "", "", settings.mode is AppMode.ACTIVE_ACTIVE
    quiet_since_ns = transport.clock.now()
    while not stopping:
        if _in_words(application.work, settings):
            quiet_since_ns = transport.clock.now()
        else:
            transport.rest(quiet_since_ns)
        if application.trouble != trouble:
            trouble = application.trouble
            get_logger().warning("app.session", group=settings.group, trouble=trouble)
        if application.held != held:
            held = application.held
            get_logger().warning("app.held", group=settings.group, reason=held or "goes on")
        if application.is_active != is_active:
            is_active = application.is_active
            event = "app.active" if is_active else "app.passive"
            get_logger().info(event, group=settings.group, position=application.position)
        if keeper is not None and settings.mode is not AppMode.CANARY:
            _in_words(lambda: keeper.work(application, transport), settings)


def _log_difference(one: Difference, settings: ApplicationSettings) -> None:
    get_logger().warning(
        "app.difference",
        group=settings.group,
        position=one.input_position,
        index=one.output_index,
        difference=one.kind.text,
        written=_show(one.written),
        canary=_show(one.made),
    )


def _log_refused(one: RefusedOutput, settings: ApplicationSettings) -> None:
    get_logger().warning(
        "app.refused", group=settings.group, output=one.number, position=one.log_position, reason=one.reason
    )


def _log_query_error(error: Exception, settings: ApplicationSettings) -> None:
    get_logger().warning("app.query", group=settings.group, error=f"{type(error).__name__}: {error}")


def _show(output: Output | None) -> str | None:
    """Return the beginning of the payload, as `ordo log` shows it."""
    return None if output is None else repr(output.payload[:PAYLOAD_BYTES_MAX])


def _in_words(action: Callable[[], T], settings: ApplicationSettings) -> T:
    """Run an action; turn exceptions of the service into one line."""
    try:
        return action()
    except OrdoError:
        raise
    except Exception as error:
        raise ServiceError(f"group {settings.group}: the service raised {type(error).__name__}: {error}") from error


def _stop_signals() -> list[int]:
    """Return a list that gets an item once the process is told to end."""
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: stopping.append(received))
    return stopping
