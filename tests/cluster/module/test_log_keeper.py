"""The keeper of a member's log: how much of the disk a recording of it may take."""

from __future__ import annotations

from unittest import mock

from ordo.cluster.module.log.log_keeper import LogKeeper


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
