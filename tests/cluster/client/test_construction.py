"""Clients that cannot be made say why."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ordo.applications.application import ApplicationSettings
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import FOREVER_S, ClientSettings, to_ns
from ordo.consumers.consumer_member import ConsumerSettings
from ordo.consumers.consumer_orders import ConsumerOrders
from ordo.follow.reader import LogReader
from ordo.follow.recordings.ranges import RangeReader, survey
from ordo.follow.topics.feeds import FeedReader
from ordo.runtime.errors import ClusterTimeoutError, ConfigurationError, OrdoError

NOWHERE = ["127.0.0.1:9"]
GROUP = "aeron:udp?endpoint=224.20.30.39:40457"


def test_an_egress_address_of_another_machine_is_named() -> None:
    """An AttributeError about `_egress_subscription` hid it."""
    with pytest.raises(OrdoError, match=r"192\.0\.2\.1"):
        ClusterClient(NOWHERE, "aeron:udp?endpoint=192.0.2.1:0")


def test_members_that_do_not_answer_are_named_and_no_thread_is_left() -> None:
    settings = ClientSettings(connect_timeout_s=0.2)
    with pytest.raises(ClusterTimeoutError, match=r"no session was opened in time: endpoints=0=127\.0\.0\.1:9"):
        ClusterClient(NOWHERE, settings=settings)
    assert [thread for thread in threading.enumerate() if thread.name == "ordo-session-keeper"] == []


@pytest.mark.parametrize(
    ("endpoints", "settings", "words"),
    [
        ((), {"ingress_channel": "aeron:ipc"}, "needs aeron_dir"),
        (NOWHERE, {"ingress_channel": "aeron:ipc"}, "must be empty for an IPC ingress"),
        (NOWHERE, {"ingress_channel": GROUP}, "must be empty when ingress_channel has an endpoint"),
        (NOWHERE, {"egress_channel": "aeron:ipc"}, "only with an ingress_channel of aeron:ipc"),
        ((), {"ingress_channel": GROUP, "key_file": "a", "trusted_file": "b"}, "multicast cannot be encrypted"),
        ((), {"ingress_channel": f"{GROUP}|interface=192.0.2.1", "connect_timeout_s": 0.5}, r"192\.0\.2\.1"),
    ],
)
def test_ways_in_that_cannot_be_are_one_line(endpoints: list[str], settings: dict[str, Any], words: str) -> None:
    with pytest.raises(OrdoError, match=words) as caught:
        ClusterClient(endpoints, settings=ClientSettings(**settings))
    assert "\n" not in caught.value.message


def test_an_unknown_policy_is_refused_with_those_that_are_allowed() -> None:
    with pytest.raises(ConfigurationError, match="egress_policy='wait': must be one of disconnect, drop-oldest"):
        ClientSettings(egress_policy="wait")


@pytest.mark.parametrize("endpoints", ["127.0.0.1:20000", b"127.0.0.1:20000", 20000])
def test_one_endpoint_in_place_of_a_list_is_refused_with_what_to_write(endpoints: Any) -> None:
    """It was taken for a list of letters: `ingress endpoint of member 0: '1'`."""
    asks: list[Callable[[], object]] = [
        lambda: ClusterClient(endpoints),
        lambda: LogReader(endpoints),
        lambda: FeedReader(endpoints, "prices"),
        lambda: ConsumerOrders(endpoints),
        lambda: survey(endpoints),
        lambda: RangeReader(endpoints, 0, 64),
        lambda: ConsumerSettings(name="desk", endpoints=endpoints),
        lambda: ApplicationSettings(group="desk", endpoints=endpoints, folder="."),
    ]
    for ask in asks:
        with pytest.raises(ConfigurationError, match=r"must be a list: give \['1\d*\.0\.0\.1:20000'\]"):
            ask()


def test_settings_in_the_place_of_the_egress_channel_are_refused() -> None:
    """AttributeError: 'ClientSettings' object has no attribute 'startswith'."""
    with pytest.raises(ConfigurationError, match=r"give ClientSettings as settings=\.\.\."):
        ClusterClient(NOWHERE, ClientSettings())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"journal": "orders.journal"},
            r"journal=orders\.journal: name the file as ClientSettings\(journal",
        ),
        ({"settings": {"journal": "orders.journal"}}, r"settings=\{'journal': .*\}: give ClientSettings\(\.\.\.\)"),
        ({"settings": False}, r"settings=False: give ClientSettings"),
    ],
)
def test_what_is_no_journal_and_no_settings_is_refused_with_what_to_write(wrong: dict[str, Any], words: str) -> None:
    """The path of a journal ended in an AttributeError, once the session was open."""
    with pytest.raises(ConfigurationError, match=words):
        ClusterClient(NOWHERE, **wrong)


def test_credentials_that_are_a_str_say_how_they_become_bytes() -> None:
    told = r"credentials of type str: must be bytes or a function; text\.encode\(\) gives bytes"
    with pytest.raises(ConfigurationError, match=told):
        ClientSettings(credentials="token")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("egress_term_length_bytes", 1000, "must be a power of two, 65536 to 1073741824"),
        ("egress_term_length_bytes", 96 * 1024, "must be a power of two"),
        ("reconnect", "no", "must be True or False"),
        ("keep_alive_thread", "no", "must be True or False"),
        ("journal", 5, "must be text"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_at_once(name: str, value: Any, words: str) -> None:
    """A client with such a term waited 15 s for a session that no member could open, and did not say why."""
    with pytest.raises(ConfigurationError, match=f"{name}={value!r}: {words}"):
        ClientSettings(**{name: value})


def test_a_call_waits_as_long_as_it_says() -> None:
    """0 was taken for no word at all, which is ten seconds."""
    settings = ClientSettings(message_timeout_s=7)
    assert [settings.seconds(timeout_s) for timeout_s in (None, 0, -1, 2, 0.5)] == [7, 0, -1, 2, 0.5]
    assert settings.seconds(float("inf")) == FOREVER_S and to_ns(FOREVER_S) < 1 << 62
