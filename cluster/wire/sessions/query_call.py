"""One query of a service: the answer, or the reason for none, as it is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ordo.cluster.wire.ordo_codecs import QueryStatus
from ordo.runtime.errors import ServiceError
from ordo.runtime.payloads import to_utf8
from ordo.runtime.reporting.failures import exit_error

if TYPE_CHECKING:
    from ordo.service_api.service import Service


def ask_service(
    service: Service, payload: bytes, note_error: Callable[[Exception], object]
) -> tuple[QueryStatus, bytes]:
    """Call `on_query`. An exception fails only this query, since a read changes no state; it goes to `note_error`."""
    try:
        answer = _ask(service, payload)
        if not isinstance(answer, bytes):
            raise ServiceError(f"on_query must return bytes, returned {type(answer).__name__}")
    except NotImplementedError as error:
        return QueryStatus.UNSUPPORTED, to_utf8(str(error))
    except Exception as error:
        note_error(error)
        return QueryStatus.ERROR, to_utf8(f"{type(error).__name__}: {error}")
    return QueryStatus.OK, answer


def _ask(service: Service, payload: bytes) -> object:
    try:
        return service.on_query(payload)
    except SystemExit as end:
        raise exit_error(end) from end
