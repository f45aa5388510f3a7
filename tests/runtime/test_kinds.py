"""Settings that are made in Python: values of another kind than their annotation names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from ordo.applications.application import ApplicationSettings
from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.control.settings import ControlSettings
from ordo.cluster.client.requests.tracing import Tracing
from ordo.cluster.client.settings import ClientSettings
from ordo.consumers.shared_member import SharedSettings
from ordo.runtime.errors import ConfigurationError, OrdoError
from ordo.runtime.settings.kinds import check_counts, check_kinds, check_seconds
from ordo.transport.driver.channels.settings import MediaDriverSettings

if TYPE_CHECKING:
    from decimal import Decimal

Alias = int | str


class Measures(Protocol):
    def measure(self) -> int: ...


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Plain:
    switch: bool = False
    count: int = 1
    wait_s: float = 1.5
    room_bytes: int | None = None
    name: str = ""
    token: bytes | Callable[[], bytes] = b""
    endpoints: Sequence[str] = ()
    others: Sequence[Plain] = ()
    table: Mapping[str, str] = field(default_factory=dict)
    keep: timedelta = timedelta(1)
    begin: Alias = 0
    price: Decimal | None = None
    colour: Colour = Colour.RED
    scale: Measures | None = None
    log_file: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@pytest.mark.parametrize(
    "given",
    [
        {"wait_s": 2},
        {"room_bytes": 3},
        {"log_file": Path("/tmp/log")},
        {"token": lambda: b"x"},
        {"endpoints": ["a", "b"]},
        {"endpoints": {"a"}},
        {"others": [Plain()]},
        {"keep": timedelta(2)},
        {"colour": Colour.BLUE},
        {"scale": None},
        {"scale": Plain()},
    ],
)
def test_what_fits_is_taken(given: dict[str, Any]) -> None:
    check_kinds(Plain(**given))


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"switch": "false"}, "switch='false': must be True or False"),
        ({"switch": 0}, "switch=0: must be True or False"),
        ({"count": True}, "count=True: must be a whole number"),
        ({"count": 1.0}, r"count=1\.0: must be a whole number"),
        ({"count": None}, "count=None: must be a whole number"),
        ({"wait_s": True}, "wait_s=True: must be a number of seconds"),
        ({"wait_s": "2"}, "wait_s='2': must be a number of seconds"),
        ({"wait_s": float("nan")}, "wait_s=nan: must be a number of seconds"),
        ({"room_bytes": "4k"}, "room_bytes='4k': must be a whole number of bytes or None"),
        ({"name": b"x"}, "name=b'x': must be text"),
        ({"name": Path("x")}, r"name=PosixPath\('x'\): must be text"),
        ({"log_file": 7}, "log_file=7: must be text or a path"),
        ({"colour": "blue"}, r"colour='blue': must be Colour, such as Colour\.RED"),
        ({"token": "secret"}, r"token of type str: must be bytes or a function; text\.encode\(\) gives bytes"),
        ({"endpoints": "a"}, "endpoints='a': must be a list of text"),
        ({"endpoints": [1]}, r"endpoints=\[1\]: must be a list of text"),
        ({"others": [1]}, r"others=\[1\]: must be a list of Plain"),
        ({"table": []}, r"table=\[\]: must be a mapping of text to text"),
        ({"table": {"retries": 5}}, "table of type dict: must be a mapping of text to text"),
        ({"table": {5: "retries"}}, "table of type dict: must be a mapping of text to text"),
        ({"keep": 7}, "keep=7: must be timedelta"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(given: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{error}$"):
        check_kinds(Plain(**given))


KEPT = "not for logs"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"others": Plain(token=KEPT.encode())}, "others of type Plain: must be a list of Plain"),
        ({"others": [Plain(token=KEPT.encode()), 1]}, "others of type list: must be a list of Plain"),
        ({"keep": {"a": KEPT}}, "keep of type dict: must be timedelta"),
        ({"headers": [("Authorization", KEPT)]}, "headers of type list: must be a mapping of text to text"),
        ({"headers": KEPT}, "headers of type str: must be a mapping of text to text"),
        ({"url": KEPT.encode()}, "url of type bytes: must be text"),
        ({"count": "x" * 1_000}, f"count='{'x' * 198}: must be a whole number"),
    ],
)
def test_what_may_have_a_secret_in_it_is_not_shown(given: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{error}$"):
        check_kinds(Plain(**given))


def test_an_annotation_has_the_words_of_the_module_that_it_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of settings of the user's, in a module with a class of that name of its own."""
    module = ModuleType("module_of_a_user")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    vars(module)["Colour"] = type("Colour", (), {})
    own: Any = dataclass(type("Own", (Plain,), {"__module__": module.__name__}))
    check_kinds(own(colour=Colour.BLUE))
    with pytest.raises(ConfigurationError, match="colour='blue': must be Colour"):
        check_kinds(own(colour="blue"))


def test_what_an_annotation_names_that_is_no_class_at_run_time_is_left_alone() -> None:
    check_kinds(Plain(begin=[], price="cheap"))  # type: ignore[arg-type]


def test_times_and_counts_are_above_zero() -> None:
    with pytest.raises(ConfigurationError, match=r"wait_s=inf: must be a number of seconds above 0"):
        check_seconds(Plain(wait_s=float("inf")), "wait_s")
    with pytest.raises(ConfigurationError, match="count=0: must be above 0"):
        check_counts(Plain(count=0), "count")


ENDPOINTS = ["127.0.0.1:20000"]
CHANNEL = "aeron:udp?endpoint=127.0.0.1:1"
SETTINGS: list[tuple[type, dict[str, Any]]] = [
    (ClientSettings, {}),
    (Tracing, {"endpoint": "http://127.0.0.1:4318/v1/traces"}),
    (SharedSettings, {"name": "a", "endpoints": ENDPOINTS}),
    (ApplicationSettings, {"group": "g", "endpoints": ENDPOINTS, "folder": "/tmp"}),
    (ArchiveClientSettings, {"control_channel": CHANNEL, "response_channel": CHANNEL}),
    (ControlSettings, {}),
    (MediaDriverSettings, {"directory": "/dev/shm/none"}),
]
WRONG: tuple[Any, ...] = (None, True, "x", 1.5, b"x", [], [object()], float("nan"), object())


@pytest.mark.parametrize(("cls", "given"), SETTINGS, ids=lambda one: getattr(one, "__name__", ""))
def test_settings_take_no_value_of_another_kind(cls: type, given: dict[str, Any]) -> None:
    """Whatever is given for a field, it is taken, or refused with one line; never what no part of it says."""
    for one in fields(cls):
        for value in WRONG:
            try:
                cls(**{**given, one.name: value})
            except OrdoError as error:
                assert "\n" not in str(error)
            else:
                assert type(value) is not object, f"{one.name} takes an object()"
                assert not isinstance(value, list) or not value, f"{one.name} takes a list of an object()"
                assert not isinstance(value, bool) or "bool" in str(one.type), f"{one.name} takes {value}"
