"""Turns of the parties of a cluster on one thread, each a function of its own, which Callgrind tells apart, and marked
with a system call that fails, which strace shows."""

from libc.stdint cimport uint64_t
from posix.unistd cimport F_OK, access

from ordo.cluster.node.cycle cimport NodeCycle
from ordo.bench.loads.load_native cimport LoadRun

cdef extern from "tests/budget/valgrind_request.h" nogil:
    uint64_t CALLGRIND_ZERO, CALLGRIND_DUMP_AT, CALLGRIND_START, CALLGRIND_STOP
    void valgrind_request(uint64_t request, const char* text)


def begin_phase(str name not None):
    """What is done from now on is counted under this name."""
    _mark(f"begin {name}".encode())
    valgrind_request(CALLGRIND_START, NULL)
    valgrind_request(CALLGRIND_ZERO, NULL)


def end_phase(str name not None):
    """The end of what `begin_phase` began."""
    cdef bytes text = name.encode()
    valgrind_request(CALLGRIND_DUMP_AT, text)
    valgrind_request(CALLGRIND_STOP, NULL)
    _mark(f"end {name}".encode())


cdef void _mark(bytes text):
    access(b"/ordo-budget " + text, F_OK)


def turn_of_leader(NodeCycle cycle not None):
    access(b"/ordo-budget turn leader", F_OK)
    _turn(cycle)
    access(b"/ordo-budget rest", F_OK)


def turn_of_follower(NodeCycle cycle not None):
    access(b"/ordo-budget turn follower", F_OK)
    _turn(cycle)
    access(b"/ordo-budget rest", F_OK)


def turn_of_client(LoadRun load not None):
    access(b"/ordo-budget turn client", F_OK)
    load.rest()
    load.take()
    load.give()
    access(b"/ordo-budget rest", F_OK)


def turn_of_python_client(work):
    access(b"/ordo-budget turn client", F_OK)
    work()
    access(b"/ordo-budget rest", F_OK)


def turn_of_probe(work):
    access(b"/ordo-budget turn probe", F_OK)
    work()
    access(b"/ordo-budget rest", F_OK)


def look(NodeCycle cycle not None):
    """Time has moved on: the node works until there is nothing left, and waits for nothing."""
    _work_off(cycle)


cdef int _turn(NodeCycle cycle) except -1:
    """As its thread does: it wakes, and works until there is nothing left."""
    cycle.rest()
    return _work_off(cycle)


cdef int _work_off(NodeCycle cycle) except -1:
    while cycle.work():
        pass
    return 0
