"""What every call of the gateway needs: who calls, until when, and how it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn, Protocol
from urllib.parse import unquote

import grpc

from ordo.gateway.callers.bounds import NoPlaceError
from ordo.gateway.callers.sessions import CallerSession, GatewaySessions
from ordo.gateway.callers.settings import GatewaySettings
from ordo.gateway.callers.statuses import status_of
from ordo.gateway.doors.settings import SessionsFullError
from ordo.runtime.errors import ClusterTimeoutError, OrdoError, RequestOutcome
from ordo.service_api.request_ids import ID_BYTES_MAX, digest_request_id

MARGIN_S = 0.25
"""The answer that a deadline is about to pass must reach the caller before it does."""
AUTHORIZATION = "authorization"
BEARER = "bearer "
LOG_POSITION = "ordo-log-position"
SEQUENCE = "ordo-sequence"
OUTCOME = "ordo-outcome"
IDENTITY_BYTES = 16
NUMBER_MAX = (1 << 62) - 1
KEEP_INTERVAL_S = 0.2
"""While a caller takes nothing, its reader still says to the archive that it is there."""
Keep = Callable[[], Awaitable[object]]
"""Says so."""


class CallContext(Protocol):
    """What the gateway needs of a `grpc.aio.ServicerContext`, which has no types."""

    def time_remaining(self) -> float | None:
        """Return the seconds until the caller's deadline, None without one."""

    def invocation_metadata(self) -> Sequence[tuple[str, str | bytes]] | None:
        """Return the metadata that the caller sent with the request."""

    def peer(self) -> str:
        """Return the address that the call comes from, such as `ipv4:127.0.0.1:50052`."""

    async def abort(self, code: grpc.StatusCode, details: str, trailing_metadata: tuple[tuple[str, str], ...]) -> None:
        """End the call with an error: raises."""

    async def write(self, message: object) -> None:
        """Send one message of a stream, and return when the caller has room for the next."""


class Deadline:
    """The time until which a call must be answered."""

    def __init__(self, context: CallContext, default_s: float) -> None:
        left_s = context.time_remaining()
        self.is_callers = left_s is not None
        self.seconds = default_s if left_s is None else max(left_s - min(MARGIN_S, left_s / 4), 0.001)


def credentials_of(context: CallContext) -> bytes | None:
    """Return the token in the call's metadata, `authorization: Bearer TOKEN`, or None."""
    for key, value in context.invocation_metadata() or ():
        if key == AUTHORIZATION:
            text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
            return (text[len(BEARER) :] if text[: len(BEARER)].lower() == BEARER else text).strip().encode()
    return None


def host_of(context: CallContext) -> str:
    """Return the address that a call comes from, without its port."""
    family, _, address = str(context.peer()).partition(":")
    return unquote(address.rpartition(":")[0]).strip("[]") if family in ("ipv4", "ipv6") else family


async def refuse(
    context: CallContext,
    code: grpc.StatusCode,
    text: str,
    log_position: int = -1,
    outcome: RequestOutcome | None = None,
    sequence: int = 0,
) -> NoReturn:
    """End a call. `outcome`: what became of the request that it was for; `sequence`: its number, 0 without one."""
    metadata = [(LOG_POSITION, str(log_position))] if log_position >= 0 else []
    if sequence > 0:
        metadata.append((SEQUENCE, str(sequence)))
    if outcome is not None:
        metadata.append((OUTCOME, outcome.value))
        if code is not grpc.StatusCode.FAILED_PRECONDITION and outcome.value not in text:
            text = f"{outcome.value}: {text}"  # a refusal is in the service's own words
    await context.abort(code, text, tuple(metadata))
    raise AssertionError("abort does not return")


async def refuse_with(context: CallContext, error: OrdoError) -> NoReturn:
    """End a call with an error of ours."""
    if isinstance(error, SessionsFullError | NoPlaceError):
        await refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, error.message)
    await refuse(context, status_of(error), error.message, outcome=error.outcome)


async def write(context: CallContext, message: object, keep: Keep) -> None:
    """Send a message of a stream; `keep` is called from time to time until the caller has taken it."""
    writing = asyncio.ensure_future(context.write(message))
    try:
        while not writing.done():
            done, _ = await asyncio.wait((writing,), timeout=KEEP_INTERVAL_S)
            if not done:
                await keep()
        await writing
    finally:
        writing.cancel()


async def session_of(
    context: CallContext, sessions: GatewaySessions, settings: GatewaySettings, deadline: Deadline
) -> CallerSession:
    """Return the session for a call; refuses the call when there is none."""
    try:
        return await sessions.get(credentials_of(context), deadline.seconds, host_of(context))
    except ClusterTimeoutError as error:
        text = f"{error.message}: nothing was sent"
        await refuse(context, grpc.StatusCode.UNAVAILABLE, text, outcome=RequestOutcome.NOT_EXECUTED)
    except OrdoError as error:
        await refuse_with(context, error)


def check_identity(identity: bytes) -> str:
    """Return what is wrong with an identity, or ''."""
    if len(identity) != IDENTITY_BYTES:
        return f"identity of {len(identity)} bytes: must be {IDENTITY_BYTES}"
    return ""


def check_ids(ids: Sequence[bytes]) -> str:
    """Return what is wrong with ids of requests, or ''."""
    longest = max(map(len, ids), default=0)
    return f"id of {longest} bytes: must be at most {ID_BYTES_MAX}" if longest > ID_BYTES_MAX else ""


def digest_of(request_id: bytes) -> bytes | None:
    """Return the digest that is sent for a request's id, or None for an empty id."""
    return digest_request_id(request_id) if request_id else None


def check_numbers(number: int, count: int, confirmed: int, identity_position: int) -> str:
    """Return what is wrong with the numbers of a request, or ''."""
    if not 0 < number <= NUMBER_MAX - count:
        return f"number={number}: the first request of an identity has 1, the next one 2"
    if confirmed >= number:
        return f"confirmed={confirmed}: must be below number={number}, whose answer cannot be there yet"
    if identity_position < 0:
        return f"identity_position={identity_position}: must be what the gateway has said, or 0"
    return ""
