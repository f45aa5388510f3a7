"""TLS of the doors that Python's own `ssl` serves."""

from __future__ import annotations

import ssl

from ordo.gateway.doors.settings import DoorSettings
from ordo.runtime.errors import ConfigurationError


def tls_context(settings: DoorSettings) -> ssl.SSLContext | None:
    """Return the server's side of TLS; None without a certificate. Raises ConfigurationError."""
    if not settings.certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.certificate, settings.key)
        if settings.client_ca:
            context.load_verify_locations(settings.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:
        files = ", ".join(str(one) for one in (settings.certificate, settings.key, settings.client_ca) if one)
        raise ConfigurationError(f"TLS with {files}: {error.strerror or error}") from None
    return context
