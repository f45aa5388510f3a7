"""Clients that cannot be made say why."""

from __future__ import annotations

import threading

import pytest

from cluster.client import ClientSettings, ClusterClient
from runtime.errors import ClusterTimeoutError, ConfigurationError, OrdoError

NOWHERE = ["127.0.0.1:9"]


def test_an_egress_address_of_another_machine_is_named() -> None:
    """An AttributeError about `_egress_subscription` hid it."""
    with pytest.raises(OrdoError, match=r"192\.0\.2\.1"):
        ClusterClient(NOWHERE, "aeron:udp?endpoint=192.0.2.1:0")


def test_members_that_do_not_answer_are_named_and_no_thread_is_left() -> None:
    settings = ClientSettings(connect_timeout_s=0.2)
    with pytest.raises(ClusterTimeoutError, match=r"no session was opened in time: endpoints=0=127\.0\.0\.1:9"):
        ClusterClient(NOWHERE, settings=settings)
    assert [thread for thread in threading.enumerate() if thread.name == "ordo-session-keeper"] == []


def test_an_unknown_policy_is_refused_with_those_that_are_allowed() -> None:
    with pytest.raises(ConfigurationError, match="egress_policy='wait': must be one of disconnect, drop-oldest"):
        ClientSettings(egress_policy="wait")
