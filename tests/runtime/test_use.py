"""Whose an object is: one thread at a time, an end that waits for who is in it, and no other process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest

from ordo.runtime.agents.use import Origin, Use, watch
from ordo.runtime.errors import ForkedError, TransportError

CHILD_STATUS = 3


def in_child(work: Callable[[], bool]) -> bool:
    """What the work says in a child made by fork."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = CHILD_STATUS if work() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == CHILD_STATUS


def refuses(call: Callable[[], object]) -> bool:
    try:
        call()
    except ForkedError as error:
        return f"opened in process {os.getppid()}" in error.message and "open one here" in error.message
    return False


def test_an_object_knows_the_process_that_made_it() -> None:
    one = Origin("reader")
    one.check()
    assert not one.is_forked and one.pid == os.getpid()
    assert in_child(lambda: one.is_forked and refuses(one.check))
    assert not one.is_forked


def test_what_a_child_makes_itself_it_may_use() -> None:
    assert in_child(lambda: Origin("reader").check() == 0 and not Use("reader").is_forked)


def test_a_grandchild_is_refused_what_the_child_made() -> None:
    def work() -> bool:
        own = Use("reader")
        return in_child(lambda: refuses(own.enter))

    assert in_child(work)


def test_nothing_is_entered_or_ended_in_a_child() -> None:
    use, ended = Use("reader"), list[str]()

    def work() -> bool:
        use.end(lambda: ended.append("the parent's"))
        return refuses(use.enter) and not use.try_enter() and not ended

    assert in_child(work)


def test_a_child_is_refused_though_a_thread_of_the_parent_is_in_it() -> None:
    """The thread is not there in the child, and what it holds is never given back."""
    use, entered, may_leave = Use("client"), threading.Event(), threading.Event()

    def keep() -> None:
        with use:
            entered.set()
            may_leave.wait(30)

    thread = threading.Thread(target=keep)
    thread.start()
    entered.wait(30)
    try:
        assert in_child(lambda: refuses(use.enter) and not use.try_enter())
    finally:
        may_leave.set()
        thread.join()


def test_objects_hear_of_a_fork_in_the_child_alone() -> None:
    class Heard:
        count = 0

        def on_forked(self) -> None:
            self.count += 1

    class Failing:
        def on_forked(self) -> None:
            raise OSError("its descriptor is closed")

    failing, one = Failing(), Heard()
    for heard in (failing, one, Failing()):
        watch(heard)
    assert in_child(lambda: one.count == 1)
    assert one.count == 0


def test_an_end_inside_a_call_is_done_when_the_call_ends() -> None:
    use, ended = Use("reader"), list[str]()
    with use:
        with use:
            use.mark_closed()
            use.end(lambda: ended.append("end"))
        assert not ended
        use.enter()  # the call that is under way goes on
        use.leave()
    assert ended == ["end"] and use.depth == 0
    with pytest.raises(TransportError, match="it is closed"):
        use.enter()


def test_an_end_that_fails_leaves_nobody_in_it() -> None:
    use = Use("reader")

    def fail() -> None:
        raise ValueError("within")

    with pytest.raises(ValueError, match="within"):
        use.end(fail)
    assert use.depth == 0 and use.try_enter()


def test_an_end_waits_for_another_thread() -> None:
    use, entered, order = Use("reader"), threading.Event(), list[str]()
    has_begun_to_wait = threading.Event()

    def call() -> None:
        with use:
            entered.set()
            has_begun_to_wait.wait(30)
            order.append("call")

    thread = threading.Thread(target=call)
    thread.start()
    entered.wait(30)
    has_begun_to_wait.set()
    use.end(lambda: order.append("end"))
    thread.join()
    assert order == ["call", "end"]


def test_a_thread_waits_while_another_is_in_it() -> None:
    use, counts = Use("client"), [0]

    def count() -> None:
        for _ in range(2000):
            with use:
                before = counts[0]
                os.sched_yield()  # gives the interpreter away, too
                counts[0] = before + 1

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [6000] and use.depth == 0
