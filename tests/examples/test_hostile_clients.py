"""No message of a client stops a service of the examples or of a page: whoever copies one has it run with money."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

from examples.bank import v1, v2
from examples.counter import Counter
from examples.desk import Desk
from examples.lock_service import LockService
from examples.order_book import OrderBook
from examples.pricer import Pricer
from examples.rate_limiter import RateLimiter
from ordo import TimeUnit, encode
from ordo.service_api.service import Service
from ordo.starter import counter
from ordo.testing import Message, OpenSession, check_hostile
from tests.snippets import ROOT, texts_of

NUMBERS = (b"40", b"-2")
TRANSFERS = (b"deposit ann 100", b"transfer ann bob 30", b"withdraw bob 5")
PAYMENTS = (b"deposit ann 100", b"pay ann bob 30", b"hold h1 ann 20 60", b"capture h1 bob", b"alert x")
ORDERS = (encode(v1.Deposit("ann", 100)), encode(v1.Transfer("ann", "bob", 30)))
PAGES = (
    ("README.md", ("counter",), "Counter", NUMBERS),
    ("docs/SERVICES.md", ("orders",), "Orders", (b"a", b"b")),
    ("docs/TUTORIAL.md", ("bank",), "Bank", TRANSFERS),
    ("docs/TUTORIAL.md", ("bank", "bank2"), "Bank", TRANSFERS),
    ("docs/PAYMENTS.md", ("ledger",), "Ledger", PAYMENTS),
    ("docs/PAYMENTS.md", ("ledger", "ledger2"), "Ledger", PAYMENTS),
    ("docs/PAYMENTS.md", ("ledger", "alerts"), "Alerts", PAYMENTS),
    ("docs/DEBUGGING.md", ("counter", "careful"), "Careful", NUMBERS),
)
"""The page, the files that it has to be saved in order, the service in the last of them, and messages for it."""


def check(service: Callable[[], Service], payloads: tuple[bytes, ...]) -> None:
    messages = [Message(1, 2 + place, one) for place, one in enumerate(payloads)]
    for unit in TimeUnit:
        check_hostile(service, [OpenSession(1, 1), *messages], time_unit=unit)


@contextmanager
def modules_of(page: str, names: tuple[str, ...]) -> Iterator[Any]:
    """Import the files of a page; yields the last one."""
    texts = texts_of((ROOT / page).read_text(), "python")
    known = {name: sys.modules.get(name) for name in names}
    try:
        for name in names:
            module = sys.modules[name] = ModuleType(name)
            code = [one for one in texts if one.startswith(f"# {name}.py\n")]
            exec(code[0] if code else (ROOT / "ordo" / "starter" / f"{name}.py").read_text(), vars(module))
        yield module
    finally:
        for name, module_before in known.items():
            sys.modules.pop(name)
            if module_before is not None:
                sys.modules[name] = module_before


@pytest.mark.parametrize(
    ("service", "payloads"),
    [
        (Counter, NUMBERS),
        (counter.Counter, NUMBERS),
        (OrderBook, (b"buy X 10 100", b"sell X 5 99", b"cancel 1")),
        (LockService, (b"lock a", b"unlock a")),
        (RateLimiter, (b"ann", b"bob")),
        (Pricer, (b"X 100", b"X 200")),
        (Desk, (b"X 100", b"count")),
        (v1.Bank, ORDERS),
        (v2.Bank, ORDERS),
    ],
)
def test_examples(service: Callable[[], Service], payloads: tuple[bytes, ...]) -> None:
    check(service, payloads)


@pytest.mark.parametrize(("page", "names", "service", "payloads"), PAGES)
def test_pages(page: str, names: tuple[str, ...], service: str, payloads: tuple[bytes, ...]) -> None:
    with modules_of(page, names) as module:
        check(getattr(module, service), payloads)


def test_the_bank_of_the_page_on_messages() -> None:
    with modules_of("docs/MESSAGES.md", ("bank",)) as bank:
        bookings = [bank.Booking(account, kind, 1_250, "rent") for account in (7, 8) for kind in bank.Kind]
        check(bank.Bank, tuple(map(encode, bookings)))
