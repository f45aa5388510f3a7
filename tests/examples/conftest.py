"""Feeds from the shared data folder, which lies beside the checkout or where ORDO_SHARED_DATA points."""

from pathlib import Path

import pytest

from tests.conftest import SHARED_DATA


def _shared(name: str) -> Path:
    if not (SHARED_DATA / name).exists():
        pytest.skip(f"shared data file {SHARED_DATA / name} is not there")
    return SHARED_DATA / name


@pytest.fixture(scope="session")
def aapl_feed() -> Path:
    return _shared("itch50-aapl-20200130/locate-13-10k.bin")


@pytest.fixture(scope="session")
def aapl_final_book() -> str:
    return _shared("itch50-aapl-20200130/expected_final_book.txt").read_text()


@pytest.fixture(scope="session")
def aapl_book_after_1001() -> str:
    return _shared("itch50-aapl-20200130/expected_book_after_1001_messages.txt").read_text()


@pytest.fixture(scope="session")
def ritch_feed() -> Path:
    return _shared("itch50-ritch-artificial/ex20101224.TEST_ITCH_50.gz")
