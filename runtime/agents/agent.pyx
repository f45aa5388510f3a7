"""Agents: everything that runs. Whoever owns the thread calls `do_work` and idles: the node's cycle, the threads of a
driver, the process of a container, or a client's own calls."""


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
