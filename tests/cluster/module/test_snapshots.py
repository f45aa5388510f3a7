"""The consensus module's snapshot stream (cluster-consensus.md §16.2)."""

import pytest

from ordo.cluster.module.sessions.service_messages import first_log_session_id
from ordo.cluster.module.sessions.sessions import ClusterSession
from ordo.cluster.module.state import module_snapshot
from ordo.cluster.module.state.module_snapshot import ModuleSnapshot, PendingTracker, SnapshotPoint
from ordo.cluster.wire import codecs
from ordo.cluster.wire.configuration import NamedConfiguration
from ordo.cluster.wire.log_identity import LogIdentity
from ordo.cluster.wire.members import parse_members
from ordo.consensus.state.configuration import Configuration
from ordo.runtime.errors import ClusterError

BASE = first_log_session_id(0)


def _snapshot() -> ModuleSnapshot:
    return ModuleSnapshot(
        SnapshotPoint(800, 3, 1),
        9,
        [ClusterSession(1, 81, 256, 102, "aeron:udp?endpoint=localhost:39384"), ClusterSession(4, 82, 512, 102, "x")],
        [(55, 1000), (56, 2000)],
        [PendingTracker(0, BASE + 3, BASE, [(BASE + 1, b"one"), (BASE + 2, b"")])],
    )


def test_a_snapshot_reads_back_what_was_written() -> None:
    original = _snapshot()
    found = module_snapshot.decode(list(module_snapshot.encode(original)))
    assert found == original


def test_a_configuration_of_the_log_goes_with_it() -> None:
    """Right after BEGIN; a snapshot without one, as of older versions, leaves it to the configuration file."""
    original = _snapshot()
    voters = parse_members("0,a:1,a:2,a:3,a:4,a:5|2,c:1,c:2,c:3,c:4,c:5")
    original.configuration = NamedConfiguration(voters, parse_members("1,b:1,b:2,b:3,b:4,b:5"))
    messages = list(module_snapshot.encode(original))
    assert [int.from_bytes(message[4:6], "little") for message in messages[:3]] == [111, 901, 111]
    found = module_snapshot.decode(messages)
    assert found == original
    assert found.configuration is not None
    assert found.configuration.ids() == Configuration((0, 2), (1,))
    assert module_snapshot.decode(list(module_snapshot.encode(_snapshot()))).configuration is None


def test_the_identity_of_the_log_goes_with_it() -> None:
    original = _snapshot()
    original.identity = LogIdentity(512, bytes(range(16)))
    assert module_snapshot.decode(list(module_snapshot.encode(original))) == original
    assert module_snapshot.decode(list(module_snapshot.encode(_snapshot()))).identity is None


def test_the_stream_has_the_order_and_the_bytes_of_the_worked_example() -> None:
    """§24: BEGIN of type 1, ConsensusModule, sessions, timers, tracker, its messages, END."""
    messages = list(module_snapshot.encode(_snapshot()))
    templates = [int.from_bytes(message[2:4], "little") for message in messages]
    assert templates == [100, 105, 103, 103, 104, 104, 107, 1, 1, 100]
    assert messages[0].hex().startswith("280064006f001100" + "0100000000000000" + "2003000000000000")
    opened = "280067006f001100 0100000000000000 5100000000000000 0001000000000000 ffffffffffffffff 00000080 66000000"
    assert messages[2].startswith(bytes.fromhex(opened))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda messages: messages[:-1], "before its END"),
        (lambda messages: messages[1:], "before the BEGIN"),
        (lambda messages: [messages[0], *messages], "second BEGIN"),
        (lambda messages: [], "before its END"),
    ],
)
def test_a_snapshot_that_is_not_whole_is_refused(damage, reason) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ClusterError, match=reason):
        module_snapshot.decode(damage(list(module_snapshot.encode(_snapshot()))))


def test_a_service_snapshot_is_not_taken_for_the_modules() -> None:
    marker = codecs.SNAPSHOT_MARKER.encode(
        type_id=2, log_position=0, leadership_term_id=0, index=0, mark=0, time_unit=0, app_version=1
    )
    with pytest.raises(ClusterError, match="type_id=2"):
        module_snapshot.decode([marker])
