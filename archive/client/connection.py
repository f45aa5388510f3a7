"""Session and transport of one client: what plain and asyncio clients have in common. Never waits."""

from __future__ import annotations

from collections.abc import Callable

from ordo.archive.client.session import ArchiveSession, SignalEvent
from ordo.archive.client.settings import ArchiveClientSettings
from ordo.runtime.errors import ArchiveError
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.secure.settings import Encryption


def client_transport(settings: ArchiveClientSettings, aeron_dir: str | None) -> ClientTransport:
    """Return the transport of a client of an archive: the driver in `aeron_dir`, default one of its own."""
    if aeron_dir:
        return ClientTransport.connect(aeron_dir, "archive-client")
    encryption = Encryption.chosen(settings.key_file, settings.trusted_file)
    return ClientTransport.embedded("archive-client", encryption=encryption)


class ArchiveLink:
    """A session that is being opened, over a transport that ends with it. `work` every duty cycle."""

    def __init__(
        self,
        settings: ArchiveClientSettings,
        aeron_dir: str | None,
        transport: ClientTransport | None,
        on_signal: Callable[[SignalEvent], object] | None,
    ) -> None:
        """Prepare a connection; `aeron_dir`: the driver to use, default one of its own. Raises TransportError."""
        self.settings = settings
        self.transport = transport or client_transport(settings, aeron_dir)
        try:
            now_ns = self.transport.clock.now()
            self.session = ArchiveSession(self.transport.client, settings, now_ns, on_signal)
        except BaseException:
            self.transport.close()
            raise

    def work(self) -> int:
        """Run one duty cycle of driver and session; return the count of things done."""
        with self.transport.use:
            return self.session.work(self.transport.drive())

    def raise_errors(self) -> None:
        """Raise what has ended the session, or the error of a replay or recording that failed since the last call."""
        if self.session.error is not None:
            raise self.session.error
        if self.session.late_errors:
            raise self.session.late_errors.popleft()[1]

    def close(self) -> None:
        """End the session; recordings that it started continue. Idempotent. A call in progress ends first."""
        self.transport.close(before=self._say_goodbye)

    def _say_goodbye(self) -> None:
        if not self.session.is_closed:
            self.session.close()
            self.transport.drive()

    def check_open(self) -> None:
        """Raise ArchiveError once the client is closed, ForkedError in a process forked from this one's."""
        self.transport.use.check()
        if self.transport.is_closed:
            raise ArchiveError("the session with the archive is closed; connect again")
