"""The two addresses of watchers, `/api/topics/TOPIC` and `/api/log`, for a web server that has its guards already."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from aiohttp import web

from ordo.gateway.watching.channels import EventStream, Socket, hang_up
from ordo.gateway.watching.watch_requests import token_of, watch_request
from ordo.gateway.watching.watchers import Ending, Reason, Watchers, Who, status_of
from ordo.runtime.errors import OrdoError
from ordo.runtime.reporting.logging import get_logger

FindLogin = Callable[[web.Request], tuple[bytes, Callable[[], bool]] | None]
"""Returns the token of a browser's login, and what says whether that has ended; None without one."""


class WatchPages:
    """Serves watchers: programs with a token, and browsers that have logged in."""

    def __init__(self, watchers: Watchers, find_login: FindLogin, headers: Mapping[str, str]) -> None:
        """`headers` go with each response."""
        self._watchers = watchers
        self._find_login = find_login
        self._headers = headers

    def add_to(self, app: web.Application) -> None:
        """Add the addresses to a web server."""
        app.router.add_get("/api/topics/{topic}", self._serve)
        app.router.add_get("/api/log", self._serve)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        is_socket = request.headers.get("Upgrade", "").lower() == "websocket"
        channel = (Socket if is_socket else EventStream)(request, self._headers)
        try:
            ending = await self._watchers.watch(watch_request(request), self._who(request), channel)
        except OrdoError as error:
            return web.json_response({"error": error.message}, status=status_of(error))
        except (ConnectionError, asyncio.CancelledError):
            if not channel.response.prepared:
                raise
            hang_up(request)  # also where it closes already, with a buffer that nobody takes
            ending = Ending(Reason.FAILED, "the watcher has gone")
        finally:
            if isinstance(channel, Socket):
                channel.stop()
        get_logger().info("gateway.watch-ended", address=request.remote, reason=ending.reason.value, text=ending.text)
        return channel.response

    def _who(self, request: web.Request) -> Who:
        """Return who asks. Raises ConfigurationError for what is no token."""
        token = token_of(request)
        if token is not None:
            return Who(token, request.remote or "", lambda: False)
        login = self._find_login(request)
        if login is None:  # never the gateway's own token: a browser may be anybody's
            return Who(b"", request.remote or "", lambda: False)
        credentials, is_over = login
        return Who(credentials, request.remote or "", is_over)
