"""How often a host may do what costs much."""

from __future__ import annotations

from ordo.runtime.security.host_rates import HOSTS_MAX, HostRates


def test_a_burst_at_once_and_then_one_in_each_interval() -> None:
    rates = HostRates(20, 5)
    assert [rates.take("a", 1_000) for _ in range(7)] == [True] * 5 + [False] * 2
    assert [rates.take("a", at) for at in (1_019, 1_020, 1_021, 1_040, 1_041)] == [False, True, False, True, False]
    assert [rates.take("a", 9_000) for _ in range(6)] == [True] * 5 + [False], "after a pause the burst is whole again"


def test_one_host_takes_nothing_from_another() -> None:
    rates = HostRates(20, 1)
    assert [rates.take("a", 0), rates.take("a", 0), rates.take("b", 0)] == [True, False, True]


def test_hosts_are_forgotten_and_of_too_many_the_newest_is_refused() -> None:
    rates = HostRates(20, 2)
    assert all(rates.take(str(number), 0) for number in range(HOSTS_MAX))
    assert not rates.take("new", 19)
    assert rates.take("0", 19), "who is known goes on"
    assert rates.take("new", 20), "all but one have made up for it"
    assert [rates.take("0", 20), rates.take("0", 20)] == [True, False], "its account was kept"
