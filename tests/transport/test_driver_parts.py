"""Flow control, loss detection, the session map and untethered subscriptions, each by itself."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordo.runtime.errors import TransportError
from ordo.transport.driver.flow.claims import SPANS_LIMIT, Claims
from ordo.transport.driver.flow.flow_control import FlowControl
from ordo.transport.driver.flow.loss import LossDetector
from ordo.transport.driver.frames.pointers import exercise_map
from ordo.transport.driver.receiving.untethered import Tether

S = 1_000_000_000
WINDOW = 1000
TERM = 65536


def flow(strategy: str, **options: int) -> FlowControl:
    return FlowControl(strategy, receiver_timeout_ns=5 * S, **options)


# --- flow control (transport-wire.md §7) ------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["unicast", "max"])
def test_max_keeps_the_furthest_edge(strategy: str) -> None:
    control = flow(strategy)
    assert control.status(1, 5000, WINDOW, limit=0, now_ns=0) == 6000
    assert control.status(2, 100, WINDOW, limit=6000, now_ns=0) == 6000
    assert control.idle(6000, 100 * S) == 6000
    assert control.satisfied and not control.tracks_receivers


def test_min_keeps_the_nearest_edge() -> None:
    control = flow("min")
    assert control.status(1, 5000, WINDOW, limit=0, now_ns=0) == 6000
    assert control.status(2, 4500, WINDOW, limit=6000, now_ns=0) == 6000, "the limit never falls on a message"
    assert control.idle(6000, 1) == 5500, "on idle it may"
    assert control.status(2, 7000, WINDOW, limit=5500, now_ns=2) == 6000
    assert control.receiver_count == 2


def test_min_does_not_admit_a_receiver_far_behind() -> None:
    control = flow("min")
    control.status(1, 50_000, WINDOW, limit=0, now_ns=0)
    assert control.status(2, 100, WINDOW, limit=51_000, now_ns=0) == 51_000
    assert control.receiver_count == 1


def test_min_forgets_who_left_and_who_is_silent() -> None:
    control = flow("min")
    control.status(1, 5000, WINDOW, limit=0, now_ns=0)
    control.status(2, 4800, WINDOW, limit=6000, now_ns=3 * S)
    control.status(2, 4800, WINDOW, limit=6000, now_ns=3 * S, leaving=True)
    assert control.idle(6000, 3 * S) == 6000
    assert control.receiver_count == 1
    assert control.idle(6000, 6 * S) == 6000
    assert control.receiver_count == 0


def test_an_error_removes_a_receiver_on_idle() -> None:
    control = flow("min")
    control.status(1, 5000, WINDOW, limit=0, now_ns=0)
    control.error(1)
    control.idle(6000, 1)
    assert control.receiver_count == 0


def test_a_group_below_its_size_moves_nothing() -> None:
    control = flow("min", group_min_size=2)
    assert control.status(1, 5000, WINDOW, limit=10, now_ns=0) == 10
    assert not control.satisfied
    assert control.status(2, 6000, WINDOW, limit=10, now_ns=0) == 6000
    assert control.satisfied


def test_tagged_listens_to_its_group_only() -> None:
    control = flow("tagged", group_tag=7)
    assert control.status(1, 5000, WINDOW, limit=0, now_ns=0) == 6000, "nobody of the group yet"
    assert control.status(2, 4000, WINDOW, limit=6000, now_ns=0, tag=7) == 6000
    assert control.idle(6000, 1) == 5000
    assert control.status(1, 9000, WINDOW, limit=5000, now_ns=1) == 5000
    assert control.status(3, 9000, WINDOW, limit=5000, now_ns=1, tag=8) == 5000
    assert control.receiver_count == 1


def test_a_late_joiner_is_waited_for() -> None:
    control = flow("min")
    control.status(1, 5000, WINDOW, limit=0, now_ns=0)
    control.send_setup(6000, 1)
    assert control.status(1, 6000, WINDOW, limit=6000, now_ns=2) == 6000, "held at the limit of the SETUP"
    assert control.status(2, 5500, WINDOW, limit=6000, now_ns=3) == 6500, "the newcomer ends the hold"
    control.send_setup(6500, 4)
    control.idle(6500, 6 * S)
    assert control.status(1, 6500, WINDOW, limit=6500, now_ns=6 * S) == 7500, "the hold ends with the timeout"


def test_an_unknown_strategy_is_named() -> None:
    with pytest.raises(TransportError, match="fc='fast'"):
        flow("fast")


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 100), st.booleans()), max_size=40))
def test_min_agrees_with_an_obvious_model(messages: list[tuple[int, int, bool]]) -> None:
    control, model, limit = flow("min"), dict[int, int](), 0
    for receiver, place, idle in messages:
        edge = place * 100 + WINDOW
        if receiver in model:
            model[receiver] = max(model[receiver], edge)
        elif not model or edge >= min(model.values()) - WINDOW:
            model[receiver] = edge
        limit = control.status(receiver, place * 100, WINDOW, limit=limit, now_ns=0)
        assert limit >= min(model.values())
        if idle:
            limit = control.idle(limit, 0)
            assert limit == min(model.values())


# --- loss detection (transport-wire.md §6.1) --------------------------------------------------------------------------


def detector(**options: object) -> LossDetector:
    settings = {
        "is_multicast": False,
        "is_reliable": True,
        "delay_ns": 10,
        "retry_delay_ns": 1000,
        "backoff_max_ns": 10_000_000,
        "group_size": 10,
        "seed": 3,
        **options,
    }
    return LossDetector(**settings)  # type: ignore[arg-type]


def claims(*ranges: tuple[int, int], whole: int = 0) -> Claims:
    made = Claims(whole)
    assert all(made.claim(start, end) for start, end in ranges)
    return made


def test_the_first_gap_is_found_and_asked_for_again_until_it_is_filled() -> None:
    taken, loss = claims((0, 128), (256, 320), (448, 480)), detector()
    assert loss.scan_claims(taken, TERM, 480, 1000) == (128, 128)
    assert not loss.is_due(1009) and loss.is_due(1010)
    assert not loss.is_due(2009) and loss.is_due(2010)
    assert taken.claim(128, 256)
    assert loss.scan_claims(taken, TERM, 480, 3000) == (320, 128), "then the next one"
    assert loss.deadline_ns == 3010
    assert taken.claim(320, 448)
    assert loss.scan_claims(taken, TERM, 480, 4000) == (None, 0)
    assert loss.deadline_ns is None


def test_a_gap_that_stays_is_asked_for_less_and_less_often() -> None:
    """One was asked for 2,800 times in 0.9 s, while its sender stood still."""
    taken, loss = claims((0, 128), (256, 320)), detector(delay_ns=1_000, retry_delay_ns=100_000)

    def asked_for(start_ns: int, duration_ns: int) -> list[int]:
        times = []
        for now_ns in range(start_ns, start_ns + duration_ns, 1_000):
            loss.scan_claims(taken, TERM, 320, now_ns)
            times += [now_ns] if loss.is_due(now_ns) else []
        return times

    times = asked_for(0, 900_000_000)
    delays = [after - before for before, after in pairwise(times)]
    assert times[0] == 1_000, "the first one is not late"
    assert delays[:8] == [100_000 << number for number in range(7)] + [10_000_000]
    assert set(delays[8:]) == {10_000_000} and len(times) < 100
    assert taken.claim(128, 160)
    again = asked_for(900_000_000, 500_000)
    assert [time - 900_000_000 for time in again] == [1_000, 101_000, 301_000], "what has changed starts anew"


def test_a_retry_delay_above_the_backoff_is_kept() -> None:
    loss = detector(retry_delay_ns=60_000_000)
    loss.scan_claims(claims(), TERM, 64, 0)
    assert [loss.is_due(at) for at in (10, 60_000_009, 60_000_010, 120_000_009, 120_000_010)] == [
        True, False, True, False, True,
    ]  # fmt: skip


def test_a_gap_reaches_to_the_high_water_mark_and_to_the_end_of_the_term() -> None:
    assert detector().scan_claims(claims(whole=TERM - 256), TERM, 70_000, 0) == (TERM - 256, 256)
    assert detector().scan_claims(claims(whole=TERM), TERM, 70_000, 0) == (TERM, 70_000 - TERM)
    assert detector().scan_claims(claims(), TERM, 4096, 0) == (0, 4096)


def test_a_growing_gap_starts_anew() -> None:
    loss = detector()
    loss.scan_claims(claims(), TERM, 64, 0)
    assert loss.is_due(10)
    loss.scan_claims(claims(), TERM, 128, 500)
    assert not loss.is_due(509) and loss.is_due(510)


def test_multicast_delays_are_random_within_the_backoff() -> None:
    delays = []
    for seed in range(1, 200):
        loss = detector(is_multicast=True, seed=seed * 7919)
        loss.scan_claims(claims(), TERM, 64, 0)
        assert loss.deadline_ns is not None
        delays.append(loss.deadline_ns)
    assert all(0 <= d <= 10_000_000 for d in delays)
    assert len(set(delays)) > 150 and max(delays) > 5_000_000


def test_unreliable_streams_wait_for_nothing() -> None:
    loss = detector(is_reliable=False)
    loss.scan_claims(claims(), TERM, 64, 77)
    assert loss.is_due(77)


# --- claimed bytes ----------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), max_size=80), st.integers(0, 5))
def test_claims_are_a_set_of_bytes(ranges: list[tuple[int, int]], whole: int) -> None:
    """Against a set of numbers: what is free is taken, what touches something is not, and nothing else changes."""
    taken, model = Claims(whole), set(range(whole))
    for start, length in ranges:
        wanted = set(range(start, start + length))
        assert taken.claimed(start, start + length) == (wanted <= model)
        fits = start >= whole and not wanted & model
        assert taken.claim(start, start + length) == fits
        if fits:
            model |= wanted
        spans = [(0, taken.whole), *taken.spans_list()]
        assert {n for low, high in spans for n in range(low, high)} == model
        assert all(high < low for (_, high), (low, _) in pairwise(spans)), "in order, and none touches the next"


def test_there_is_room_for_so_many_gaps_and_not_one_more() -> None:
    taken = Claims(0)
    places = list(range(SPANS_LIMIT))
    Random(5).shuffle(places)
    assert all(taken.claim(32 + 64 * place, 64 + 64 * place) for place in places)
    assert not taken.claim(64 * SPANS_LIMIT + 64, 64 * SPANS_LIMIT + 96)
    assert taken.claim(0, 32), "what fills a gap needs no room"
    assert taken.whole == 64 and taken.count == SPANS_LIMIT - 1


# --- the map of sessions ----------------------------------------------------------------------------------------------

_KEYS = st.one_of(st.integers(-20, 20), st.integers(-(1 << 63), (1 << 63) - 1))


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), _KEYS, st.integers(1, 1000)),
            st.tuples(st.just("remove"), _KEYS),
            st.tuples(st.just("get"), _KEYS),
        ),
        max_size=200,
    )
)
def test_the_session_map_is_a_map(operations: list[tuple[object, ...]]) -> None:
    model: dict[object, object] = {}
    expected = []
    for operation in operations:
        if operation[0] == "put":
            model[operation[1]] = operation[2]
        elif operation[0] == "remove":
            model.pop(operation[1], None)
        else:
            expected.append(model.get(operation[1], 0))
    keys = sorted(model, key=str)
    found = exercise_map([*operations, *(("get", key) for key in keys)])
    assert found == expected + [model[key] for key in keys]


# --- untethered subscriptions (transport-wire.md §6.4) ----------------------------------------------------------------


def tether(**options: object) -> Tether:
    return Tether(
        SimpleNamespace(
            is_tethered=False,
            rejoins=True,
            untethered_window_limit_timeout_ns=5 * S,
            untethered_linger_timeout_ns=3 * S,
            untethered_resting_timeout_ns=10 * S,
            **options,
        ),
        0,
    )


def test_an_untethered_position_lingers_rests_and_comes_back() -> None:
    state = tether()
    assert state.check(100, 50, 4 * S) is None, "not late"
    assert state.check(100, 200, 9 * S) is None
    assert state.check(100, 200, 9 * S + 1) == "linger"
    assert state.holds_window
    assert state.check(100, 200, 12 * S) is None
    assert state.check(100, 200, 12 * S + 2) == "rest"
    resting = not state.holds_window
    assert resting
    assert state.check(100, 200, 22 * S + 2) is None
    assert state.check(100, 200, 22 * S + 3) == "rejoin"
    assert state.holds_window


def test_a_tethered_position_is_never_let_go() -> None:
    state = tether()
    state.parameters.is_tethered = True
    assert state.check(0, 100, 1000 * S) is None


def test_an_untethered_position_that_does_not_rejoin_is_closed() -> None:
    state = tether()
    state.parameters.rejoins = False
    assert state.check(0, 100, 6 * S) == "linger"
    assert state.check(0, 100, 10 * S) == "close"
