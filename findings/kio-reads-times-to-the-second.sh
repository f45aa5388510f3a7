#!/usr/bin/env bash
# kio 0.6.5 (Python, Kafka's messages as typed classes) reads the time of each record of a batch to the whole second,
# although Kafka's records have milliseconds, and kio's type for it is called TZAwareMicros: it cuts the rest off. Nothing
# says so, and the batch's own `base_timestamp` and `max_timestamp` keep their milliseconds, so records seem to be older
# than the batch that they are in. kafka-python 3.0.12 and aiokafka 0.14.0 read the same batch to the millisecond.
#
# The surprise: whether a batch survives reading and writing depends on the fractions of its records' times. `write_batch`
# writes what `read_batch` returned with the length and the checksum of the original; it is the same batch where all times
# are whole seconds, as in most tests, and otherwise one with a wrong checksum and often a wrong length, which every
# broker and consumer refuses.
#
# Seen with: kio 0.6.5, kafka-python 3.0.12 (which made the batch), aiokafka 0.14.0, CPython 3.11, Linux x86-64:
#   kafka-python reads      1700000000123 1700000000999 1700000001500
#   aiokafka reads          1700000000123 1700000000999 1700000001500
#   kio reads               1700000000000 1700000000000 1700000001000
#   kio's batch             base 1700000000123 max 1700000001500
#   whole seconds, again    the same batch, checksum right
#   milliseconds, again     1 byte more than it says, checksum wrong
#
# What follows: take times from kio's batches by the second only, and compare a codec of your own with another library
# than kio. Ordo uses kio for requests and responses alone; it reads and writes batches itself
# (gateway/kafka/wire/records.py), and its tests read their times with kafka-python.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check kio==0.6.5 kafka-python==3.0.12 aiokafka==0.14.0

cat >"$folder/times.py" <<'PYTHON'
import io
from importlib.metadata import version

import aiokafka.record
import kafka.record
from kafka.record.default_records import DefaultRecordBatchBuilder
from kio.records.readers import read_batch
from kio.records.writers import write_batch

TIMES = (1_700_000_000_123, 1_700_000_000_999, 1_700_000_001_500)


def seen_by(library, data):
    """The times of all records, as kafka-python or aiokafka reads them."""
    records, times = library.record.MemoryRecords(data), []
    while records.has_next():
        times += [one.timestamp for one in records.next_batch()]
    return times


def batch_of(times):
    """A batch as kafka-python's producer sends it."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=False, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=4096,
    )
    for offset, time in enumerate(times):
        builder.append(offset, time, b"key", b"value", [])
    return bytes(builder.build())


def again(data):
    """What becomes of a batch that kio has read and written."""
    written = io.BytesIO()
    write_batch(written, read_batch(data, 0)[0])
    got = written.getvalue()
    more = len(got) - len(data)
    is_right = kafka.record.MemoryRecords(got).next_batch().validate_crc()
    length = "the same batch" if got == data else f"{more} byte more than it says"
    return f"{length}, checksum {'right' if is_right else 'wrong'}"


def say(what, *values):
    print(f"{what:<22}", *values)


data = batch_of(TIMES)
batch, _ = read_batch(data, 0)
print(*(f"{name} {version(name)}" for name in ("kio", "kafka-python", "aiokafka")), sep=", ")
say("kafka-python reads", *seen_by(kafka, data))
say("aiokafka reads", *seen_by(aiokafka, data))
say("kio reads", *(round(one.timestamp.timestamp() * 1000) for one in batch.records))
say("kio's batch", "base", batch.base_timestamp, "max", batch.max_timestamp)
say("whole seconds, again", again(batch_of([1_700_000_000_000, 1_700_000_000_000, 1_700_000_001_000])))
say("milliseconds, again", again(data))
PYTHON

seen=$("$folder/venv/bin/python" "$folder/times.py")
echo "$seen"
expected='kio 0.6.5, kafka-python 3.0.12, aiokafka 0.14.0
kafka-python reads     1700000000123 1700000000999 1700000001500
aiokafka reads         1700000000123 1700000000999 1700000001500
kio reads              1700000000000 1700000000000 1700000001000
kio'\''s batch            base 1700000000123 max 1700000001500
whole seconds, again   the same batch, checksum right
milliseconds, again    1 byte more than it says, checksum wrong'
[[ $seen == "$expected" ]] || { echo "this has changed"; exit 1; }
