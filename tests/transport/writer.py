"""A writer process: offers numbered messages to a log that it shares with others.

`python -m tests.transport.writer FOLDER WRITER COUNT`
"""

import struct
import sys

from ordo.runtime.native.counters import CountersReader
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.control.cnc import map_cnc
from ordo.transport.streams.logbuffer import open_log
from ordo.transport.streams.publication import RESULT_ADMIN_ACTION, RESULT_BACK_PRESSURED, Publication, describe_result

ATTEMPTS_MAX = 200_000_000


def message(writer: int, number: int) -> bytes:
    """From 8 bytes to several fragments."""
    return struct.pack("<ii", writer, number) + bytes([number % 256]) * (number * 37 % 3000)


def main(folder: str, writer: int, count: int) -> None:
    memory = FileMemoryProvider()
    cnc = map_cnc(memory, folder + "/cnc.dat")
    assert cnc is not None
    limit = CountersReader(cnc.counters_metadata, cnc.counters_values).counter(0)
    publication = Publication(open_log(memory, folder + "/1.logbuffer"), limit)
    ring = cnc.to_driver
    number = 0
    for _ in range(ATTEMPTS_MAX):
        if number == count:
            break
        result = publication.offer(message(writer, number))
        if result > 0:
            number += 1
        else:
            assert result in (RESULT_ADMIN_ACTION, RESULT_BACK_PRESSURED), describe_result(result)
    for sent in range(count // 10):
        while not ring.write(writer + 1, struct.pack("<iq", sent, ring.next_correlation_id())):
            pass


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
