"""Polls a cluster once a second while a page is open, in one thread for each token."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from ordo.cluster.admin.remote import RemoteCluster
from ordo.cluster.client.operator import MemberLook
from ordo.cluster.monitoring.top import Looks
from ordo.gateway.callers.members import remote_cluster
from ordo.gateway.callers.round_trips import Second
from ordo.gateway.callers.settings import GatewaySettings
from ordo.gateway.console.cluster_view import Story
from ordo.runtime.errors import ClusterError, ClusterTimeoutError, NotPermittedError, OrdoError

LOOK_INTERVAL_S = 1.0
LOOK_TIMEOUT_S = 0.6
FIRST_LOOK_TIMEOUT_S = 3.0
DETAILS_EVERY = 3
"""Details are asked with every third look."""
LEFT_ALONE_S = 30.0
"""A cluster that nobody watches for so long is looked at no more."""


class Watch:
    """One thread that polls, and its results; everything but `_run` belongs to the event loop.

    `changed` is set anew with each look; who waits for it takes it first and waits then.
    """

    def __init__(self, settings: GatewaySettings, credentials: bytes, newest_second: Callable[[], Second]) -> None:
        self._settings = settings
        self.credentials = credentials
        self._newest_second = newest_second
        self._loop = asyncio.get_running_loop()
        self._is_stopped = threading.Event()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="console-watch", daemon=True)
        self.story = Story()
        self.details: dict[str, dict[str, Any]] = {}
        """Keyed by ingress, for members that answer."""
        self.viewers = 0
        self.used_s = time.monotonic()
        self.changed = asyncio.Event()

    @property
    def is_left_alone(self) -> bool:
        return not self.viewers and time.monotonic() - self.used_s > LEFT_ALONE_S

    @property
    def has_ended(self) -> bool:
        return self._is_stopped.is_set()

    async def open(self) -> None:
        """Begin.

        Raises NotPermittedError where the members let nobody look with these credentials, ClusterTimeoutError where
        none answers.
        """
        self._thread.start()
        await asyncio.shield(self._opened)

    def stop(self) -> None:
        """End the thread, soon. Idempotent."""
        self._is_stopped.set()
        self.changed.set()

    # The thread's

    def _run(self) -> None:
        try:
            with remote_cluster(self._settings, self.credentials) as cluster:
                self._look_first(cluster)
                self._look_on(cluster)
        except OrdoError as error:
            self._tell(self._fail, error)
        except Exception as error:
            self._tell(self._fail, ClusterError(f"the console's watch failed: {type(error).__name__}: {error}"))
            raise
        finally:
            self._is_stopped.set()

    def _look_first(self, cluster: RemoteCluster) -> None:
        looks = cluster.look(FIRST_LOOK_TIMEOUT_S)
        if not any(isinstance(look, MemberLook) for look in looks.values()):
            troubles = [look for look in looks.values() if isinstance(look, OrdoError)]
            refusals = [one for one in troubles if isinstance(one, NotPermittedError)]
            raise refusals[0] if refusals else ClusterTimeoutError("; ".join(one.message for one in troubles))
        self._tell(self._take, looks, self._ask_details(cluster, looks))

    def _look_on(self, cluster: RemoteCluster) -> None:
        count = 0
        due_s = time.monotonic() + LOOK_INTERVAL_S
        while not self._is_stopped.wait(max(0.0, due_s - time.monotonic())):
            due_s = max(due_s + LOOK_INTERVAL_S, time.monotonic())
            count += 1
            looks = cluster.look(LOOK_TIMEOUT_S)
            details = self._ask_details(cluster, looks) if count % DETAILS_EVERY == 0 else None
            self._tell(self._take, looks, details)

    @staticmethod
    def _ask_details(cluster: RemoteCluster, looks: Looks) -> dict[str, dict[str, Any]]:
        found = {}
        for endpoint, look in looks.items():
            if isinstance(look, MemberLook):
                with contextlib.suppress(OrdoError):  # one of an older version tells none
                    found[endpoint] = cluster.describe(endpoint, LOOK_TIMEOUT_S)
        return found

    def _tell(self, action: Callable[..., None], *values: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(action, *values)

    # The event loop's

    def _take(self, looks: Looks, details: dict[str, dict[str, Any]] | None) -> None:
        self.story.add(looks, self._newest_second(), time.monotonic_ns(), round(time.time() * 1e3))
        if details is not None:
            self.details = details
        if not self._opened.done():
            self._opened.set_result(None)
        self._announce()
        if self.is_left_alone:
            self.stop()

    def _fail(self, error: OrdoError) -> None:
        if not self._opened.done():
            self._opened.set_exception(error)
        self._announce()

    def _announce(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()
