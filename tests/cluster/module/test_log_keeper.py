"""The keeper of a member's log: how much of the disk a recording of it may take, and what brings it to the live log."""

from __future__ import annotations

from unittest import mock

from ordo.cluster.module.log.log_keeper import CATCHUP_RETRY_INTERVAL_NS, LogKeeper
from ordo.consensus.state.commands import JoinLog
from ordo.consensus.state.messages import CatchupPosition, Message
from ordo.sequencer.log_channel import CatchupRequests, LeaderLog


def test_the_copy_of_a_standby_is_bounded_anew_with_every_look_at_the_disk() -> None:
    access = mock.Mock()
    access.archive.descriptor.return_value.stop_position = 640
    keeper = LogKeeper(
        mock.Mock(), mock.Mock(), access, mock.Mock(), mock.Mock(), mock.Mock(), mock.Mock(), mock.Mock()
    )
    keeper.bound(1000)
    copy = mock.Mock(written_position=64)
    access.archive.recording.return_value = copy
    keeper.recording_id = 3
    keeper.take_copy(copy)
    assert copy.limit_position == 1064
    copy.written_position = 1064
    keeper.bound(500)
    assert copy.limit_position == 1564, "retention has made room since then"
    keeper.release_copy()
    access.archive.recording.return_value = None
    keeper.bound(2000)
    assert copy.limit_position == 1564


def test_a_replay_that_ended_before_the_live_log_came_is_asked_for_again() -> None:
    """From where the log stands; until then the leader had no replay, and the member waited for it for ever."""
    own, sequencer = mock.Mock(id=2, catchup="b:9003"), mock.Mock(notified_position=0)
    others = [mock.Mock() for _ in range(8)]
    keeper = LogKeeper(*others)
    log = mock.Mock(is_live=False, position=64)
    log.try_join.return_value, log.try_go_live.return_value = False, False
    sent: list[tuple[int, Message]] = []
    with (
        mock.patch.object(keeper, "_own", own),
        mock.patch.object(keeper, "_sequencer", sequencer),
        mock.patch.object(keeper, "_follower_log", log),
        mock.patch.object(keeper, "_join", JoinLog(7, 1, 5, 64, 64)),
    ):

        def advance(now_ns: int) -> None:
            keeper.advance_join(now_ns, lambda member_id, message: sent.append((member_id, message)))

        advance(0)  # near enough: the live path is added
        log.is_live, log.position = True, 960
        advance(CATCHUP_RETRY_INTERVAL_NS - 1)
        assert not sent, "the live log is on its way"
        advance(CATCHUP_RETRY_INTERVAL_NS)
        advance(2 * CATCHUP_RETRY_INTERVAL_NS - 1)
        assert sent == [(1, CatchupPosition(7, 960, 2, "b:9003"))]
        log.try_go_live.return_value = True
        advance(2 * CATCHUP_RETRY_INTERVAL_NS)
        assert len(sent) == 1


def test_only_a_member_whose_position_stands_still_gets_another_replay() -> None:
    """One that receives its replay asks as often while the live log is on its way, and is always behind that."""
    replay = mock.Mock(is_active=True, position=10_000)
    log = mock.Mock(_replays={1: replay}, _requests={1: CatchupRequests(0, 0)})

    def asks(*positions: int) -> list[bool]:
        return [LeaderLog.needs_replay(log, 1, position) for position in positions]

    assert asks(*range(96, 960, 96)) == [False] * 9
    assert asks(960, 960, 960) == [False, False, True]
    replay.is_active = False
    assert asks(5000) == [True]
