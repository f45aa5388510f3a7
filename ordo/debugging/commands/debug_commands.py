"""`ordo debug replay | bisect | diff | record | fork` (docs/DEBUGGING.md)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from ordo.debugging.commands.index import index
from ordo.runtime.errors import ConfigurationError, ServiceError

if TYPE_CHECKING:
    from ordo.debugging.changes import Change
    from ordo.debugging.replaying.places import Place
    from ordo.debugging.replaying.recorded_log import Checkpoint, RecordedLog
    from ordo.debugging.replaying.timeline import Timeline

STATUS_FOUND = 1
Folder = Annotated[
    str,
    typer.Argument(
        help="the folder of a member (its data_dir), a backup or an archive; or ordo://HOST:PORT,... archives"
    ),
]
Services = Annotated[
    list[str],
    typer.Option(
        help="the service, as module:Class, or VERSION=module:Class, once for each version that the log needs"
    ),
]
ServiceId = Annotated[int, typer.Option(min=0, max=9, help="which of a node's several services it is")]
Commit = Annotated[str, typer.Option(help="where the log ends: auto, a position, or recorded for whatever is on disk")]
NoSnapshots = Annotated[
    bool, typer.Option("--no-snapshots", help="execute the log alone, not from snapshots that the members took")
]
From = Annotated[
    str,
    typer.Option("--from", help="where to begin: a position, a cluster time, sequence:NUMBER of a message, or start"),
]
To = Annotated[
    str, typer.Option("--to", help="where to end: a position, a cluster time, sequence:NUMBER of a message, or end")
]

debug_app = typer.Typer(
    name="debug",
    help="A service at any record of its log: replayed, bisected, compared, recorded, forked.",
    no_args_is_help=True,
)


@debug_app.command()
def replay(
    folder: Folder,
    service: Services,
    to: Annotated[
        str, typer.Option(help="a position, a cluster time, sequence:NUMBER of a message, start or end")
    ] = "end",
    stop: Annotated[
        str, typer.Option("--break", help="stop after the first record for which this Python expression is true")
    ] = "",
    commands: Annotated[
        Path | None, typer.Option(help="a file with commands for the prompt; - is the standard input")
    ] = None,
    into_pdb: Annotated[bool, typer.Option("--pdb", help="execute the last record in the debugger of Python")] = False,
    service_id: ServiceId = 0,
    commit: Commit = "auto",
    no_snapshots: NoSnapshots = False,
) -> None:
    """Show a service's state at a record of its log and, on a terminal, go forward and backward from there.

    Exit status 1 where the service raised, or a command of --commands could not be carried out.
    """
    from ordo.debugging.prompt import Prompt, go
    from ordo.debugging.replaying.places import parse_place
    from ordo.debugging.replaying.state import describe_state

    place = parse_place(to, "--to")
    timeline = _timeline(folder, service, service_id, commit, no_snapshots)
    is_failed = False
    try:
        if stop:
            _run_to_break(timeline, stop, place)
        else:
            go(timeline, place)
    except ServiceError as error:
        is_failed = True
        print(error.message)
    prompt = Prompt(timeline, None, stop)
    if into_pdb:
        timeline.back()
        prompt.do_pdb("")
    if timeline.last is not None:
        prompt.do_where("")
    for line in describe_state(timeline.execution):
        print(line)
    if commands is not None:
        with _opened(commands) as lines:
            prompt = Prompt(timeline, lines, stop)
            prompt.cmdloop()
        is_failed = prompt.is_failed
    elif sys.stdin.isatty():
        prompt.cmdloop()
        is_failed = False
    if is_failed:
        raise typer.Exit(STATUS_FOUND)


def _run_to_break(timeline: Timeline, text: str, place: Place) -> None:
    """Execute up to a record for which the expression is true; from the earliest position."""
    from ordo.debugging.prompt import breakpoint_of, go

    try:
        condition = breakpoint_of(timeline, text)
    except SyntaxError as error:
        raise ConfigurationError(f"--break {text}: {error.msg}") from None
    end = None
    if not place.is_end:
        go(timeline, place)
        end = timeline.position
        timeline.go(timeline.earliest)
    try:
        if timeline.run(condition, end) is None:
            print(f"there is no such record from {timeline.earliest} to {timeline.position}")
    except ValueError as error:
        raise ConfigurationError(f"--break {error}") from None


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    if str(path) == "-":
        yield sys.stdin
        return
    try:
        with path.open() as lines:
            yield lines
    except OSError as error:
        raise ConfigurationError(f"--commands {path}: {error.strerror}") from None


def _timeline(folder: str, service: list[str], service_id: int, commit: str, no_snapshots: bool) -> Timeline:
    from ordo.debugging.fetched_log import open_log
    from ordo.debugging.replaying.code import load_code
    from ordo.debugging.replaying.timeline import Timeline

    code = load_code(service)
    return Timeline(open_log(folder, commit), code, service_id, uses_snapshots=not no_snapshots)


def _position(timeline: Timeline, text: str, option: str) -> int:
    """Return the position of a place; what is executed on the way there is not needed."""
    from ordo.debugging.prompt import go
    from ordo.debugging.replaying.places import parse_place

    place = parse_place(text, option)
    if place.position is not None:
        return place.position
    if place.is_end:
        return timeline.log.end
    go(timeline, place)
    return timeline.position


@debug_app.command()
def bisect(
    folder: Folder,
    service: Services,
    predicate: Annotated[
        str | None, typer.Option(help="module:function, which is given the service and says whether it is sound")
    ] = None,
    other: Annotated[
        list[str] | None, typer.Option(help="another version of the service, as --service: where do the two differ?")
    ] = None,
    start: From = "start",
    end: To = "end",
    outputs_only: Annotated[
        bool, typer.Option("--outputs-only", help="with --other: compare what the two do, not their states")
    ] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, help="how many stretches at once, where snapshots cut the log")
    ] = None,
    service_id: ServiceId = 0,
    commit: Commit = "auto",
    no_snapshots: NoSnapshots = False,
) -> None:
    """Find the first record after which a predicate fails, or at which two versions of a service differ.

    Exit status 0 where there is none, 1 where there is one.
    """
    if (predicate is None) == (other is None):
        raise ConfigurationError("give --predicate module:function, or --other module:Class")
    timeline = _timeline(folder, service, service_id, commit, no_snapshots)
    first, last = _position(timeline, start, "--from"), _position(timeline, end, "--to")
    if predicate is not None:
        is_found = _bisect_predicate(timeline.log, service, predicate, first, last, service_id, processes, no_snapshots)
    else:
        state = _state_at(timeline, first)
        is_found = _compare(timeline.log, service, other or [], state, last, service_id, not outputs_only)
    if is_found:
        raise typer.Exit(STATUS_FOUND)


def _bisect_predicate(
    log: RecordedLog,
    service: list[str],
    predicate: str,
    start: int,
    end: int,
    service_id: int,
    processes: int | None,
    no_snapshots: bool,
) -> bool:
    from ordo.cluster.container.service_loader import load_function
    from ordo.debugging.bisection import Search, bisect
    from ordo.debugging.replaying.code import load_code

    search = Search(log, load_code(service), load_function(predicate, "--predicate"), service_id)
    found = bisect(search, start, end, uses_snapshots=not no_snapshots, processes=processes)
    how = f"{found.records} records; stretches: {found.stretches}, of which {found.processes} at a time"
    if found.position is None:
        print(f"{predicate} holds after every record up to position {end}: {how}")
        return False
    if found.is_start:
        print(f"{predicate} fails already at position {found.position}, before any record is executed")
        return True
    before = found.position - 1
    record = next(one for one in log.records(max(log.start, _segment(log, before))) if one.position == found.position)
    what = "the service raises" if found.text else f"{predicate} fails"
    print(f"{what} first after {log.describe(record.position, record.payload)}")
    if found.text:
        print(found.text)
    print(f"looked at {how}")
    return True


def _segment(log: RecordedLog, position: int) -> int:
    """Where a record surely begins that is not far before a position: the beginning of its term."""
    return position - position % log.descriptor.term_length


def _compare(
    log: RecordedLog,
    service: list[str],
    other: list[str],
    state: Checkpoint | None,
    end: int,
    service_id: int,
    compares_states: bool,
) -> bool:
    from ordo.debugging.comparison import Comparison
    from ordo.debugging.replaying.code import load_code
    from ordo.debugging.replaying.execution import Execution

    left, right = load_code(service), load_code(other)
    comparison = Comparison(
        log,
        lambda start: Execution(log, left, start, service_id=service_id),
        lambda start: Execution(log, right, start, service_id=service_id),
        compares_states=compares_states,
    )
    found = comparison.first(state, end)
    if found is None:
        where = end if comparison.raised_position is None else f"{comparison.raised_position}, where both raise"
        print(f"the two do the same up to position {where}")
        return False
    for line in found.lines():
        print(line)
    return True


def _state_at(timeline: Timeline, position: int) -> Checkpoint | None:
    """Return the state at a position; None for the beginning of the log."""
    if position == 0:
        return None
    timeline.go(position)
    return timeline.execution.save()


@debug_app.command()
def diff(
    folder: Folder,
    service: Services,
    right: Annotated[str | None, typer.Argument(metavar="[FOLDER]", help="of another member of the cluster")] = None,
    leave_out: Annotated[int | None, typer.Option(help="the position of a record that is left out")] = None,
    change: Annotated[
        str | None, typer.Option(help="POSITION=PAYLOAD: a record gets another payload; hex:... for bytes")
    ] = None,
    to: Annotated[
        str, typer.Option(help="with --leave-out and --change: up to where, a position, a time or end")
    ] = "end",
    service_id: ServiceId = 0,
    commit: Commit = "auto",
    no_snapshots: NoSnapshots = False,
) -> None:
    """Show how two members differ, or what differs after a record was changed or left out.

    Of two folders: the first record of the log that differs, or else the first snapshot, and which of the two the log
    leads to. Exit status 0 where they do not differ, 1 where they do.
    """
    if sum(one is not None for one in (right, leave_out, change)) != 1:
        raise ConfigurationError("give a second folder, --leave-out POSITION or --change POSITION=PAYLOAD")
    if right is not None:
        _diff_folders(folder, right, service, service_id, commit)
        return
    from ordo.debugging.changes import Change, what_differs
    from ordo.debugging.replaying.code import load_code

    timeline = _timeline(folder, service, service_id, commit, no_snapshots)
    end = _position(timeline, to, "--to")
    chosen = Change(leave_out, None) if leave_out is not None else _parse_change(change or "")
    if not timeline.earliest < chosen.position <= end:
        raise ConfigurationError(
            f"position {chosen.position}: allowed are those after {timeline.earliest}, up to {end}"
        )
    timeline.go(chosen.position - 1)
    state = _state_at(timeline, timeline.position) if timeline.execution.can_save else None
    for line in what_differs(timeline.log, load_code(service), chosen, state, end, service_id):
        print(line)


def _parse_change(text: str) -> Change:
    from ordo.debugging.changes import Change

    position, separator, payload = text.partition("=")
    if not separator or not position.isdecimal():
        raise ConfigurationError(f"--change {text}: must be POSITION=PAYLOAD, such as 4096=buy or 4096=hex:62")
    if not payload.startswith("hex:"):
        return Change(int(position), payload.encode())
    try:
        return Change(int(position), bytes.fromhex(payload.removeprefix("hex:")))
    except ValueError:
        raise ConfigurationError(f"--change {text}: what follows hex: must be pairs of hexadecimal digits") from None


def _diff_folders(left: str, right: str, service: list[str], service_id: int, commit: str) -> None:
    from ordo.debugging.fetched_log import open_log
    from ordo.debugging.folders import compare_logs, compare_snapshots
    from ordo.debugging.replaying.code import load_code

    logs = open_log(left, commit), open_log(right, commit)
    lines = compare_logs(*logs)
    found = compare_snapshots(*logs, load_code(service), service_id) if not lines else iter(())
    lines += list(found)
    for line in lines:
        print(line)
    if len(lines) > 1:
        raise typer.Exit(STATUS_FOUND)


@debug_app.command()
def record(
    folder: Folder,
    service: Services,
    output: Annotated[Path, typer.Option(help="the file to write")],
    start: From = "start",
    end: To = "end",
    anonymise: Annotated[
        str | None, typer.Option(help="module:function, which makes another payload of the same length of each")
    ] = None,
    minimise: Annotated[
        bool, typer.Option("--minimise", help="keep only the records without which nothing fails")
    ] = False,
    predicate: Annotated[
        str | None, typer.Option(help="with --minimise: module:function that fails; else the service must raise")
    ] = None,
    service_id: ServiceId = 0,
    commit: Commit = "auto",
    no_snapshots: NoSnapshots = False,
) -> None:
    """Write a stretch of the log into a file for `ordo.testing.recorded`, from the state that it begins with."""
    from ordo.cluster.container.service_loader import load_function
    from ordo.debugging.minimisation import minimise as minimised
    from ordo.debugging.recorded_file import take
    from ordo.debugging.replaying.code import load_code

    if predicate is not None and not minimise:
        raise ConfigurationError("--predicate says what --minimise must keep: give both")
    timeline = _timeline(folder, service, service_id, commit, no_snapshots)
    last = _position(timeline, end, "--to")
    state = _state_at(timeline, _position(timeline, start, "--from"))
    if anonymise is not None and state is not None:
        raise ConfigurationError("--anonymise changes payloads, not the state that a stretch begins with: --from start")
    change = None if anonymise is None else load_function(anonymise, "--anonymise")
    stretch = take(timeline.log, state, last, service_id=service_id, anonymise=change)
    count = len(stretch.records)
    if minimise:
        holds = None if predicate is None else load_function(predicate, "--predicate")
        stretch = minimised(stretch, load_code(service), holds)
    stretch.save(output)
    kept = f"{len(stretch.records)} of {count} records" if minimise else f"{count} records"
    print(f"{output}: {kept}, from {'the beginning' if state is None else f'the state at {state.position}'}")


@debug_app.command()
def fork(
    folder: Folder,
    service: Services,
    output: Annotated[Path, typer.Option(help="a new folder: for node0.toml, and the data")],
    to: Annotated[
        str, typer.Option(help="a position, a cluster time, sequence:NUMBER of a message, start or end")
    ] = "end",
    port: Annotated[int, typer.Option(min=1, max=65000, help="the first of the five ports of the new member")] = 21_000,
    commit: Commit = "auto",
) -> None:
    """Make a cluster of one that goes on from a record of the log, in a folder of its own, to be tried out."""
    from ordo.debugging.commands.fork import fork as make_fork

    if len(service) != 1 or "=" in service[0]:
        raise ConfigurationError("--service: a fork has one service with one version: give module:Class, once")
    timeline = _timeline(folder, service, 0, commit, False)
    timeline.go(_position(timeline, to, "--to"))
    for line in make_fork(timeline.log, timeline.position, output, service[0], port):
        print(line)


debug_app.command()(index)
