"""The base class of everything that runs. The owner of the thread calls `do_work` and idles: the node's cycle, the
threads of a driver, the process of a container, or a client's own calls."""


cdef class Agent:
    """A component that works in duty cycles: subclass and implement `do_work`; the other methods do nothing by
    default."""

    @property
    def role_name(self):
        return type(self).__name__

    def on_start(self):
        """Prepare for work; called once, on the agent's thread, before the first duty cycle."""

    cpdef int do_work(self, int64_t now_ns) except -1:
        """Run one duty cycle: bounded work, no waiting. Returns the count of things done; 0 lets the runner idle."""
        raise NotImplementedError(type(self).__name__)

    def on_close(self):
        """Release everything; called once, on the agent's thread, after the last duty cycle, also when `on_start`
        failed."""
