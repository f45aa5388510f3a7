"""Which gRPC status an outcome or an error becomes. docs/GATEWAY.md has the same table, with what to do about each."""

from __future__ import annotations

from grpc import StatusCode

from cluster.client.relay_outcome import Outcome
from runtime import errors
from runtime.errors import OrdoError

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
    Outcome.UNKNOWN: StatusCode.DEADLINE_EXCEEDED,
    Outcome.NOT_SENT: StatusCode.UNAVAILABLE,
}

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
    errors.ArchiveError: StatusCode.UNAVAILABLE,
    errors.TransportError: StatusCode.UNAVAILABLE,
    errors.OrdoError: StatusCode.INTERNAL,
}
"""The nearest class of an error counts."""


def status_of(error: OrdoError) -> StatusCode:
    """The status of an error: that of its nearest class in the table."""
    return next(ERRORS[kind] for kind in type(error).__mro__ if kind in ERRORS)
