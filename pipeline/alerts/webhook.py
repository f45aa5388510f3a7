"""Gives alerts to a webhook: one POST of JSON each, tried again until it is taken or time is up."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable

import typer

from ordo.pipeline.alerts.alerts import Alert
from ordo.pipeline.decoding.errors import PipelineError

AUTHORIZATION = "ORDO_WEBHOOK_AUTHORIZATION"
"""Environment variable whose value becomes the header Authorization: a secret does not belong on a command line."""
_ANSWER_TIMEOUT_S = 10.0
_WAIT_FIRST_S, _WAIT_MAX_S = 0.5, 15.0


class Webhook:
    """Delivers at least once: `Idempotency-Key` is the alert's id, by which a receiver can pass over a second one."""

    def __init__(
        self,
        url: str,
        timeout_s: float = 60.0,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise PipelineError(f"webhook {url!r}: write http://... or https://...")
        self._url, self._timeout_s, self._sleep, self._now = url, timeout_s, sleep, now

    def __call__(self, alert: Alert) -> None:
        """Send an alert. Raises PipelineError if it was not accepted in time."""
        deadline, wait_s = self._now() + self._timeout_s, _WAIT_FIRST_S
        while True:
            problem = self._post(alert)
            if problem is None:
                return
            if self._now() + wait_s > deadline:
                raise PipelineError(
                    f"webhook {self._url} did not take alert {alert['id']} in {self._timeout_s:g} s: {problem}; it "
                    f"comes again at the next start with the same checkpoint"
                )
            self._sleep(wait_s)
            wait_s = min(2 * wait_s, _WAIT_MAX_S)

    def _post(self, alert: Alert) -> str | None:
        """Post a body; return what went wrong, or None.

        Redirects are not followed with a POST; they count as refusals.
        """
        headers = {"Content-Type": "application/json", "Idempotency-Key": alert["id"]}
        if os.environ.get(AUTHORIZATION):
            headers["Authorization"] = os.environ[AUTHORIZATION]
        request = urllib.request.Request(self._url, json.dumps(alert).encode(), headers, method="POST")
        try:
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=_ANSWER_TIMEOUT_S):
                return None
        except urllib.error.HTTPError as error:
            error.close()
            return f"status {error.code}"
        except (OSError, ValueError) as error:
            return str(error)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def tell_alert(alert: Alert, call: Webhook | None) -> None:
    """Give an alert to the webhook, and print it.

    With a webhook, an output that cannot be written, such as one on a full disk, ends nothing: somebody was told.
    Raises PipelineError when nobody took the alert, and without a webhook OSError when it cannot be printed.
    """
    if call is not None:
        call(alert)
    try:
        typer.echo(f"{alert['kind']} {alert['log']}: {alert['text']}")
    except OSError:
        if call is None:
            raise
