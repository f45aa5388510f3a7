"""What `ordo top` makes of what members say: rates, lags, order, keys, and the picture of the documentation."""

from __future__ import annotations

import pytest

from ordo.cluster.client.operator import MemberLook
from ordo.cluster.monitoring.top import COLUMNS, Row, Top, View, duration, number
from ordo.cluster.monitoring.top_screen import draw, split_keys
from ordo.runtime.errors import ClusterTimeoutError
from ordo.runtime.native.time_units import SECOND_NS
from ordo.runtime.reporting.terminal import output_console
from tools.top_picture import draw_example, example, words_of_picture


def rows_after(passed_s: int) -> list[Row]:
    top = Top()
    top.rows(example(0), 0)
    return top.rows(example(passed_s), passed_s * SECOND_NS)


def test_rates_are_those_between_two_looks() -> None:
    first = Top().rows(example(0), 0)
    assert first[1].commit_rate == -1, "one look has no rates"
    leader = rows_after(4)[1]
    assert leader.commit_rate == pytest.approx(31_400_000)
    assert leader.sent_rate == pytest.approx(70_000_000)
    assert leader.back_pressure_rate == pytest.approx(3)


def test_a_member_that_starts_again_has_no_negative_rate() -> None:
    top = Top()
    top.rows(example(9), 0)
    assert top.rows(example(0), SECOND_NS)[1].commit_rate == 0


def test_lag_is_behind_the_highest_commit_position() -> None:
    rows = rows_after(1)
    assert [row.lag for row in rows] == [0, 0, 96_000_000, 0, -1]
    assert [row.service_lag for row in rows[:4]] == [2_048] * 4
    assert [row.lost for row in rows] == ["", "", "", "LOG", ""]


def test_percentiles_are_of_what_came_between_two_looks() -> None:
    leader, follower = rows_after(1)[1], rows_after(1)[0]
    assert (leader.round_trip_p50_ns, leader.round_trip_p99_ns) == (196_608, 1_572_864)
    assert (follower.round_trip_p50_ns, follower.round_trip_p99_ns) == (-1, -1)
    assert Top().rows(example(5), 0)[1].round_trip_p50_ns == -1, "one look has none"
    words = words_of_picture()
    assert words[words.index("round") :][:6] == ["round", "trip", "p50", "197us", "p99", "1.57ms"]


@pytest.mark.parametrize(("value_ns", "shown"), [(1_024, "1.02us"), (524_288_000, "524ms"), (8 << 30, "8.59s")])
def test_durations_are_short(value_ns: int, shown: str) -> None:
    assert duration(value_ns) == shown


def test_damage_that_is_not_mended_is_shown() -> None:
    rows = rows_after(1)
    assert [row.damaged for row in rows] == [0, 0, 1, 0, -1]
    assert [row.scrub_percent for row in rows] == [37, 37, 37, 37, -1]
    shown = next(column.show for column in COLUMNS if column.title == "damaged")
    assert [shown(row) for row in rows] == ["0", "0", "1", "0", "-"]


def test_who_does_not_answer_is_there_with_the_reason() -> None:
    silent = rows_after(1)[4]
    assert (silent.member, silent.trouble) == (-1, "it does not accept a connection")


def test_what_is_not_told_is_unknown_and_not_zero() -> None:
    (row,) = Top().rows({"a:1": MemberLook({}, {})}, 0)
    assert {row.lag, row.service_lag, row.commit, row.sessions, row.disk_free, row.snapshot_age} == {-1}
    assert [column.show(row) for column in COLUMNS][3:15] == ["-"] * 12


def test_every_column_sorts_and_the_silent_come_last() -> None:
    rows = rows_after(1)
    for _ in COLUMNS:
        view = View()
        view.press("s", len(rows))
        assert view.sort(rows)[-1].trouble
    by_lag = View(column=next(index for index, one in enumerate(COLUMNS) if one.title == "lag"), is_reversed=True)
    assert by_lag.sort(rows)[0].member == 2


def test_keys() -> None:
    view = View()
    for key in ("j", "\x1b[B", "j", "j"):
        view.press(key, 3)
    assert view.chosen == 2, "the last one"
    for _ in range(5):
        view.press("k", 3)
    assert view.chosen == 0
    view.press("S", 3)
    assert view.column == len(COLUMNS) - 1
    view.press("s", 3)
    view.press("r", 3)
    assert (view.column, view.is_reversed) == (0, True)
    view.press("\r", 3)
    assert view.is_inside
    view.press("\x1b", 3)
    view.press("x", 3)
    assert not view.is_inside and not view.has_ended
    view.press("q", 3)
    assert view.has_ended
    empty = View()
    empty.press("j", 0)
    assert empty.chosen == 0


def test_keys_that_are_read_at_once_are_several() -> None:
    assert split_keys("j\x1b[Bk\r\x1b") == ["j", "\x1b[B", "k", "\r", "\x1b"]
    assert split_keys("") == ["q"], "the terminal is gone"


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (-1, "-"), (999, "999"), (1_500, "1.5k"), (412e9, "412G"), (9e15, "9000T")]
)
def test_numbers_are_short(value: float, shown: str) -> None:
    assert number(value) == shown


def test_a_message_of_another_machine_is_no_markup() -> None:
    (row,) = Top().rows({"a:1": ClusterTimeoutError("a:1: [bold]x[/nonsense]")}, 0)
    console = output_console()
    with console.capture() as captured:
        console.print(draw([row], View(is_inside=True)))
    assert "[bold]x[/nonsense]" in captured.get()


def test_the_picture_shows_what_is_drawn_today() -> None:
    assert words_of_picture() == draw_example().export_text().split(), "run `make fix`"
