"""The native calls of publications and images, as other folders use them: without the GIL, in batches."""

from libc.stdint cimport int64_t, uint8_t

from ordo.runtime.io.datagram cimport DatagramChannel, SendItem
from ordo.runtime.native.atomics cimport ordo_monotonic_ns
from ordo.transport.streams.image cimport Assembler, Block, Fragment, Image
from ordo.transport.streams.publication cimport Claim, ExclusivePublication, Publication


def append_many(Publication publication, bytes head, bytes body, int64_t count):
    """Appends `count` messages gathered from two parts: (messages appended, last result, ns)."""
    cdef const uint8_t* a = head
    cdef const uint8_t* b = body
    cdef int64_t a_length = len(head)
    cdef int64_t b_length = len(body)
    cdef int64_t done = 0
    cdef int64_t result = 0
    cdef int64_t i, start
    with nogil:
        start = ordo_monotonic_ns()
        for i in range(count):
            result = publication.append(a, a_length, b, b_length)
            if result > 0:
                done += 1
            elif result != -3:
                break
        start = ordo_monotonic_ns() - start
    return done, result, start


def claim_and_fill(Publication publication, bytes payload, bint commit):
    """One claim, filled and committed or aborted; the result."""
    cdef Claim claim
    cdef const uint8_t* data = payload
    cdef int64_t result, i
    cdef int length = <int> len(payload)
    with nogil:
        result = publication.claim(length, &claim)
        if result > 0:
            for i in range(length):
                claim.payload[i] = data[i]
            if commit:
                publication.commit(&claim)
            else:
                publication.abort(&claim)
    return result


def append_block_of(ExclusivePublication target, Image source, int limit_bytes):
    """Copies one block of an image: what `append_block` or `append_padding` answered, or None without a block."""
    cdef Block block
    cdef int64_t result = 0
    with nogil:
        if source.peek_block(&block, limit_bytes):
            if block.is_padding:
                result = target.append_padding(block.length_bytes - 32)
            else:
                result = target.append_block(block.frames, block.length_bytes)
            if result > 0:
                source.consume_block(&block)
                source.publish_position()
    return result or None


def read_fragments(Image image, int64_t limit):
    """Peeks and consumes up to `limit` fragments: (fragments, sum of first payload bytes, ns)."""
    cdef Fragment fragment
    cdef int64_t count = 0
    cdef int64_t total = 0
    cdef int64_t start
    with nogil:
        start = ordo_monotonic_ns()
        while count < limit and image.peek(&fragment):
            total += fragment.payload[0]
            image.consume(&fragment)
            count += 1
        image.publish_position()
        start = ordo_monotonic_ns() - start
    return count, total, start


def read_messages(Image image, Assembler assembler, int64_t limit):
    """Whole messages: (messages, bytes, ns)."""
    cdef Fragment fragment
    cdef int64_t count = 0
    cdef int64_t total = 0
    cdef int64_t start
    with nogil:
        start = ordo_monotonic_ns()
        while count < limit and assembler.peek(image, &fragment):
            total += fragment.length_bytes
            assembler.consume(image, &fragment)
            count += 1
        image.publish_position()
        start = ordo_monotonic_ns() - start
    return count, total, start


def peek_message(Image image, Assembler assembler):
    """The next whole message without consuming it, None when there is none."""
    cdef Fragment fragment
    if not assembler.peek(image, &fragment):
        return None
    return (<char*> fragment.payload)[:fragment.length_bytes], fragment.start_position, fragment.position


def send_items(DatagramChannel channel, list items):
    """Sends items, each a pair of its bytes and the length of a datagram, with one call: how many of them went."""
    cdef SendItem native[64]
    cdef int i, count = <int> len(items)
    assert count <= 64
    for i in range(count):
        native[i].data = <const uint8_t*> <const char*> (<bytes> items[i][0])
        native[i].length_bytes = len(items[i][0])
        native[i].segment_length_bytes = items[i][1]
        native[i].to = NULL
    return channel.send(native, count)
