"""Who may use the console: people who showed a token that the members take, from pages of the console itself.

Browsers send cookies along with whatever any site makes them ask. So a request counts only if it names a host under
which the console is meant to be reached (no other site's name that was made to point here), and if the browser does not
say that another site made it; whatever changes something must come with a header that no other site can set.
"""

from __future__ import annotations

import ipaddress
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass, field

from aiohttp import web

from ordo.gateway.console.watch import Watch

LOGINS_MAX = 32
IDLE_S = 3_600.0
LIFE_S = 12 * 3_600.0
OWN_HEADER = "X-Ordo-Console"
SAME_SITE = ("same-origin", "none")
"""Values of Sec-Fetch-Site of requests that no other site has made; "none": somebody typed the address."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(eq=False)
class Login:
    """One browser that was let in."""

    watch: Watch
    since_s: float = field(default_factory=time.monotonic)
    used_s: float = field(default_factory=time.monotonic)

    @property
    def is_over(self) -> bool:
        now_s = time.monotonic()
        return now_s - self.since_s > LIFE_S or now_s - self.used_s > IDLE_S


class Logins:
    """All logged-in browsers; when there are too many, the one that was silent longest is logged out."""

    def __init__(self, is_encrypted: bool) -> None:
        self._is_encrypted = is_encrypted
        self.cookie = "__Host-ordo-console" if is_encrypted else "ordo-console"
        self._logins: dict[str, Login] = {}

    def find(self, request: web.Request) -> Login | None:
        """Return the login of a request's cookie."""
        key = request.cookies.get(self.cookie, "")
        login = self._logins.get(key)
        if login is None or login.is_over:
            self._logins.pop(key, None)
            return None
        login.used_s = login.watch.used_s = time.monotonic()
        return login

    def has(self, login: Login) -> bool:
        """Return whether a browser is still logged in."""
        return login in self._logins.values()

    def begin(self, watch: Watch, response: web.Response) -> None:
        """Let a browser in: its cookie goes with the response."""
        for key in [key for key, login in self._logins.items() if login.is_over]:
            del self._logins[key]
        while len(self._logins) >= LOGINS_MAX:
            del self._logins[min(self._logins, key=lambda key: self._logins[key].used_s)]
        key = secrets.token_urlsafe(32)
        self._logins[key] = Login(watch)
        response.set_cookie(
            self.cookie,
            key,
            max_age=round(LIFE_S),
            path="/",
            httponly=True,
            samesite="Strict",
            secure=self._is_encrypted,
        )

    def end(self, request: web.Request, response: web.Response) -> None:
        """Forget a browser."""
        self._logins.pop(request.cookies.get(self.cookie, ""), None)
        response.del_cookie(self.cookie, path="/", httponly=True, samesite="Strict", secure=self._is_encrypted)


def why_foreign(request: web.Request, names: Collection[str]) -> str:
    """Return why another site may have caused a request, or ''."""
    host = _host_name(request.headers.get("Host", ""))
    if not (host == "localhost" or host in names or _is_address(host)):
        return f"the console is not reached as {host[:80]!r}: start the gateway with --console-name for that name"
    if request.headers.get("Sec-Fetch-Site", "none") not in SAME_SITE:
        return "this request was made by another site"
    origin = request.headers.get("Origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("Host"):
        return "this request was made by a page of another origin"
    if request.method != "GET" and request.headers.get(OWN_HEADER) != "1":
        return f"a request that changes something must have the header {OWN_HEADER}: 1"
    return ""


def _host_name(host: str) -> str:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() and not host.endswith("]") else host
    return name.strip("[]").lower()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
