"""Response channels: a publication back to exactly the publisher that asked (transport-wire.md §9).

The requester adds a subscription with control-mode=response, and a publication whose response-correlation-id is that
subscription's registration id. The responder adds, for each image that it wants to answer, a publication with
control-mode=response whose response-correlation-id is the image's correlation id. No address of the requester is
configured anywhere: its driver is told the session of the response, and asks for it from where it wants to hear it.
"""

from __future__ import annotations

from ordo.runtime.errors import ChannelError
from ordo.transport.driver.channels.parameters import NO_RESPONSE
from ordo.transport.driver.conducting.links import KIND_IPC, SubscriptionLink
from ordo.transport.driver.conducting.subscriptions import Subscriptions
from ordo.transport.driver.receiving.publication_image import PublicationImage
from ordo.transport.driver.sending.ipc_publication import IpcPublication
from ordo.transport.driver.sending.network_publication import NetworkPublication
from ordo.transport.uri import PROTOTYPE_CORRELATION_ID, ChannelUri


class Responses:
    """The table of which publication responds to which image, and which subscription waits for which response."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions
        self._bound: list[tuple[NetworkPublication, PublicationImage]] = []

    def check(self, uri: ChannelUri) -> None:
        """Raise ChannelError when a publication's channel names an image or a subscription that it cannot use."""
        wanted = uri.integer("response-correlation-id", NO_RESPONSE)
        if uri.control_mode == "response":
            if wanted == NO_RESPONSE:
                raise ChannelError(
                    f"channel {str(uri)!r}: control-mode=response was specified, but no response-correlation-id set: "
                    "name the image that it responds to by its correlation id"
                )
            if uri.is_ipc:
                self._request(uri, wanted)
            elif wanted != PROTOTYPE_CORRELATION_ID:
                self._image(uri, wanted)
        elif wanted != NO_RESPONSE:
            self._link(uri, wanted)

    def on_publication(self, publication: object) -> None:
        """Tell an image's sender about a new publication that responds to that image."""
        if isinstance(publication, IpcPublication):
            self._on_ipc_publication(publication)
            return
        if not isinstance(publication, NetworkPublication) or not publication.is_response:
            return
        wanted = publication.parameters.response_correlation_id
        if wanted == PROTOTYPE_CORRELATION_ID or any(bound is publication for bound, _ in self._bound):
            return
        image = self._subscriptions.images.all[wanted]
        self._bound.append((publication, image))
        image.offer_response(publication.session_id)

    def _on_ipc_publication(self, publication: IpcPublication) -> None:
        """Let only the subscription that waits for it receive a response over shared memory."""
        if not publication.parameters.is_response:
            return
        request = self._subscriptions.publications.ipc[publication.parameters.response_correlation_id]
        for link in self._subscriptions.links.of_registration(request.parameters.response_correlation_id):
            if link.is_response and link.kind == KIND_IPC:
                link.response_session_id = publication.session_id

    def on_response_setups(self, setups: list[tuple[NetworkPublication, int]]) -> None:
        """Request response streams for the subscriptions that wait for them.

        The receivers of their requests have set them up.
        """
        for publication, session_id in setups:
            wanted = publication.parameters.response_correlation_id
            for link in self._subscriptions.links.of_registration(wanted):
                if link.is_response:
                    self._await(link, session_id)

    def on_time_event(self) -> None:
        """Tell senders about their responses while these are not connected."""
        kept = []
        for publication, image in self._bound:
            if not (publication.is_active and image.is_active) or publication.log.connected:
                image.withdraw_response()
            elif not image.has_response:
                image.offer_response(publication.session_id)
            if publication.is_active and image.is_active:
                kept.append((publication, image))
        self._bound = kept

    def _await(self, link: SubscriptionLink, session_id: int) -> None:
        assert link.endpoint is not None
        if link.response_session_id != session_id:
            if link.response_session_id is not None:
                link.endpoint.remove_interest(link.stream_id, link.response_session_id)
            link.response_session_id = session_id
            link.endpoint.add_interest(link.stream_id, session_id)
        link.endpoint.ask_setup(session_id, link.stream_id)

    def _image(self, uri: ChannelUri, correlation_id: int) -> PublicationImage:
        image = self._subscriptions.images.all.get(correlation_id)
        if image is None or not image.is_active:
            raise ChannelError(
                f"channel {str(uri)!r}: image.correlationId={correlation_id} not found: its publisher is gone, or the "
                "response-correlation-id is another resource's"
            )
        if not image.asks_response:
            raise ChannelError(
                f"channel {str(uri)!r}: the publisher of image.correlationId={correlation_id} did not request a "
                "response channel: it must have a response-correlation-id of its own"
            )
        return image

    def _request(self, uri: ChannelUri, correlation_id: int) -> None:
        """Raise ChannelError unless an IPC publication has that id, and asks for a response."""
        request = self._subscriptions.publications.ipc.get(correlation_id)
        if request is None or not request.is_active:
            raise ChannelError(
                f"channel {str(uri)!r}: image.correlationId={correlation_id} not found in aeron:ipc: its publisher is "
                "gone, or the response-correlation-id is another resource's"
            )
        if request.parameters.is_response or request.parameters.response_correlation_id == NO_RESPONSE:
            raise ChannelError(
                f"channel {str(uri)!r}: the publisher of image.correlationId={correlation_id} did not request a "
                "response channel: it must have a response-correlation-id of its own"
            )

    def _link(self, uri: ChannelUri, registration_id: int) -> SubscriptionLink:
        for link in self._subscriptions.links.of_registration(registration_id):
            if link.is_response and (link.kind == KIND_IPC) == uri.is_ipc:
                return link
        raise ChannelError(
            f"channel {str(uri)!r}: unable to find response subscription: none with control-mode=response has "
            f"registration id {registration_id}, add it first"
        )
