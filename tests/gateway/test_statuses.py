"""One table says which status an outcome or an error becomes; it is complete, and the docs have every status of it."""

from __future__ import annotations

import pytest
from grpc import StatusCode

from ordo.archive.protocol.codes import ErrorCode
from ordo.cluster.client.requests.relay_outcome import Outcome
from ordo.deploy.launcher import ROOT
from ordo.gateway.callers.statuses import ARCHIVE_CODES, ERRORS, OUTCOMES, SAID, status_of
from ordo.runtime import errors
from ordo.runtime.errors import OrdoError


def test_every_outcome_has_a_status() -> None:
    assert set(OUTCOMES) == set(Outcome)
    assert set(SAID) == set(Outcome), "and says what became of the request"
    assert [one for one, status in OUTCOMES.items() if status is StatusCode.OK] == [Outcome.EXECUTED]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ClusterTimeoutError("x"), StatusCode.UNAVAILABLE),
        (errors.NoQuorumError("x"), StatusCode.UNAVAILABLE),
        (errors.OutcomeUnknownError("x"), StatusCode.DEADLINE_EXCEEDED),
        (errors.RejectedError("x"), StatusCode.FAILED_PRECONDITION),
        (errors.ArchiveTimeoutError("x"), StatusCode.UNAVAILABLE),
        (errors.ArchiveError("x", code=ErrorCode.UNKNOWN_REPLAY), StatusCode.UNAVAILABLE),
        (errors.ArchiveError("x", code=ErrorCode.INVALID_POSITION), StatusCode.OUT_OF_RANGE),
        (errors.UnknownRecordingError("x", code=ErrorCode.UNKNOWN_RECORDING), StatusCode.NOT_FOUND),
        (errors.CorruptFrameError("x"), StatusCode.DATA_LOSS),
        (errors.DriverTimeoutError("x"), StatusCode.UNAVAILABLE),
        (errors.ServiceError("x"), StatusCode.INTERNAL),
    ],
)
def test_the_code_or_the_nearest_class_of_an_error_counts(error: OrdoError, status: StatusCode) -> None:
    assert status_of(error) is status


def test_the_docs_explain_every_status() -> None:
    page = (ROOT / "docs" / "GATEWAY.md").read_text()
    rows = {line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")}
    used = {*OUTCOMES.values(), *ERRORS.values(), *ARCHIVE_CODES.values()} - {StatusCode.INTERNAL}
    assert {status.name for status in used} <= rows
