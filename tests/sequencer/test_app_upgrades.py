"""A group goes on with other code from one record of the log on."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ordo.applications.app_executor import AppExecutor
from ordo.applications.app_versions import AppVersions
from ordo.applications.canary import CanaryExecutor
from ordo.applications.commands.instance_commands import _parse_services
from ordo.cluster.wire.sessions.consumer_codec import CommandKind, ConsumerCommand, encode_command
from ordo.runtime.errors import ConfigurationError, ServiceError, SnapshotError
from tests.sequencer.applications import Numbered, Renumbered
from tests.sequencer.test_app_executor import CLIENT, FIRST, Log

CODE = {1: Numbered, 2: Renumbered}


def versions(*numbers: int) -> AppVersions:
    return AppVersions({number: CODE[number] for number in numbers or CODE})


def executor(*numbers: int, snapshot: Iterable[bytes] | None = None) -> AppExecutor:
    return AppExecutor(versions(*numbers), "tested", snapshot)


def order(log: Log, former: int, wanted: int, group: str = "tested", session_id: int = CLIENT) -> int:
    command = ConsumerCommand(CommandKind.APP_UPGRADE, group, position=wanted, from_position=former)
    return log.append(encode_command(command, 1, session_id))


def payloads(one: AppExecutor) -> list[bytes]:
    return [output.payload for output in one.cluster.pending]


def test_what_follows_the_record_is_executed_by_the_other_code_with_the_state_of_the_first() -> None:
    one = executor()
    log = Log(one)
    log.message(b"abc")
    position = order(log, 1, 2)
    log.message(b"de")
    order(log, 1, 2)
    log.message(b"f")
    assert payloads(one) == [b"1.0 3", b"1.1 3", b"v2 2.0 5", b"v2 2.1 5", b"v2 3.0 6", b"v2 3.1 6"]
    assert (one.app_version, position < one.position) == (2, True)
    one.cluster.begin_call("on_start", may_call=True)
    opened = log.open_identity(FIRST)
    log.write(FIRST, opened, 1, one.cluster.pending[0])
    assert one.outputs_accepted == 1, "what the first code made is still to be written"


def test_orders_to_other_groups_and_of_sessions_that_are_over_change_nothing() -> None:
    one = executor()
    log = Log(one)
    before = one.position
    order(log, 1, 2, group="other")
    assert one.position == before, "an instance of an earlier release does not see such entries either"
    log.close_session(CLIENT)
    order(log, 1, 2)
    assert one.app_version == 1


def test_a_checkpoint_says_which_code_goes_on() -> None:
    one = executor()
    log = Log(one)
    early = list(one.take_snapshot())
    order(log, 1, 2)
    late = list(one.take_snapshot())
    assert isinstance(executor(snapshot=early).service, Numbered)
    for restored in (executor(snapshot=late), executor(2, snapshot=late)):
        assert isinstance(restored.service, Renumbered) and restored.app_version == 2
    again = Log(one)
    again.executors, again.position = [executor(2, snapshot=late)], one.position
    order(again, 1, 2)
    with pytest.raises(
        SnapshotError, match="is of version 1, and this instance has version 2 only: give it the code of"
    ):
        executor(2, snapshot=early)


def test_an_instance_without_the_code_ends() -> None:
    log = Log(executor(1))
    with pytest.raises(
        ServiceError, match="version 2 is in force from position=384 on, and this instance has version 1"
    ):
        order(log, 1, 2)
    log = Log(executor(2))
    with pytest.raises(ServiceError, match="version 1 is in force up to position=384, and this instance has version 2"):
        order(log, 1, 2)


def test_a_canary_keeps_its_code() -> None:
    canary = CanaryExecutor(versions(2), "tested", on_difference=lambda _: None)
    log = Log(canary)
    order(log, 1, 2)
    assert canary.app_version == 2


def test_code_is_given_by_version() -> None:
    assert _parse_services(["a:B"], 7) == {7: "a:B"}
    assert _parse_services(["1=a:B", "1.2.0=a:C"], 7) == {1: "a:B", 0x10200: "a:C"}
    for names, text in ((["1=a:B", "a:C"], "each must be VERSION=module:Class"), (["1=a:B", "1=a:C"], "given twice")):
        with pytest.raises(ConfigurationError, match=text):
            _parse_services(names, 7)
