"""Requests and responses in all versions that are answered, read and written by kio on the other side."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordo.runtime.errors import DecodeError

pytest.importorskip("kio", reason="needs the extra kafka")

import contextlib

from ordo.gateway.kafka.broker_calls import api_versions
from ordo.gateway.kafka.wire.messages import VERSIONS, Api, UnknownVersionError, decode_request, encode_response
from tests.gateway.kafka.batches import request_of, response_of

EVERY = [(api, version) for api, (lowest, highest) in VERSIONS.items() for version in range(lowest, highest + 1)]


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_every_version_has_a_response(api: Api, version: int) -> None:
    correlation_id, _ = response_of(api, version, encode_response(api, version, 41, {}))
    assert correlation_id == 41


def test_values_are_taken_by_name_and_what_a_version_lacks_is_left_out() -> None:
    partition = {"index": 0, "error_code": 3, "base_offset": 7, "log_start_offset": 2, "strange": 1}
    values = {"responses": [{"name": "orders", "partition_responses": [partition]}], "throttle_time": 250}
    for version in range(*VERSIONS[Api.PRODUCE]):
        _, body = response_of(Api.PRODUCE, version, encode_response(Api.PRODUCE, version, 1, values))
        found = body.responses[0].partition_responses[0]
        assert (found.index, found.error_code, found.base_offset) == (0, 3, 7)
        assert body.throttle_time == datetime.timedelta(milliseconds=250)
        assert getattr(found, "log_start_offset", 2) == 2


def test_clients_are_told_what_is_answered() -> None:
    _, body = response_of(Api.API_VERSIONS, 3, encode_response(Api.API_VERSIONS, 3, 1, api_versions()))
    assert {one.api_key: (one.min_version, one.max_version) for one in body.api_keys} == dict(VERSIONS)


def test_a_request_is_read() -> None:
    request = decode_request(request_of(Api.HEARTBEAT, 0, 9, group_id="g", generation_id=3, member_id="m"))
    assert (request.api, request.version, request.correlation_id, request.client_id) == (Api.HEARTBEAT, 0, 9, "test")
    assert (request.body.group_id, request.body.generation_id, request.body.member_id) == ("g", 3, "m")


@pytest.mark.parametrize("head", [b"\x00\x05\x00\x00", b"\x00\x01\x00\x0c", b"\x00\x01\x00\x00", b"\xff\xff\x00\x00"])
def test_other_requests_and_versions_are_refused(head: bytes) -> None:
    with pytest.raises(UnknownVersionError) as found:
        decode_request(head + b"\x00\x00\x00\x07\xff\xff")
    assert found.value.correlation_id == 7


def test_every_cut_is_refused() -> None:
    frame = request_of(Api.HEARTBEAT, 0, 9, group_id="g", generation_id=3, member_id="m")
    for length in range(len(frame)):
        with pytest.raises(DecodeError):
            decode_request(frame[:length])


@given(st.sampled_from(EVERY), st.binary(max_size=200))
def test_no_bytes_make_another_error(which: tuple[Api, int], rest: bytes) -> None:
    api, version = which
    with contextlib.suppress(DecodeError):
        decode_request(int(api).to_bytes(2, "big") + version.to_bytes(2, "big") + rest)
