"""As much of Kubernetes' API as `kubectl apply` needs: it takes objects that fit the schemas, and runs none of them."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import kubernetes_validate

RESOURCES = {
    "v1": {"services": "Service", "configmaps": "ConfigMap", "secrets": "Secret"},
    "apps/v1": {"statefulsets": "StatefulSet"},
    "policy/v1": {"poddisruptionbudgets": "PodDisruptionBudget"},
    "networking.k8s.io/v1": {"networkpolicies": "NetworkPolicy"},
}
VERBS = ["create", "get", "list", "patch"]


def _groups() -> dict[str, Any]:
    versions = [one for one in RESOURCES if "/" in one]
    named = [{"groupVersion": one, "version": one.partition("/")[2]} for one in versions]
    groups = [
        {"name": one["groupVersion"].partition("/")[0], "versions": [one], "preferredVersion": one} for one in named
    ]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _resources(version: str) -> dict[str, Any]:
    rows = [
        {"name": name, "singularName": kind.lower(), "namespaced": True, "kind": kind, "verbs": VERBS}
        for name, kind in RESOURCES[version].items()
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": rows}


ANSWERS: dict[str, dict[str, Any]] = {
    "/version": {"major": "1", "minor": "34", "gitVersion": "v1.34.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": _groups(),
    **{f"{'/apis' if '/' in one else '/api'}/{one}": _resources(one) for one in RESOURCES},
}


class KubernetesApi:
    """Listens on loopback; `objects` are those that it took, `refusals` say why it did not take others. A
    context."""

    def __init__(self, version: str) -> None:
        self.objects: list[dict[str, Any]] = []
        self.refusals: list[str] = []
        self.version = version

        class Handler(BaseHTTPRequestHandler):
            def do_GET(handler) -> None:
                found = ANSWERS.get(handler.path.partition("?")[0])
                self._answer(handler, 404 if found is None else 200, found or _refusal(404, "NotFound", handler.path))

            def do_POST(handler) -> None:
                body = handler.rfile.read(int(handler.headers["Content-Length"]))
                self._answer(handler, *self._take(json.loads(body)))

            def log_message(self, format: str, *args: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> KubernetesApi:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _take(self, made: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        try:
            kubernetes_validate.validate(made, self.version, strict=True)
        except kubernetes_validate.ValidationError as error:
            self.refusals.append(error.message)
            return 422, _refusal(422, "Invalid", error.message)
        self.objects.append(made)
        return 201, made

    def _answer(self, handler: BaseHTTPRequestHandler, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)


def _refusal(code: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
