"""Subscriptions: the images of one channel and stream, polled in turn (log-buffer.md §8)."""

from ordo.transport.streams.image cimport Image

cdef enum:
    MODE_PLAIN = 0
    MODE_CONTROLLED = 1
    MODE_WHOLE = 2

cdef int64_t NO_LIMIT = 0x7FFFFFFFFFFFFFFF
NULL_COUNTER_ID = -1


cdef class Subscription:
    """Made by the client. Each poll begins at the next image, so that none is starved.

    `on_available_image(image)` and `on_unavailable_image(image)` are called from the client's `do_work`.
    """

    def __init__(self, str channel, int32_t stream_id, int64_t registration_id, *,
                 int32_t channel_status_id=NULL_COUNTER_ID, on_available_image=None, on_unavailable_image=None,
                 client=None):
        self.images = ()
        self.channel = channel
        self.stream_id = stream_id
        self.registration_id = registration_id
        self.channel_status_id = channel_status_id
        self.on_available_image = on_available_image
        self.on_unavailable_image = on_unavailable_image
        self._client = client

    cdef int _poll(self, object handler, int limit, int64_t limit_position, int mode) except -1:
        cdef tuple images = self.images
        cdef Py_ssize_t count = len(images)
        cdef Py_ssize_t i
        cdef int taken = 0
        cdef Py_ssize_t start = self._start
        if count == 0:
            if self.closed and self._client is not None:
                self._client.origin.check()          # the parent's, in a child made by fork
            return 0
        if start >= count:
            start = 0
        self._start = start + 1
        for i in range(count):
            if taken >= limit:
                break
            taken += (<Image> images[(start + i) % count]).poll_native(handler, limit - taken, limit_position, mode)
        return taken

    def poll(self, handler, int limit=10) -> int:
        """Call `handler(payload: bytes, header: Header)` for up to `limit` fragments of all images, as `Image.poll`."""
        return self._poll(handler, limit, NO_LIMIT, MODE_PLAIN)

    def controlled_poll(self, handler, int limit=10) -> int:
        """Poll like `poll`, with a handler that returns an `Action`; ABORT and BREAK end the turn of their image
        only."""
        return self._poll(handler, limit, NO_LIMIT, MODE_CONTROLLED)

    def poll_messages(self, handler, int limit=10) -> int:
        """Poll like `poll`, for whole messages: fragments are put together."""
        return self._poll(handler, limit, NO_LIMIT, MODE_WHOLE)

    def controlled_poll_messages(self, handler, int limit=10) -> int:
        """Poll like `controlled_poll`, for whole messages."""
        return self._poll(handler, limit, NO_LIMIT, MODE_WHOLE | MODE_CONTROLLED)

    def block_poll(self, handler, int32_t limit_bytes) -> int:
        """Call `handler(frames: memoryview, session_id, term_id)` at most once for each image. Returns the bytes."""
        return sum([image.block_poll(handler, limit_bytes) for image in self.images])

    def raw_poll(self, handler, int32_t limit_bytes) -> int:
        """Poll like `block_poll`, calling `handler(path, file_offset, frames, session_id, term_id)`; see
        `Image.raw_poll`."""
        return sum([image.raw_poll(handler, limit_bytes) for image in self.images])

    @property
    def image_count(self) -> int:
        return len(self.images)

    @property
    def is_connected(self) -> bool:
        """Whether there is at least one image."""
        return not self.closed and bool(self.images)

    @property
    def is_closed(self) -> bool:
        return self.closed

    def image_by_session_id(self, int32_t session_id) -> Image | None:
        """Return the image of a session, or None."""
        cdef Image image
        for image in self.images:
            if image.session_id == session_id:
                return image
        return None

    @property
    def channel_status(self) -> int:
        """1 active, 0 initialising, -1 errored, 2 closing; always 1 for IPC and spies."""
        if self._client is None or self.channel_status_id == NULL_COUNTER_ID:
            return 1
        return self._client.counters.get_value(self.channel_status_id)

    @property
    def local_socket_addresses(self) -> list:
        """`host:port` of the bound sockets, wildcard ports resolved; empty until the channel is active."""
        return [] if self._client is None else self._client.local_socket_addresses(self.channel_status_id)

    @property
    def resolved_endpoint(self) -> str | None:
        """The first of `local_socket_addresses`, None until bound."""
        return None if self._client is None else self._client.first_local_socket_address(self.channel_status_id)

    def close(self) -> None:
        """Give up the subscription and its images. Idempotent."""
        if not self.closed:
            self.closed = True
            if self._client is not None:
                self._client.on_subscription_closed(self)

    def reject_image(self, Image image not None, str reason) -> None:
        """Reject an image of this subscription; see `Image.reject`."""
        if self._client is not None:
            self._client.reject_image(image, reason)

    # --- for the client ---------------------------------------------------------------------------------------------


    def add_image(self, Image image not None) -> None:
        self.images = (*self.images, image)

    def remove_image(self, int64_t correlation_id) -> Image | None:
        """Take the image out and close it; None when there is none of this id."""
        cdef Image image
        for image in self.images:
            if image.correlation_id == correlation_id:
                self.images = tuple([other for other in self.images if other is not image])
                image.mark_closed()
                return image
        return None

    def force_close(self) -> tuple:
        """Close everything without telling the driver. Returns the images there were."""
        images = self.images
        self.closed = True
        self.images = ()
        for image in images:
            image.mark_closed()
        return images

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def __repr__(self) -> str:
        return (f"Subscription(channel={self.channel!r}, stream_id={self.stream_id}, "
                f"images={len(self.images)}, closed={bool(self.closed)})")
