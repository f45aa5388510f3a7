"""Images and subscriptions: polling, assembly, end of stream (log-buffer.md §8)."""

import pytest

from ordo.runtime.errors import TransportError
from ordo.runtime.native.counters import Counter, local_counter
from ordo.transport.streams.image import Action, Header, Image
from ordo.transport.streams.logbuffer import END_OF_STREAM_UNKNOWN
from ordo.transport.streams.subscription import Subscription
from tests.transport.logs import SESSION_ID, STREAM_ID, TERM_LENGTH, Stream, make_stream, read_all


def filled(*payloads: bytes, mtu: int = 1408) -> tuple[Stream, Image, Counter]:
    stream = make_stream(mtu=mtu)
    for payload in payloads:
        assert stream.publication.offer(payload) > 0
    counter = local_counter()
    return stream, Image(stream.log, counter), counter


def test_position_is_published_once_at_the_end_of_a_poll() -> None:
    _, image, counter = filled(b"a", b"b", b"c")
    seen = []
    assert image.poll(lambda *_: seen.append(counter.value), 2) == 2
    assert seen == [0, 0]
    assert counter.value == image.position == 128


def test_position_starts_at_the_counter() -> None:
    stream = make_stream()
    stream.publication.offer(b"a")
    stream.publication.offer(b"b")
    image = stream.image(64)
    assert (image.join_position, image.position) == (64, 64)
    assert read_all(image) == [b"b"]


def test_a_fragment_whose_handler_raises_is_consumed() -> None:
    _, image, counter = filled(b"a", b"b")
    with pytest.raises(ZeroDivisionError):
        image.poll(lambda *_: 1 / 0)
    assert counter.value == 64
    assert read_all(image) == [b"b"]


@pytest.mark.parametrize(
    ("action", "taken", "published_inside"),
    [
        (Action.CONTINUE, [b"a", b"b"], [0, 0]),
        (None, [b"a", b"b"], [0, 0]),
        (Action.COMMIT, [b"a", b"b"], [0, 64]),
        (Action.BREAK, [b"a"], [0]),
        (Action.ABORT, [], [0]),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_actions(action: Action | None, taken: list[bytes], published_inside: list[int], whole: bool) -> None:
    _, image, counter = filled(b"a", b"b")
    published = []
    poll = image.controlled_poll_messages if whole else image.controlled_poll
    assert poll(lambda *_: published.append(counter.value) or action) == len(taken)
    assert published == published_inside
    assert counter.value == 64 * len(taken)
    assert read_all(image) == [b"a", b"b"][len(taken) :]


def test_aborted_message_of_many_fragments_comes_again_whole() -> None:
    _, image, _ = filled(b"x" * 100, b"y", mtu=64)
    found = []

    def handler(payload: bytes, header: Header) -> Action:
        found.append((payload, header.flags, header.frame_length, header.start_position, header.position))
        return Action.ABORT if len(found) < 3 else Action.CONTINUE

    for _ in range(3):
        image.controlled_poll_messages(handler)
    assert found[:3] == [(b"x" * 100, 0xC0, 132, 0, 3 * 64 + 64)] * 3
    assert found[3][0] == b"y"


def test_message_that_is_not_there_whole_is_collected_across_polls() -> None:
    stream = make_stream(mtu=64)
    image = stream.image()
    found: list[bytes] = []
    for flags, text in ((0x80, b"a"), (0x00, b"b"), (0x40, b"c")):
        assert found == []
        with stream.publication.try_claim(32) as claim:
            claim.buffer[:] = text * 32
            claim.flags = flags
        image.poll_messages(lambda payload, _: found.append(payload))
    assert found == [b"a" * 32 + b"b" * 32 + b"c" * 32]
    assert image.position == 192


def test_joining_inside_a_message_drops_it() -> None:
    stream = make_stream(mtu=64)
    stream.publication.offer(b"x" * 100)
    stream.publication.offer(b"y" * 100)
    assert read_all(stream.image(64)) == [b"y" * 100]


def test_fragment_that_does_not_follow_drops_the_message() -> None:
    stream = make_stream(mtu=64)
    image = stream.image()
    for flags in (0x80, None, 0x40, 0x00, 0x40, 0xC0):
        with stream.publication.try_claim(2) as claim:
            claim.buffer[:] = b"ab"
            if flags is None:
                claim.abort()
            else:
                claim.flags = flags
    assert read_all(image) == [b"ab"]
    assert image.position == 6 * 64


def test_unfragmented_message_inside_another_ends_it() -> None:
    stream = make_stream(mtu=64)
    image = stream.image()
    for flags in (0x80, 0xC0, 0x40):
        with stream.publication.try_claim(2) as claim:
            claim.buffer[:] = b"ab"
            claim.flags = flags
    assert read_all(image) == [b"ab"]


def test_bounded_poll_takes_frames_that_start_below_the_limit() -> None:
    _, image, _ = filled(b"a", b"b", b"c")
    found = []
    assert image.bounded_poll(lambda payload, _: found.append(payload), 65, 10) == 2
    assert image.bounded_controlled_poll(lambda payload, _: found.append(payload), 128, 10) == 0
    assert found == [b"a", b"b"]


def test_blocks_are_whole_frames_and_padding_comes_alone() -> None:
    stream = make_stream(exclusive=True, term_offset=TERM_LENGTH - 192)
    image = stream.image(TERM_LENGTH - 192)
    blocks = []

    def handler(frames: memoryview, session_id: int, term_id: int) -> None:
        blocks.append((len(frames), frames[6], session_id, term_id - stream.log.initial_term_id))

    stream.publication.offer(b"a")
    stream.publication.offer(b"b")
    stream.publication.offer(bytes(33))
    stream.publication.offer(b"c")
    assert image.block_poll(handler, 63) == 0
    assert image.block_poll(handler, 127) == 64
    for _ in range(3):
        image.block_poll(handler, 1 << 20)
    assert blocks == [(64, 1, SESSION_ID, 0), (64, 1, SESSION_ID, 0), (64, 0, SESSION_ID, 0), (64, 1, SESSION_ID, 1)]
    assert image.position == TERM_LENGTH + 64


def test_view_of_a_block_is_gone_after_the_call() -> None:
    _, image, _ = filled(b"a")
    kept = []
    image.block_poll(lambda frames, *_: kept.append(frames), 1000)
    with pytest.raises(ValueError, match="released"):
        bytes(kept[0])


def test_header_is_gone_after_the_call() -> None:
    _, image, _ = filled(b"abc")
    kept = []

    def handler(_: bytes, header: Header) -> None:
        kept.append(header)
        assert (header.session_id, header.stream_id, header.term_offset) == (SESSION_ID, STREAM_ID, 0)
        assert (header.term_id, header.flags, header.reserved_value) == (image.initial_term_id, 0xC0, 0)
        assert (header.frame_length, header.position, header.start_position) == (35, 64, 0)
        assert header.image is image

    assert image.poll(handler) == 1
    with pytest.raises(TransportError, match="inside the handler"):
        _ = kept[0].position


def test_polling_an_image_from_its_own_handler_is_refused() -> None:
    _, image, _ = filled(b"a", b"b")
    with pytest.raises(TransportError, match="inside its own handler"):
        image.poll(lambda *_: image.poll(lambda *_: None))
    assert read_all(image) == [b"b"]


def test_many_paddings_in_a_row_are_passed_over() -> None:
    stream = make_stream()
    for _ in range(200):
        stream.publication.try_claim(1).abort()
    stream.publication.offer(b"x")
    image = stream.image()
    found = []
    for _ in range(4):
        image.poll(lambda payload, _: found.append(payload))
    assert found == [b"x"]


def test_end_of_stream_and_what_is_left_after_closing() -> None:
    stream, image, counter = filled(b"a")
    assert image.end_of_stream_position == END_OF_STREAM_UNKNOWN
    stream.log.eos_position = 64
    assert not image.is_end_of_stream
    assert read_all(image) == [b"a"]
    assert image.is_end_of_stream
    stream.log.revoke()
    image.mark_closed()
    stream.log.close()
    assert image.is_closed
    assert (image.is_end_of_stream, image.end_of_stream_position, image.is_revoked) == (True, 64, True)
    assert (image.position, image.active_transport_count, counter.value) == (64, 0, 64)
    assert image.poll(lambda *_: None) == 0
    assert image.block_poll(lambda *_: None, 1000) == 0


def make_subscription(*images: Image) -> Subscription:
    subscription = Subscription("aeron:ipc", STREAM_ID, 7)
    for image in images:
        subscription.add_image(image)
    return subscription


def test_subscription_polls_its_images_in_turn() -> None:
    streams = [make_stream() for _ in range(3)]
    for number, stream in enumerate(streams):
        for _ in range(4):
            stream.publication.offer(b"%d" % number)
    subscription = make_subscription(*[stream.image() for stream in streams])
    found = []
    for _ in range(3):
        assert subscription.poll(lambda payload, _: found.append(payload), 2) == 2
    assert sorted(found) == [b"0", b"0", b"1", b"1", b"2", b"2"]
    while subscription.poll_messages(lambda payload, _: found.append(payload), 5):
        pass
    assert sorted(found) == sorted([b"0", b"1", b"2"] * 4)


def test_images_come_and_go() -> None:
    first, second = make_stream().image(), make_stream().image()
    subscription = make_subscription(first)
    before = subscription.images
    subscription.add_image(second)
    assert before == (first,)
    assert subscription.images == (first, second)
    assert subscription.image_by_session_id(SESSION_ID) is first
    assert subscription.image_by_session_id(1) is None
    assert subscription.remove_image(99) is None
    assert subscription.remove_image(first.correlation_id) is first
    assert first.is_closed
    assert subscription.is_connected
    assert subscription.force_close() == (second,)
    assert second.is_closed
    assert not subscription.is_connected
    assert subscription.poll(lambda *_: None) == 0


def test_block_poll_of_all_images() -> None:
    streams = [make_stream() for _ in range(2)]
    for stream in streams:
        stream.publication.offer(b"x")
    blocks = []
    assert (
        make_subscription(*[stream.image() for stream in streams]).block_poll(lambda *b: blocks.append(b), 100) == 128
    )
    assert len(blocks) == 2
