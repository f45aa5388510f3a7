"""Lengths of frames, for Python; native code has them in streams/logbuffer.pxd and driver/frames/frames.pxd."""

FRAME_ALIGNMENT = 32
FRAME_HEADER_LENGTH = 32
SETUP_LENGTH = 40


def align_frame(length_bytes: int) -> int:
    """Return the bytes that a frame of a length, its header included, takes in a log and on the wire."""
    return -(-length_bytes // FRAME_ALIGNMENT) * FRAME_ALIGNMENT


def setups_worth(message_length_bytes: int) -> int:
    """Return how many SETUPs weigh no more than the frame of a message; at least 1.

    A request that names a silent address must not have more sent there than was sent to name it.
    """
    return max(1, align_frame(message_length_bytes + FRAME_HEADER_LENGTH) // SETUP_LENGTH)
