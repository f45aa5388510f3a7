"""Which gRPC status an outcome or an error becomes. docs/GATEWAY.md has the same table, with what to do about each."""

from __future__ import annotations

from grpc import StatusCode

from ordo.archive.protocol.codes import ErrorCode
from ordo.cluster.client.requests.relay_outcome import Outcome
from ordo.runtime import errors
from ordo.runtime.errors import OrdoError, RequestOutcome

OUTCOMES: dict[Outcome, StatusCode] = {
    Outcome.EXECUTED: StatusCode.OK,
    Outcome.REJECTED: StatusCode.FAILED_PRECONDITION,
    Outcome.ANSWER_TOO_LONG: StatusCode.DATA_LOSS,
    Outcome.CONFIRMED_BEFORE: StatusCode.ALREADY_EXISTS,
    Outcome.OUT_OF_ORDER: StatusCode.OUT_OF_RANGE,
    Outcome.PAYLOAD_TOO_LONG: StatusCode.INVALID_ARGUMENT,
    Outcome.KEPT_TOO_MUCH: StatusCode.RESOURCE_EXHAUSTED,
    Outcome.IDENTITIES_FULL: StatusCode.RESOURCE_EXHAUSTED,
    Outcome.IDENTITY_EXPIRED: StatusCode.ABORTED,
    Outcome.IDENTITY_SUPERSEDED: StatusCode.ABORTED,
    Outcome.IDENTITY_FORBIDDEN: StatusCode.PERMISSION_DENIED,
    Outcome.ID_CONFLICT: StatusCode.INVALID_ARGUMENT,
    Outcome.FORGOTTEN: StatusCode.ALREADY_EXISTS,
    Outcome.IDS_NOT_TAKEN: StatusCode.UNIMPLEMENTED,
    Outcome.UNKNOWN: StatusCode.DEADLINE_EXCEEDED,
    Outcome.NOT_SENT: StatusCode.UNAVAILABLE,
}

EXECUTED, NOT_EXECUTED, UNKNOWN = RequestOutcome.EXECUTED, RequestOutcome.NOT_EXECUTED, RequestOutcome.UNKNOWN
SAID: dict[Outcome, RequestOutcome] = {
    Outcome.EXECUTED: EXECUTED,
    Outcome.REJECTED: EXECUTED,
    Outcome.ANSWER_TOO_LONG: EXECUTED,
    Outcome.CONFIRMED_BEFORE: EXECUTED,
    Outcome.FORGOTTEN: EXECUTED,
    Outcome.OUT_OF_ORDER: NOT_EXECUTED,
    Outcome.PAYLOAD_TOO_LONG: NOT_EXECUTED,
    Outcome.KEPT_TOO_MUCH: NOT_EXECUTED,
    Outcome.IDENTITIES_FULL: NOT_EXECUTED,
    Outcome.IDENTITY_FORBIDDEN: NOT_EXECUTED,
    Outcome.ID_CONFLICT: NOT_EXECUTED,
    Outcome.IDS_NOT_TAKEN: NOT_EXECUTED,
    Outcome.NOT_SENT: NOT_EXECUTED,
    Outcome.IDENTITY_EXPIRED: UNKNOWN,
    Outcome.IDENTITY_SUPERSEDED: UNKNOWN,
    Outcome.UNKNOWN: UNKNOWN,
}
"""What the trailing metadata `ordo-outcome` says."""

ERRORS: dict[type[OrdoError], StatusCode] = {
    errors.ConfigurationError: StatusCode.INVALID_ARGUMENT,
    errors.NotPermittedError: StatusCode.PERMISSION_DENIED,
    errors.SessionRejectedError: StatusCode.UNAUTHENTICATED,
    errors.NoQuorumError: StatusCode.UNAVAILABLE,
    errors.OutcomeUnknownError: StatusCode.DEADLINE_EXCEEDED,
    errors.ClusterTimeoutError: StatusCode.UNAVAILABLE,
    errors.SessionClosedError: StatusCode.UNAVAILABLE,
    errors.QueryFailedError: StatusCode.FAILED_PRECONDITION,
    errors.ClusterError: StatusCode.FAILED_PRECONDITION,
    errors.CorruptFrameError: StatusCode.DATA_LOSS,
    errors.ArchiveError: StatusCode.UNAVAILABLE,
    errors.TransportError: StatusCode.UNAVAILABLE,
    errors.OrdoError: StatusCode.INTERNAL,
}
"""The nearest class of an error counts."""

ARCHIVE_CODES: dict[int, StatusCode] = {
    ErrorCode.UNKNOWN_RECORDING: StatusCode.NOT_FOUND,
    ErrorCode.MAX_REPLAYS: StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.AUTHENTICATION_REJECTED: StatusCode.UNAUTHENTICATED,
    ErrorCode.UNAUTHORISED_ACTION: StatusCode.PERMISSION_DENIED,
    ErrorCode.INVALID_POSITION: StatusCode.OUT_OF_RANGE,
}
"""Keyed by the code of an ArchiveError: refusals that the caller can do something about."""


def status_of(error: OrdoError) -> StatusCode:
    """Return the status of an error.

    That of its code, when an archive has refused, else of its nearest class in the table.
    """
    if isinstance(error, errors.ArchiveError) and error.code in ARCHIVE_CODES:
        return ARCHIVE_CODES[error.code]
    return next(ERRORS[kind] for kind in type(error).__mro__ if kind in ERRORS)
