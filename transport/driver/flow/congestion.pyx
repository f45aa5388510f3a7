"""Congestion control: how large a window a receiver offers its sender (transport-wire.md §8).

A static window is always the whole one. A cubic one (RFC 8312) is cut by a fifth when something was lost, grows back
quickly, stays a while near the size at which the loss occurred, and then looks for more.
"""

from libc.math cimport cbrt, floor, trunc

from ordo.runtime.native.atomics cimport ordo_store_release_i64
from ordo.runtime.native.counters cimport Counter
from ordo.runtime.native.sentinels cimport NEVER

cdef enum:
    INITIAL_FRAMES = 10
    PROBE_INTERVAL_RTTS = 4
    PROBE_LOST_NS = 1000000000         # without an echo for so long a probe, or its echo, was lost

cdef double SCALE = 0.4                        # C of RFC 8312, frames a cubic second
cdef double CUT = 0.2                          # share of the window that a loss takes


cdef class ReceiveWindow:
    """The window of one image. Lengths in bytes, times in ns; `initial_rtt_ns` is assumed until one was measured."""

    def __init__(self, int32_t length_max, int32_t mtu, *, bint is_cubic=False, bint is_tcp_friendly=False,
                 bint measures_rtt=False, int64_t initial_rtt_ns=100_000, int64_t now_ns=0):
        self.length = self.length_max = length_max
        self.mtu = mtu
        self.is_cubic = is_cubic
        self.is_tcp_friendly = is_tcp_friendly
        self.measures_rtt = measures_rtt and is_cubic
        self.rtt_ns = self.initial_rtt_ns = initial_rtt_ns
        self.frames_max = max(1, length_max // mtu)
        self.frames = min(INITIAL_FRAMES, self.frames_max)
        self.frames_at_loss = self.frames_max
        self.recovery_s = cbrt(self.frames_at_loss * CUT / SCALE)
        self.last_loss_ns = self.last_update_ns = self.probe_due_ns = now_ns
        self.probe_sent_ns = -1
        self.rtt_cell = self.length_cell = NULL
        if is_cubic:
            self._offer()

    def show(self, Counter rtt not None, Counter length not None):
        """Attach the two counters that show round trip and window. They must outlive this object's use."""
        self.rtt_cell = rtt.address
        self.length_cell = length.address
        ordo_store_release_i64(self.rtt_cell, self.rtt_ns)
        self._offer()

    cdef bint on_turn(self, bint has_loss, bint has_advanced, int64_t now_ns) noexcept nogil:
        """Update the window for one turn of the image; return whether the sender has to be told at once.

        `has_loss`: a gap was found; `has_advanced`: subscribers have read on since the last status message.
        """
        if not self.is_cubic:
            return False
        if has_loss:
            self._shrink(now_ns)
            return True
        if self.frames < self.frames_max and now_ns - self.last_update_ns > self.initial_rtt_ns:
            self._grow(now_ns)
        return self.frames == 1 and has_advanced

    cdef void _shrink(self, int64_t now_ns) noexcept nogil:
        self.frames_at_loss = self.frames
        self.recovery_s = cbrt(self.frames_at_loss * CUT / SCALE)
        self.frames = max(1, <int32_t> floor(self.frames * (1 - CUT)))
        self.last_loss_ns = self.last_update_ns = now_ns
        self._offer()

    cdef void _grow(self, int64_t now_ns) noexcept nogil:
        cdef double since_loss_s = (now_ns - self.last_loss_ns) / 1e9
        cdef double from_plateau_s = since_loss_s - self.recovery_s
        # Cut off, not rounded down: five frames or fewer are back at once, so that frames come behind one that is lost
        # and show the gap. Alone, it would be missed only at the sender's next heartbeat.
        cdef double frames = self.frames_at_loss + trunc(SCALE * from_plateau_s * from_plateau_s * from_plateau_s)
        cdef double friendly
        if self.is_tcp_friendly and frames < self.frames_at_loss:
            friendly = self.frames_at_loss * (1 - CUT) + 3 * CUT / (2 - CUT) * since_loss_s / (self.rtt_ns / 1e9)
            frames = max(frames, floor(friendly))
        self.frames = <int32_t> max(1.0, min(<double> self.frames_max, frames))
        self.last_update_ns = now_ns
        self._offer()

    cdef void _offer(self) noexcept nogil:
        self.length = self.frames * self.mtu
        if self.length_cell != NULL:
            ordo_store_release_i64(self.length_cell, self.length)

    # --- round trips ----------------------------------------------------------------------------------------------

    cdef bint is_probe_due(self, int64_t now_ns) noexcept nogil:
        return self.measures_rtt and now_ns >= self.deadline_ns()

    cdef void on_probe_sent(self, int64_t now_ns) noexcept nogil:
        self.probe_sent_ns = now_ns
        self.probe_due_ns = now_ns + PROBE_INTERVAL_RTTS * max(self.rtt_ns, self.initial_rtt_ns)

    cdef void on_echo(self, int64_t echo_ns, int64_t delay_ns, int64_t now_ns) noexcept nogil:
        """Take a probe that the sender returned `delay_ns` after it arrived there. Only the newest probe counts, and
        only once: an echo with any other time was not asked for."""
        if self.probe_sent_ns < 0 or echo_ns != self.probe_sent_ns:
            return
        if not 0 <= delay_ns <= now_ns - echo_ns:
            return
        self.probe_sent_ns = -1
        self.rtt_ns = max(now_ns - echo_ns - delay_ns, 1)
        if self.rtt_cell != NULL:
            ordo_store_release_i64(self.rtt_cell, self.rtt_ns)

    cdef int64_t deadline_ns(self) noexcept nogil:
        """Return when the next probe is due (ns); at most one is on its way."""
        if not self.measures_rtt:
            return NEVER
        return self.probe_due_ns if self.probe_sent_ns < 0 else self.probe_sent_ns + PROBE_LOST_NS

    # --- for tests ------------------------------------------------------------------------------------------------

    def turn(self, bint has_loss, bint has_advanced, int64_t now_ns):
        """Call `on_turn` from Python."""
        return self.on_turn(has_loss, has_advanced, now_ns)

    def probe(self, int64_t now_ns):
        """Send a probe if one is due; return whether it was."""
        if not self.is_probe_due(now_ns):
            return False
        self.on_probe_sent(now_ns)
        return True

    def echo(self, int64_t echo_ns, int64_t delay_ns, int64_t now_ns):
        """Call `on_echo` from Python."""
        self.on_echo(echo_ns, delay_ns, now_ns)
