"""What all doors have in common: mistakes that are told before anybody calls, TLS, descriptors. No cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ordo.cli import run as run_command
from ordo.gateway.doors.descriptors import CALLER_CONNECTIONS_MIN, connections_left
from ordo.gateway.doors.door import Door
from ordo.gateway.doors.settings import DoorSettings, check_address
from ordo.gateway.doors.tls import tls_context
from ordo.gateway.webhooks.settings import WebhookSettings
from ordo.runtime.errors import ConfigurationError

NOWHERE = ["127.0.0.1:9"]
DOORS = ["gateway", "kafka"]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--token-file", "none.token"], "credentials: none.token cannot be read"),
        (["--archives", "here"], "endpoint 'here': must be host:port"),
        (["--egress", "here"], "--egress here: must be host:port"),
        (["--listen", "here:65536"], "--listen here:65536: must be host:port"),
        (["--certificate", "c.pem"], "TLS needs both: a certificate and its key"),
        (["--sessions-max", "0"], "sessions_max=0: must be above 0"),
    ],
)
def test_a_mistake_is_told_at_once(
    door: str, options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if door == "kafka":
        pytest.importorskip("kio", reason="needs the extra kafka")
    assert run_command([door, "--endpoints", "127.0.0.1:20000", *options]) == 2
    told = capsys.readouterr().err.splitlines()
    assert told == [told[0]], "one line"
    assert told[0].startswith(f"ordo: {words}")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"endpoints": []}, "name the members"),
        ({"listen": "9092"}, "--listen 9092: must be host:port"),
        ({"client_ca": "c.pem"}, "client_ca"),
        ({"archives": ["nonsense"]}, "'nonsense': must be host:port"),
        ({"timeout_s": float("inf")}, "timeout_s=inf"),
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        DoorSettings(**({"endpoints": NOWHERE} | change))


def test_addresses_are_hosts_and_ports() -> None:
    for good in ("127.0.0.1:0", "[::1]:65535", "ordo-1.example:9092"):
        check_address("listen", good)
    for bad in ("", "host", "host:", ":1", "host:65536", "::1:1 ", "a b:1"):
        with pytest.raises(ConfigurationError):
            check_address("listen", bad)


def test_certificates_that_are_not_there_are_told(tmp_path: Path) -> None:
    """Whether their names are texts or paths."""
    assert tls_context(DoorSettings(endpoints=NOWHERE)) is None
    given: Any = tmp_path / "c.pem"
    hook = WebhookSettings(name="hook", url="https://localhost/", endpoints=NOWHERE, certificate=given, key="k.pem")
    for certificate in (given, str(given)):
        with pytest.raises(ConfigurationError, match=r"TLS with .*c\.pem, k\.pem: No such file"):
            tls_context(DoorSettings(endpoints=NOWHERE, certificate=certificate, key="k.pem"))
    with pytest.raises(ConfigurationError, match=r"TLS with .*c\.pem, k\.pem: No such file"):
        hook.tls_context()


def test_callers_get_the_descriptors_that_are_left() -> None:
    assert connections_left(1_000, 600, "sessions", "--sessions-max") == 400
    with pytest.raises(ConfigurationError, match=r"open 100 files, and its sessions may need 90 .* --sessions-max"):
        connections_left(100, 90, "sessions", "--sessions-max")
    assert connections_left(100, 100 - CALLER_CONNECTIONS_MIN, "sessions", "") == CALLER_CONNECTIONS_MIN


def test_a_door_that_cannot_open_is_closed() -> None:
    class Stuck(Door):
        closed = 0

        async def open(self) -> None:
            raise ConfigurationError("--listen: taken")

        async def close(self) -> None:
            self.closed += 1

    async def enter(door: Door) -> None:
        async with door:
            pass

    door = Stuck(DoorSettings(endpoints=NOWHERE))
    with pytest.raises(ConfigurationError, match="taken"):
        asyncio.run(enter(door))
    assert door.closed == 1
