"""Agents, runners and idling."""

import threading

import pytest

from runtime.agent import Agent, AgentInvoker, AgentRunner, AgentTermination, CompositeAgent
from runtime.clock import SystemClock, VirtualClock
from runtime.counters import local_counter
from runtime.idle import BackoffIdle, FutexParker
from runtime.wake import ParkFlag, Waker


class Recorder(Agent):
    def __init__(self, name: str, trace: list[str], failure: Exception | None = None) -> None:
        self.name, self.trace, self.failure = name, trace, failure

    @property
    def role_name(self) -> str:
        return self.name

    def on_start(self) -> None:
        self.trace.append(f"start {self.name}")

    def do_work(self, now_ns: int) -> int:
        self.trace.append(f"work {self.name} {now_ns}")
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        return 1

    def on_close(self) -> None:
        self.trace.append(f"close {self.name}")


def test_invoker_hands_the_clock_down_and_errors_to_the_handler() -> None:
    trace: list[str] = []
    errors: list[Exception] = []
    clock = VirtualClock(5)
    failure = ValueError("bad")
    invoker = AgentInvoker(Recorder("a", trace, failure), clock, errors.append)

    invoker.start()
    assert invoker.invoke() == 0
    clock.advance(1)
    assert invoker.invoke() == 1
    invoker.close()
    invoker.close()

    assert trace == ["start a", "work a 5", "work a 6", "close a"]
    assert errors == [failure]
    assert invoker.invoke() == 0


def test_termination_closes_the_agent_without_an_error() -> None:
    trace: list[str] = []
    errors: list[Exception] = []
    invoker = AgentInvoker(Recorder("a", trace, AgentTermination("done")), VirtualClock(), errors.append)
    invoker.start()
    invoker.invoke()
    assert invoker.closed
    assert errors == []
    assert trace[-1] == "close a"


def test_error_handler_may_terminate() -> None:
    def handler(error: Exception) -> None:
        raise AgentTermination(str(error))

    invoker = AgentInvoker(Recorder("a", [], ValueError("x")), VirtualClock(), handler)
    invoker.start()
    invoker.invoke()
    assert invoker.closed


def test_composite_goes_on_behind_an_agent_that_raised() -> None:
    trace: list[str] = []
    agents = [Recorder("a", trace), Recorder("b", trace, ValueError("x")), Recorder("c", trace)]
    composite = CompositeAgent(*agents)

    with pytest.raises(ValueError, match="x"):
        composite.do_work(1)
    assert composite.do_work(2) == 1
    assert composite.do_work(3) == 3

    assert trace == ["work a 1", "work b 1", "work c 2", "work a 3", "work b 3", "work c 3"]
    assert composite.role_name == "a+b+c"


def test_composite_closes_all_in_reverse() -> None:
    trace: list[str] = []
    composite = CompositeAgent(Recorder("a", trace), Recorder("b", trace))
    composite.on_start()
    composite.on_close()
    assert trace == ["start a", "start b", "close b", "close a"]


class OnePing(Agent):
    def __init__(self) -> None:
        self.worked = threading.Event()

    def do_work(self, now_ns: int) -> int:
        self.worked.set()
        return 0


def test_runner_runs_on_its_thread_and_a_futex_park_is_ended_by_close() -> None:
    flag = ParkFlag(local_counter())
    idle = BackoffIdle(FutexParker(flag), spins_max=1, yields_max=1, park_ns_max=60_000_000_000)
    agent = OnePing()
    runner = AgentRunner(agent, idle, SystemClock(), lambda error: None)

    runner.start()
    assert agent.worked.wait(10)
    runner.close(timeout_s=30)

    assert not runner.is_running
    assert flag.parked == 0


def test_runner_raises_what_on_start_raised() -> None:
    class Bad(Agent):
        def on_start(self) -> None:
            raise ValueError("cannot start")

    runner = AgentRunner(Bad(), BackoffIdle(), SystemClock(), lambda error: None)
    with pytest.raises(ValueError, match="cannot start"):
        runner.start()
    assert not runner.is_running


def test_backoff_spins_yields_looks_once_more_and_parks() -> None:
    parks: list[int] = []
    idle = BackoffIdle(parks.append, spins_max=2, yields_max=1, park_ns_min=10, park_ns_max=35)
    for _ in range(9):
        idle.after(0)
    assert (idle.spin_count, idle.yield_count, idle.park_count) == (2, 1, 3)
    assert parks == [10, 20, 35]

    idle.after(1)
    idle.after(0)
    assert idle.spin_count == 3


def test_park_ends_at_the_deadline() -> None:
    parks: list[int] = []
    idle = BackoffIdle(parks.append, spins_max=0, yields_max=0, park_ns_min=10, park_ns_max=100)
    for timeout_ns in (7, 7, 0, 0, -1, -1):
        idle.after(0, timeout_ns)
    assert parks == [7, 20]


def test_error_of_a_park_is_raised() -> None:
    def park(timeout_ns: int) -> None:
        raise OSError("socket is gone")

    idle = BackoffIdle(park, spins_max=0, yields_max=0)
    idle.after(0)
    with pytest.raises(OSError, match="socket is gone"):
        idle.after(0)
    idle.after(0)


def test_waker_acts_once_for_each_announcement() -> None:
    flag = ParkFlag(local_counter())
    waker = Waker(flag)
    assert waker.wake_parked() is False
    flag.announce_parked(1)
    assert waker.wake_parked() is True
    assert waker.wake_parked() is False
    flag.wait(60_000_000_000)  # returns at once: the flag was cleared
