"""Ownership of an object: the process that made it, and the thread that is using it.

What holds sockets, mappings, locks or numbers belongs to the process that made it. A child made by `fork` has a copy of
the object that shares all of these with the parent: two processes would send in one stream, under one number, and the
end of one would take the ground from the other. So each such object has an Origin, or a Use, and asks it before anything
is touched. The check compares two numbers; that the process is another one is noted once, in the child, by the fork.

A Use is an Origin that also keeps threads apart. Whoever calls the object enters, and leaves; `end` does the work that
takes the object apart when nobody is in it: at once, or when the thread that is in it leaves. So neither another thread
nor the handler of a signal can take memory or sockets from under native code.
"""

import os
import time
import weakref

from cpython.pythread cimport PyThread_get_thread_ident

from ordo.runtime.native.atomics cimport sched_yield

from ordo.runtime.errors import ForkedError, TransportError

_END_TIMEOUT_S = 10.0
cdef enum:
    YIELDS_MAX = 100                # of the core, before a thread that waits sleeps between two looks
cdef double LOOK_INTERVAL_S = 0.0005
cdef int64_t forks = 0              # the number of forks between this process and the one that imported this module
_watched = weakref.WeakSet()


def _note_fork():
    global forks
    forks += 1
    for one in list(_watched):
        try:
            one.on_forked()
        except OSError:
            pass                    # a descriptor that the program has closed itself; the others hear of it all the same


os.register_at_fork(after_in_child=_note_fork)


def watch(one):
    """Have `one.on_forked()` called in every child that this process makes by fork, as long as the object lives."""
    _watched.add(one)


cdef class Origin:
    def __init__(self, str what not None):
        """Guard an object; `what` names it in errors, such as "cluster-client"."""
        self.what = what
        self.pid = os.getpid()
        self._forks = forks

    cdef bint is_elsewhere(self) noexcept nogil:
        return self._forks != forks

    @property
    def is_forked(self):
        """Whether this process is not the one that made the object, but was forked from it."""
        return self._forks != forks

    cpdef int check(self) except -1:
        """Raise ForkedError in a process that was forked from the one that made the object."""
        if self._forks != forks:
            raise ForkedError(f"{self.what}: opened in process {self.pid}, and this is process {os.getpid()}, forked "
                              "from it; open one here")
        return 0


cdef class Use(Origin):
    def __init__(self, str what not None):
        super().__init__(what)
        self._left = []

    def mark_closed(self):
        """Refuse new entries; what is under way may finish, and the end may still enter."""
        self.is_closed = True

    cpdef int enter(self) except -1:
        """Enter the object with the calling thread; wait while another thread is in it.

        Raises ForkedError, and TransportError once it is closed.
        """
        self.check()
        if self.depth == 0 or self._thread != PyThread_get_thread_ident():
            if self.depth or self._waiting:
                self._await_turn()
            if self.is_closed:
                raise TransportError(f"{self.what}: it is closed; open another one")
            self._thread = PyThread_get_thread_ident()
        self.depth += 1
        return 0

    cdef int _await_turn(self) except -1:
        cdef int yields = 0
        while (self.depth or self._waiting) and not self.is_closed:
            if yields < YIELDS_MAX:
                yields += 1
                with nogil:
                    sched_yield()
            else:
                time.sleep(LOOK_INTERVAL_S)
        return 0

    cpdef bint try_enter(self):
        """Enter without waiting or raising; return whether the thread has entered."""
        if self._forks != forks or self.is_closed or self.depth or self._waiting:
            return False
        self._thread = PyThread_get_thread_ident()
        self.depth = 1
        return True

    cpdef int leave(self) except -1:
        """Leave what `enter` entered. The thread that leaves last does the work that was left to it."""
        try:
            if self.depth == 1 and self._left and self._forks == forks:
                self._do_left()
        finally:
            self.depth -= 1
        return 0

    def _do_left(self):
        self._ending = True
        try:
            while self._left:
                work = self._left.pop(0)
                work()
        finally:
            self._ending = False

    def end(self, work, *, bint at_once=False):
        """Do `work` with nobody else in the object: at once, or when this thread leaves it, if it is in it. With
        `at_once` it is done at once even then: for the end of a part whose owner's call is under way, and knows of it.

        Nothing is done in a process that was forked from the one that made the object: it is the other's. Raises
        TransportError where another thread does not leave in time; it does the work when it leaves.
        """
        if self._forks != forks:
            return
        if self.depth and self._thread == PyThread_get_thread_ident():
            if at_once or self._ending:
                work()
            else:
                self._left.append(work)
            return
        if self.depth:
            self._await_end(work)
        self._thread = PyThread_get_thread_ident()
        self.depth += 1
        self._left.append(work)
        self.leave()

    def _await_end(self, work):
        cdef double deadline_s = time.monotonic() + _END_TIMEOUT_S
        self._waiting += 1
        try:
            while self.depth:
                if time.monotonic() > deadline_s:
                    self._left.append(work)
                    raise TransportError(f"{self.what}: another thread has been in a call of it for "
                                         f"{_END_TIMEOUT_S:g} s; it is closed when that call returns")
                time.sleep(LOOK_INTERVAL_S)
        finally:
            self._waiting -= 1

    def __enter__(self):
        self.enter()
        return self

    def __exit__(self, *exc_info):
        self.leave()
