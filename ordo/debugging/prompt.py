"""The prompt of `ordo debug replay`: a service at a record, one record forward or backward."""

from __future__ import annotations

import bdb
import cmd
import sys
from typing import TYPE_CHECKING, TextIO

from ordo.debugging.replaying.execution import ServiceFailedError
from ordo.debugging.replaying.places import Place, parse_place
from ordo.debugging.replaying.state import attributes_of, describe_state
from ordo.debugging.replaying.tracing import Debugger, traced
from ordo.runtime.errors import OrdoError
from ordo.runtime.reporting.failures import traceback_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.debugging.replaying.timeline import Step, Timeline

NOTHING_FOLLOWS = "this is the end of the log"
NOTHING_BEFORE = "this is the earliest position"


class Prompt(cmd.Cmd):
    """Commands over a timeline. `is_failed`: one of them could not be carried out."""

    intro = "step, back, to, run, break, state, where, next, trace, pdb, quit; `help` says more, an empty line steps"
    prompt = "(ordo) "

    def __init__(self, timeline: Timeline, commands: TextIO | None, condition: str = "") -> None:
        """Read commands from a file, or from the terminal."""
        super().__init__(stdin=commands)
        self._timeline = timeline
        self._condition = condition
        self.is_failed = False
        if commands is not None:
            self.use_rawinput = False
            self.prompt, self.intro = "", ""

    def onecmd(self, line: str) -> bool:
        try:
            return bool(super().onecmd(line))
        except ServiceFailedError as error:
            self._tell_failure(error)
        except OrdoError as error:
            self._fail(error.message)
        except (ValueError, SyntaxError) as error:
            self._fail(f"{line.strip()}: {error}")
        return False

    def emptyline(self) -> bool:
        if self.use_rawinput:
            self.do_step("")
        return False

    def default(self, line: str) -> None:
        self._fail(f"{line}: there is no such command; `help` lists them")

    def do_EOF(self, text: str) -> bool:
        """Leave: the end of the input."""
        return True

    def _fail(self, text: str) -> None:
        self.is_failed = True
        print(text)

    def _tell_failure(self, error: ServiceFailedError) -> None:
        print(error.message)

    def _show(self, step: Step) -> None:
        for line in step.lines(self._timeline.log):
            print(line)

    # Commands

    def do_step(self, text: str) -> None:
        """Execute the next record, or the next N: step [N]."""
        for _ in range(_count(text)):
            step = self._timeline.step()
            if step is None:
                print(NOTHING_FOLLOWS)
                return
            self._show(step)

    def do_back(self, text: str) -> None:
        """Go to before the last record, or the last N: back [N]."""
        for _ in range(_count(text)):
            if not self._timeline.back():
                print(NOTHING_BEFORE)
                return
        self.do_where("")

    def do_to(self, text: str) -> None:
        """Go to a place: to POSITION|TIME|sequence:NUMBER|start|end."""
        go(self._timeline, parse_place(text, "to"))
        self.do_where("")

    def do_run(self, text: str) -> None:
        """Execute up to the record where the condition of `break` is true, or to the end."""
        condition = breakpoint_of(self._timeline, self._condition) if self._condition else None
        step = self._timeline.run(condition)
        if step is None:
            print(NOTHING_FOLLOWS)
            self.do_where("")
        else:
            self._show(step)

    def do_break(self, text: str) -> None:
        """Have `run` stop after the first record for which this is true: break EXPR; without EXPR nowhere.

        Names: service, record, position, time, session, payload, effects.
        """
        if text:
            compile(text, "<break>", "eval")
        self._condition = text

    def do_state(self, text: str) -> None:
        """Print the state, or what an expression over `service` and its attributes is: state [EXPR]."""
        execution = self._timeline.execution
        if not text:
            for line in describe_state(execution):
                print(line)
            return
        try:
            print(eval(text, {}, {**attributes_of(execution.service), "service": execution.service}))
        except Exception as error:  # whatever a user's expression raises
            self._fail(f"{text}: {type(error).__name__}: {error}")

    def do_where(self, text: str) -> None:
        """Print the record that was executed last, and what the service did."""
        timeline = self._timeline
        if timeline.failure is not None:
            print(timeline.failure.text)
        elif timeline.last is not None:
            self._show(timeline.last)
        else:
            print(f"{timeline.position} of {timeline.log.end}")

    def do_next(self, text: str) -> None:
        """Print the record that `step` would execute."""
        found = self._timeline.next_record()
        print(NOTHING_FOLLOWS if found is None else self._timeline.log.describe(found.position, found.payload))

    def do_sessions(self, text: str) -> None:
        """Print the ids and principals of the open sessions."""
        for session in self._timeline.execution.container.cluster.client_sessions:
            print(f"session {session.id} principal {bytes(session.encoded_principal)!r}")

    def do_timers(self, text: str) -> None:
        """Print the timers that are set, by deadline."""
        found = self._timeline.execution.container.cluster.timers.snapshot()
        for timer, deadline in sorted(found, key=lambda one: (one[1], one[0])):
            print(f"timer {timer} at {deadline}")

    def do_trace(self, text: str) -> None:
        """Print the traceback of what the service raised."""
        failure = self._timeline.failure
        print("the service has raised nothing here" if failure is None else traceback_of(failure.error))

    def do_pdb(self, text: str) -> None:
        """Execute the next record in the debugger of Python, from the first line of the service's callback."""
        debugger = Debugger(stdin=self.stdin, stdout=sys.stdout, nosigint=True, readrc=False)
        debugger.use_rawinput = self.use_rawinput
        try:
            with traced(self._timeline.execution.container, debugger):
                self.do_step("")
        except ServiceFailedError as error:
            if not isinstance(error.failure.error, bdb.BdbQuit):
                raise
            self._timeline.back()
            print("the debugger was left: the record is not executed")

    def do_quit(self, text: str) -> bool:
        """Leave."""
        return True


def breakpoint_of(timeline: Timeline, text: str) -> Callable[[Step], object]:
    """Return the condition that an expression says. What it raises stops there as well. Raises SyntaxError."""
    code = compile(text, "<break>", "eval")

    def is_reached(step: Step) -> object:
        entry = step.entry
        names: dict[str, object] = {
            "service": timeline.execution.service,
            "record": entry,
            "position": step.position,
            "time": timeline.execution.container.time,
            "session": -1 if entry is None else entry.session_id,
            "payload": b"" if entry is None else entry.payload,
            "effects": step.effects,
        }
        try:
            return eval(code, names)
        except Exception as error:  # whatever a user's expression raises
            raise ValueError(f"{text}: {type(error).__name__}: {error} (at position {step.position})") from error

    return is_reached


def go(timeline: Timeline, place: Place) -> None:
    """Go to a place that was named. Raises ConfigurationError, ServiceFailedError."""
    if place.timestamp is not None:
        timeline.go_to_time(place.timestamp)
    elif place.position is not None:
        timeline.go(place.position)
    elif place.sequence is not None:
        timeline.go_to_sequence(place.sequence)
    else:
        timeline.go(timeline.earliest if place.is_start else timeline.log.end)


def _count(text: str) -> int:
    if text and not text.isdecimal():
        raise ValueError("allowed is a count of records")
    return int(text or 1)
