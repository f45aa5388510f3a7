"""What may be sent to an address that never answers: no more than the message weighs that named it."""

import pytest

from ordo.archive.channels import bounded_channel
from ordo.cluster.module.sessions.response_channels import bounded
from ordo.transport.frame_layout import SETUP_LENGTH, align_frame, setups_worth

CHANNEL = "aeron:udp?endpoint=client:1"


@pytest.mark.parametrize("length_bytes", [0, 1, 31, 32, 33, 48, 127, 128, 129, 1408])
def test_setups_weigh_no_more_than_the_frame_that_asked(length_bytes: int) -> None:
    weight = align_frame(length_bytes + 32)
    assert weight % 32 == 0 and length_bytes + 32 <= weight < length_bytes + 64
    count = setups_worth(length_bytes)
    assert count * SETUP_LENGTH <= max(weight, SETUP_LENGTH) < (count + 1) * SETUP_LENGTH


def test_archive_and_cluster_have_one_rule() -> None:
    assert bounded_channel(CHANNEL, 100) == bounded(CHANNEL, 100) == f"{CHANNEL}|setup-limit=4"
