"""The console's web server: pages, server-sent events, orders. It runs on the gateway's event loop.

GET  /                     the page; /console.css and the scripts beside it
POST /api/login            lets a browser in by a token, or without one where the cluster authenticates nobody
POST /api/logout
GET  /api/session          whether the browser is let in
GET  /api/events           server-sent events: history, state, details
GET  /api/messages         a page of the log
GET  /api/consumers        durable consumers with their lag
GET  /api/apps             instances of applications with their lag
POST /api/orders           gives an order
GET  /api/topics/TOPIC, /api/log   messages as they come (ordo.gateway.watching)
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable, Iterable
from importlib.resources import files
from typing import Any

from aiohttp import web

from ordo.follow.entries import EntryKind
from ordo.gateway.callers.round_trips import NOTHING, RoundTrips, Second
from ordo.gateway.callers.settings import GatewaySettings
from ordo.gateway.console.access import HEADERS, Login, Logins, why_foreign
from ordo.gateway.console.cluster_view import POINTS_MAX, exact
from ordo.gateway.console.connections import BACKLOG, Connections
from ordo.gateway.console.messages import ENTRIES_MAX, Wanted, open_browser
from ordo.gateway.console.orders import Consumers, give_order
from ordo.gateway.console.watch import Watch
from ordo.gateway.doors.descriptors import WATCHES_MAX
from ordo.gateway.doors.tls import tls_context
from ordo.gateway.watching.pages import WatchPages
from ordo.gateway.watching.watchers import Watchers
from ordo.runtime.errors import (
    ClusterTimeoutError,
    ConfigurationError,
    NoQuorumError,
    NotPermittedError,
    OrdoError,
    OutcomeUnknownError,
    SessionRejectedError,
)
from ordo.runtime.reporting.logging import get_logger

BODY_BYTES_MAX = 16 * 1024
BODY_TIMEOUT_S = 10.0
VIEWERS_MAX = 64
REFUSED_PAUSE_S = 0.5
"""A user with a wrong token waits, and so do all who log in after it."""
GUARDED_S = 60.0
"""Members that let nobody look without a token are not asked for it again for so long: they count what they refuse."""
TICK_S = 1.0
STOP_TIMEOUT_S = 2.0
POSITION_MAX = (1 << 63) - 1
PAGE = {
    "/": ("index.html", "text/html"),
    "/console.css": ("console.css", "text/css"),
    "/main.js": ("main.js", "text/javascript"),
    "/draw.js": ("draw.js", "text/javascript"),
    "/live.js": ("live.js", "text/javascript"),
    "/parts.js": ("parts.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
STATUSES: dict[type[OrdoError], int] = {
    ConfigurationError: 400,
    NotPermittedError: 403,
    SessionRejectedError: 403,
    NoQuorumError: 503,
    OutcomeUnknownError: 504,
    ClusterTimeoutError: 503,
    OrdoError: 409,
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Console:
    """Belongs to one event loop. Raises ConfigurationError for a decoder that cannot be loaded."""

    def __init__(
        self, settings: GatewaySettings, round_trips: RoundTrips, connections_max: int, watchers: Watchers
    ) -> None:
        self._settings = settings
        self._pages = WatchPages(watchers, self._find_login, HEADERS)
        self._connections_max = connections_max
        self._connections: Connections | None = None
        self._round_trips = round_trips
        self._second: Second = NOTHING
        self._logins = Logins(bool(settings.certificate))
        self._watches: dict[bytes, Watch] = {}
        self._consumers: dict[bytes, Consumers] = {}
        self._messages = open_browser(settings.archive_endpoints(), settings.decoder, watchers.log_messages)
        self._guarded_until_s = 0.0
        self._one_login = asyncio.Lock()
        self._one_order = asyncio.Lock()
        self._one_page = asyncio.Lock()
        self._names = {one.lower() for one in (*settings.console_names, settings.console.rpartition(":")[0])}
        self._files = {
            path: (files("ordo.gateway.console") / "page" / name).read_bytes() for path, (name, _) in PAGE.items()
        }
        self._runner: web.AppRunner | None = None
        self._ticker: asyncio.Task[None] | None = None
        self.address = settings.console
        """host:port that it listens on."""

    async def start(self) -> None:
        """Raise ConfigurationError for an address that cannot be listened on."""
        app = web.Application(middlewares=[self._guard], client_max_size=BODY_BYTES_MAX)
        for path in PAGE:
            app.router.add_get(path, self._send_page)
        app.router.add_post("/api/login", self._log_in)
        app.router.add_post("/api/logout", self._log_out)
        app.router.add_get("/api/session", self._send_session)
        app.router.add_get("/api/events", self._send_events)
        app.router.add_get("/api/messages", self._send_messages)
        app.router.add_get("/api/consumers", self._send_consumers)
        app.router.add_get("/api/apps", self._send_apps)
        app.router.add_post("/api/orders", self._take_order)
        self._pages.add_to(app)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=STOP_TIMEOUT_S)
        await self._runner.setup()
        tls = tls_context(self._settings)
        listener = await self._listen()
        assert self._runner.server is not None
        self._connections = Connections(listener, self._runner.server, self._connections_max)
        self._connections.start(tls)
        self.address = f"{self._settings.console.rpartition(':')[0]}:{listener.getsockname()[1]}"
        self._ticker = asyncio.create_task(self._tick())

    async def _listen(self) -> socket.socket:
        host, _, port = self._settings.console.rpartition(":")
        try:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
            family, *_, address = found[0]
            return socket.create_server(address[:2], family=family, backlog=BACKLOG)
        except OSError as error:
            raise ConfigurationError(f"--console {self._settings.console}: {error.strerror or error}") from None

    async def stop(self) -> None:
        """End all streams and close everything that was opened. Idempotent."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        for watch in self._watches.values():
            watch.stop()
        if self._connections is not None:
            self._connections.stop()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        for consumers in self._consumers.values():
            await asyncio.to_thread(consumers.close)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._second = self._round_trips.take()
            if self._connections is not None:
                self._connections.close_silent()
            for key in [key for key, watch in self._watches.items() if watch.has_ended]:
                del self._watches[key]
            for consumers in self._consumers.values():
                await asyncio.to_thread(consumers.close_unused)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse what another site may have asked for, and turn errors of ours into one line."""
        assert self._connections is not None
        self._connections.begin(request.protocol)
        try:
            return await self._answer(request, handler)
        finally:
            self._connections.end(request.protocol)

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        problem = why_foreign(request, self._names)
        if problem:
            return _refusal(403, problem)
        try:
            response = await handler(request)
        except web.HTTPException as error:
            return _refusal(error.status, error.reason)
        except OrdoError as error:
            return _refusal(next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), error.message)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    async def _send_page(self, request: web.Request) -> web.Response:
        return web.Response(body=self._files[request.path], content_type=PAGE[request.path][1], charset="utf-8")

    # Who watches

    async def _log_in(self, request: web.Request) -> web.Response:
        token = (await _body(request)).get("token", "")
        if not isinstance(token, str) or len(token) > 4_096:
            raise ConfigurationError("token: must be text of at most 4096 characters")
        if not token and time.monotonic() < self._guarded_until_s:
            raise NotPermittedError("this cluster asks for a token")
        async with self._one_login:
            try:
                watch = await self._watch_of(token.strip().encode())
            except NotPermittedError:
                if not token:
                    self._guarded_until_s = time.monotonic() + GUARDED_S
                await asyncio.sleep(REFUSED_PAUSE_S)
                raise
        response = web.json_response({"may_order": bool(token)})
        self._logins.begin(watch, response)
        return response

    async def _watch_of(self, credentials: bytes) -> Watch:
        watch = self._watches.get(credentials)
        if watch is not None and not watch.has_ended:
            return watch
        if len([one for one in self._watches.values() if not one.has_ended]) >= WATCHES_MAX:
            raise ClusterTimeoutError(f"people watch with {WATCHES_MAX} tokens already: try again when one has left")
        watch = Watch(self._settings, credentials, lambda: self._second)
        await watch.open()
        self._watches[credentials] = watch
        return watch

    async def _send_session(self, request: web.Request) -> web.Response:
        return web.json_response({"is_in": self._logins.find(request) is not None})

    async def _log_out(self, request: web.Request) -> web.Response:
        response = web.json_response({})
        self._logins.end(request, response)
        return response

    def _login_of(self, request: web.Request) -> Login:
        login = self._logins.find(request)
        if login is None:
            raise web.HTTPUnauthorized(reason="log in first")
        return login

    def _find_login(self, request: web.Request) -> tuple[bytes, Callable[[], bool]] | None:
        login = self._logins.find(request)
        if login is None:
            return None

        def is_over() -> bool:
            login.used_s = time.monotonic()  # who watches is not silent
            return login.is_over or not self._logins.has(login)

        return login.watch.credentials, is_over

    async def _live_watch(self, login: Login) -> Watch:
        """Return the login's watch, begun again when it was left alone for long."""
        if login.watch.has_ended:
            async with self._one_login:
                login.watch = await self._watch_of(login.watch.credentials)
        return login.watch

    # What they see

    async def _send_events(self, request: web.Request) -> web.StreamResponse:
        login = self._login_of(request)
        if sum(one.viewers for one in self._watches.values()) >= VIEWERS_MAX:
            raise web.HTTPServiceUnavailable(reason=f"{VIEWERS_MAX} pages are open, as many as there may be")
        watch = await self._live_watch(login)
        response = web.StreamResponse(headers=HEADERS | {"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        watch.viewers += 1
        try:
            await self._stream(watch, login, response)
        except ConnectionError:
            pass  # the browser has gone
        finally:
            watch.viewers -= 1
            login.used_s = watch.used_s = time.monotonic()
        return response

    async def _stream(self, watch: Watch, login: Login, response: web.StreamResponse) -> None:
        story, told, sent = watch.story, 0, None
        await _send(response, "history", {"points": list(story.points), "points_max": POINTS_MAX})
        while not watch.has_ended:
            changed = watch.changed
            notes = [one._asdict() for one in story.notes if one.number > told]
            told = notes[-1]["number"] if notes else told
            state = story.state | {"notes": notes, "point": story.points[-1] if story.points else None}
            await _send(response, "state", state | {"may_order": bool(watch.credentials)})
            if watch.details is not sent:
                sent = watch.details
                await _send(response, "details", sent)
            await changed.wait()
            if login.is_over:
                return
            login.used_s = time.monotonic()

    async def _send_messages(self, request: web.Request) -> web.Response:
        watch = await self._live_watch(self._login_of(request))
        wanted = _wanted(request)
        async with self._one_page:
            found = await asyncio.to_thread(
                self._messages.read, wanted, _boundaries(watch), _committed(watch), watch.credentials
            )
        return web.json_response({"entries": found.entries, "next": found.next_position, "is_cut": found.is_cut})

    async def _send_consumers(self, request: web.Request) -> web.Response:
        consumers = self._consumers_of(self._login_of(request))
        return web.json_response({"consumers": exact(await asyncio.to_thread(consumers.list_all))})

    async def _send_apps(self, request: web.Request) -> web.Response:
        consumers = self._consumers_of(self._login_of(request))
        return web.json_response({"instances": exact(await asyncio.to_thread(consumers.list_instances))})

    def _consumers_of(self, login: Login) -> Consumers:
        credentials = login.watch.credentials
        if credentials not in self._consumers:
            self._consumers[credentials] = Consumers(self._settings, credentials)
        return self._consumers[credentials]

    # What they order

    async def _take_order(self, request: web.Request) -> web.Response:
        login = self._login_of(request)
        body = await _body(request)
        name, target, consumer = str(body.get("order", "")), body.get("member"), body.get("consumer")
        if body.get("confirmed") is not True:
            raise ConfigurationError("an order must be confirmed: show who gives it what it does, and ask")
        if target is not None and (not isinstance(target, int) or not 0 <= target < 1 << 31):
            raise ConfigurationError("member: must be the id of a member")
        async with self._one_order:
            outcome = "failed"
            try:
                if isinstance(consumer, str):
                    done = await asyncio.to_thread(self._consumers_of(login).give_order, name, consumer)
                else:
                    done = await asyncio.to_thread(give_order, self._settings, login.watch.credentials, name, target)
                outcome = done
            except OrdoError as error:
                outcome = error.message
                raise
            finally:
                get_logger().info("console.order", order=name[:40], address=request.remote, outcome=outcome)
        return web.json_response({"done": done})


def _refusal(status: int, text: str) -> web.Response:
    return web.json_response({"error": text}, status=status, headers=HEADERS)


async def _body(request: web.Request) -> dict[str, Any]:
    """Return the JSON object of a request. Raises ConfigurationError."""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            text = await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(reason=f"the body did not come within {BODY_TIMEOUT_S:g} s") from None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ConfigurationError("the body of the request must be a JSON object")
    return found


async def _send(response: web.StreamResponse, event: str, value: object) -> None:
    text = json.dumps(exact(value), separators=(",", ":"))
    await response.write(f"event: {event}\ndata: {text}\n\n".encode())


def _wanted(request: web.Request) -> Wanted:
    """Return the entries that the query asks for. Raises ConfigurationError."""
    begin, count, session = (request.query.get(name, "") for name in ("from", "count", "session"))
    for name, text in (("from", begin), ("count", count), ("session", session)):
        if text and not (text.isdecimal() and text.isascii() and int(text) <= POSITION_MAX):
            raise ConfigurationError(f"{name}={text[:40]}: must be a number of 0 or more")
    names = [one for one in request.query.get("kinds", "").split(",") if one]
    known = {kind.value: kind for kind in EntryKind}
    if unknown := [one for one in names if one not in known]:
        raise ConfigurationError(f"kinds={unknown[0][:40]}: must be some of {', '.join(known)}")
    return Wanted(
        int(begin) if begin else None,
        min(int(count or 50), ENTRIES_MAX) or 1,
        [known[one] for one in names] or None,
        int(session) if session else None,
    )


def _boundaries(watch: Watch) -> Iterable[int]:
    """Return positions at which entries begin, from the members' reports."""
    found: list[int] = []
    for one in watch.details.values():
        terms, snapshots = (row[1] for row in one.get("terms", [])), (row[0] for row in one.get("snapshots", []))
        start = one.get("log_start", -1)
        found += [row for row in (*terms, *snapshots, start) if isinstance(row, int) and row >= max(0, start)]
    return found


def _committed(watch: Watch) -> int:
    return max((one["commit"] for one in watch.story.state.get("members", [])), default=0)
