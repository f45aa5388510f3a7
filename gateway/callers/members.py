"""The members as an operator reaches them, with the gateway's settings of encryption."""

from __future__ import annotations

from ordo.cluster.admin.remote import RemoteCluster
from ordo.gateway.callers.settings import GatewaySettings
from ordo.transport.secure.settings import Encryption


def remote_cluster(settings: GatewaySettings, credentials: bytes) -> RemoteCluster:
    """Connect for orders and looks; the caller closes the connection, which belongs to one thread."""
    encryption = Encryption.chosen(settings.client.key_file, settings.client.trusted_file)
    return RemoteCluster(",".join(settings.endpoints), credentials=credentials, encryption=encryption)
