"""The state of a service, for people: its attributes, and how those of two services differ."""

from __future__ import annotations

import pprint
import types
from collections.abc import Sized
from itertools import islice
from typing import TYPE_CHECKING, cast

from ordo.cluster.container.cluster import ContainerCluster
from ordo.cluster.wire.app_version import format_version
from ordo.debugging.replaying.effects import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ordo.debugging.replaying.execution import Execution

LINES_MAX = 20
ENTRIES_MAX = 100
WIDTH = 110
DIFFERENCES_MAX = 10
DEPTH_MAX = 20
VALUE_SHOWN_MAX = 120
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_NONE = object()


def attributes_of(service: object) -> dict[str, object]:
    """Return the attributes of a service, without the cluster that it was given."""
    found = dict(getattr(service, "__dict__", {}))
    for one in type(service).__mro__[:-1]:
        for name, member in vars(one).items():
            if isinstance(member, _SLOTS) and not name.startswith("__"):
                found.setdefault(name, getattr(service, name, None))
    return {name: value for name, value in found.items() if not isinstance(value, ContainerCluster)}


def describe_state(execution: Execution) -> Iterator[str]:
    """Yield the lines of a state: where it is, and what the service keeps, cut where that is long."""
    container = execution.container
    yield (
        f"position {max(execution.position, container.log_position)}, time {container.time}, "
        f"term {container.leadership_term_id}, "
        f"version {format_version(execution.app_version)}, {len(container.sessions)} sessions, "
        f"{sum(1 for _ in container.cluster.timers.snapshot())} timers"
    )
    attributes = attributes_of(execution.service)
    for name, value in attributes.items():
        head, length = _head_of(value)
        lines = pprint.pformat(head, width=WIDTH, sort_dicts=False).splitlines() or [""]
        yield f"{name} = {lines[0]}"
        yield from lines[1:LINES_MAX]
        if length is not None:
            yield f"... these are the first of {length}"
        elif len(lines) > LINES_MAX:
            yield f"... {len(lines) - LINES_MAX} lines more"
    if not attributes and execution.can_save:
        state = execution.own_state()
        yield f"its snapshot, {len(state)} bytes: {shown(state)}"


def _head_of(value: object) -> tuple[object, int | None]:
    """Return a value, or the beginning of a long one and how long it is."""
    if type(value) is dict and len(value) > ENTRIES_MAX:
        return dict(islice(value.items(), ENTRIES_MAX)), len(value)
    if type(value) in (list, set, frozenset, tuple) and isinstance(value, Sized) and len(value) > ENTRIES_MAX:
        return list(islice(cast("Iterable[object]", value), ENTRIES_MAX)), len(value)
    return value, None


def differences(left: object, right: object) -> list[str]:
    """Return where two services differ, attribute by attribute, as `path: left | right`."""
    found: list[str] = []
    one, two = attributes_of(left), attributes_of(right)
    for name in [*one, *(name for name in two if name not in one)]:
        _compare(name, one.get(name, _NONE), two.get(name, _NONE), found, 0)
    return found[:DIFFERENCES_MAX]


def how_states_differ(left: Execution, right: Execution) -> list[str]:
    """Return the differences of two states: of attributes, or else of what the services write into snapshots."""
    found = differences(left.service, right.service)
    if found or not (left.can_save and right.can_save):
        return found
    one, two = left.own_state(), right.own_state()
    if one == two:
        return []
    at = next((index for index, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(one), len(two)) if at is None else at
    return [f"snapshots of {len(one)} | {len(two)} bytes, from byte {at} on: {shown(one[at:])} | {shown(two[at:])}"]


def _compare(path: str, left: object, right: object, found: list[str], depth: int) -> None:
    if len(found) >= DIFFERENCES_MAX or depth > DEPTH_MAX or left is right:
        return
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            _compare(f"{path}[{key!r}]", left.get(key, _NONE), right.get(key, _NONE), found, depth + 1)
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
        for index in range(max(len(left), len(right))):
            one, two = (side[index] if index < len(side) else _NONE for side in (left, right))
            _compare(f"{path}[{index}]", one, two, found, depth + 1)
    elif _is_plain_object(left) and _is_plain_object(right):
        for name in {**vars(left), **vars(right)}:
            _compare(f"{path}.{name}", vars(left).get(name, _NONE), vars(right).get(name, _NONE), found, depth + 1)
    elif not _is_equal(left, right):
        found.append(f"{path}: {_shown(left)} | {_shown(right)}")


def _is_plain_object(value: object) -> bool:
    return hasattr(value, "__dict__") and type(value).__eq__ is object.__eq__ and not isinstance(value, type)


def _is_equal(left: object, right: object) -> bool:
    if type(left).__eq__ is object.__eq__ and type(left) is type(right):
        return True  # two objects that only are what they are: nothing tells them apart
    try:
        return bool(left == right)
    except Exception:  # of the user's own objects
        return False


def _shown(value: object) -> str:
    if value is _NONE:
        return "nothing"
    text = " ".join(repr(value).split())
    return text if len(text) <= VALUE_SHOWN_MAX else f"{text[:VALUE_SHOWN_MAX]}..."
