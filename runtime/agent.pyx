"""Agents: everything that runs. An agent does its work when it is called; an invoker or a runner calls it.

Errors go to the error handler, a callable that takes the exception; the agent goes on unless the handler or the agent
raises AgentTermination.
"""

import threading

from runtime.clock cimport Clock
from runtime.errors import OrdoError


class AgentTermination(Exception):
    """Raised by an agent, or by an error handler, to end the agent in order."""


cdef class Agent:
    """Subclass and implement `do_work`; the other methods do nothing by default."""

    @property
    def role_name(self):
        return type(self).__name__

    def on_start(self):
        """Called once, on the agent's thread, before the first duty cycle."""

    cpdef int do_work(self, int64_t now_ns) except -1:
        """One duty cycle: bounded work, no waiting. The count of things done; 0 lets the runner idle."""
        raise NotImplementedError(type(self).__name__)

    def on_close(self):
        """Called once, on the agent's thread, after the last duty cycle; also when `on_start` failed."""


cdef class CompositeAgent(Agent):
    """Several agents on one duty cycle, in order. An agent that raises does not keep those after it from their turn:
    the next duty cycle begins behind it."""
    cdef readonly tuple agents
    cdef str _name
    cdef int _next

    def __init__(self, *agents, str name=""):
        if not agents:
            raise ValueError("a CompositeAgent has at least one agent")
        self.agents = agents
        self._name = name or "+".join([agent.role_name for agent in agents])

    @property
    def role_name(self):
        return self._name

    def on_start(self):
        for agent in self.agents:
            agent.on_start()

    cpdef int do_work(self, int64_t now_ns) except -1:
        cdef int work_count = 0
        cdef int count = len(self.agents)
        cdef Agent agent
        while self._next < count:
            agent = <Agent> self.agents[self._next]
            self._next += 1
            work_count += agent.do_work(now_ns)
        self._next = 0
        return work_count

    def on_close(self):
        failures = []
        for agent in reversed(self.agents):
            try:
                agent.on_close()
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0] if len(failures) == 1 else ExceptionGroup(f"closing {self._name}", failures)


cdef class AgentInvoker:
    """Runs an agent on the caller's thread, one duty cycle a call."""
    cdef readonly Agent agent
    cdef Clock _clock
    cdef object _error_handler
    cdef readonly bint started
    cdef readonly bint closed

    def __init__(self, Agent agent not None, Clock clock not None, error_handler):
        self.agent = agent
        self._clock = clock
        self._error_handler = error_handler

    def start(self):
        """Calls `on_start`; its error closes the agent and is raised."""
        if self.started:
            raise OrdoError(f"agent was started already: role_name={self.agent.role_name}")
        self.started = True
        try:
            self.agent.on_start()
        except BaseException:
            self.close()
            raise

    def invoke(self):
        """One duty cycle; the work count, 0 after an error that was handled. Nothing when closed."""
        if not self.started or self.closed:
            return 0
        try:
            return self.agent.do_work(self._clock.nano_time())
        except AgentTermination:
            self.close()
        except Exception as error:
            self._handle(error)
        return 0

    def close(self):
        """Calls `on_close` once."""
        if self.closed:
            return
        self.closed = True
        try:
            self.agent.on_close()
        except Exception as error:
            self._handle(error)

    def _handle(self, error):
        try:
            self._error_handler(error)
        except AgentTermination:
            self.close()


class AgentRunner:
    """Owns the thread, the idling and the errors of one agent.

    `start()` runs it on a thread of its own until `close()`; `run()` does so on the caller's thread until `stop()`.
    """

    def __init__(self, Agent agent not None, idle, Clock clock not None, error_handler):
        self._invoker = AgentInvoker(agent, clock, error_handler)
        self._idle = idle
        self._running = True
        self._start_failure = None
        self._started = threading.Event()
        self._thread = None

    @property
    def agent(self):
        return self._invoker.agent

    @property
    def is_running(self):
        """True until the agent has ended, by `stop`, `close` or AgentTermination."""
        return not self._invoker.closed

    def start(self):
        """Starts the thread and waits for `on_start`, whose error is raised here."""
        self._thread = threading.Thread(target=self._run_thread, name=self.agent.role_name, daemon=True)
        self._thread.start()
        self._started.wait()
        if self._start_failure is not None:
            self._thread.join()
            raise self._start_failure

    def run(self):
        """Runs the agent on this thread until `stop()` or AgentTermination."""
        self._invoker.start()
        self._started.set()
        self._loop()

    def stop(self):
        """Asks the duty cycle to end; safe from signal handlers and other threads."""
        self._running = False
        self._idle.wake()

    def close(self, double timeout_s=10.0):
        """Ends the agent and waits for its thread. Raises OrdoError when it does not end in time."""
        self.stop()
        if self._thread is None:
            self._invoker.close()
            return
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise OrdoError(f"agent does not end: role_name={self.agent.role_name} timeout_s={timeout_s}")

    def _run_thread(self):
        try:
            self._invoker.start()
        except BaseException as error:
            self._start_failure = error
            return
        finally:
            self._started.set()
        self._loop()

    def _loop(self):
        invoker = self._invoker
        idle = self._idle
        try:
            while self._running and not invoker.closed:
                idle.after(invoker.invoke())
        finally:
            invoker.close()
