#!/usr/bin/env bash
# A pcapng capture says how its times are counted for each interface: the unit (if_tsresol: a power of ten or of two; a
# microsecond where it is not said) and what is to be added (if_tsoffset). A section begins the interfaces anew. Captures
# with more than one unit are made whenever those of a card that counts nanoseconds are merged with others.
#
# The surprise: of six readers, five read some of these valid files wrongly, not the same ones, and none says so. dpkt
# takes the first interface's unit for all: the packets of the second are 53,000 years in the future. scapy and pycapng
# look for a second section's interfaces among those of the first, and with python-pcapng leave the offset out. gopacket
# takes a unit of 2**-30 s for a nanosecond, and one of a second for a microsecond. Only pktcap is right
# each time.
#
# Seen with: dpkt 1.9.8, scapy 2.8.0, python-pcapng 2.1.1, pycapng 0.19.7, pktcap 0.1.3, CPython 3.11; gopacket 1.7.7 on
# Go 1.26; by how many seconds the time of a file's last packet is wrong:
#                                   dpkt         scapy python-pcapng       pycapng      gopacket        pktcap
#   microseconds                       0             0             0             0             0             0
#   second interface in ns     1.698e+12             0             0             0             0             0
#   second section in ns       1.698e+12     1.698e+12             0       1.2e+09             0             0
#   offset of 1000 s                   0         -1000         -1000         -1000             0             0
#   unit of 2**-30 s                   0             0             0             0         0.055             0
#   unit of 1 s                        0             0             0             0      -1.7e+09             0
#
# What follows: before times of a capture are compared, look at its interfaces (`capinfos` names them), and make of it one
# with a single unit, as `editcap -F nsecpcap` does.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q --disable-pip-version-check dpkt==1.9.8 scapy==2.8.0 python-pcapng==2.1.1 pycapng==0.19.7 pktcap==0.1.3

cat >ask.py <<'PYTHON'
import io
import logging
import struct
import subprocess

logging.disable()
import dpkt
import pcapng
import pktcap
import pycapng
from scapy.utils import rdpcap

SECONDS = 1_700_000_000
FRAME = b"\xff" * 6 + bytes(6) + b"\x08\x00" + bytes(46)


def block(kind, body):
    length = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + length + body + length


def option(code, value):
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def interface(unit=None, offset=None):
    options = option(9, bytes([unit])) if unit is not None else b""
    options += option(14, struct.pack("<q", offset)) if offset is not None else b""
    return block(1, struct.pack("<HHI", 1, 0, 65535) + (options + option(0, b"") if options else b""))


def packet(number, time):
    return block(6, struct.pack("<IIIII", number, time >> 32, time & 0xFFFFFFFF, len(FRAME), len(FRAME)) + FRAME)


SECTION = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
MICROS, NANOS = SECONDS * 10**6 + 750_000, SECONDS * 10**9 + 750_000_000
FILES = {
    "microseconds": SECTION + interface() + packet(0, MICROS),
    "second interface in ns": SECTION + interface() + interface(9) + packet(0, MICROS) + packet(1, NANOS),
    "second section in ns": SECTION + interface() + packet(0, MICROS) + SECTION + interface(9) + packet(0, NANOS),
    "offset of 1000 s": SECTION + interface(offset=1000) + packet(0, MICROS - 1000 * 10**6),
    "unit of 2**-30 s": SECTION + interface(0x80 | 30) + packet(0, (SECONDS << 30) + (3 << 28)),
    "unit of 1 s": SECTION + interface(0) + packet(0, SECONDS),
}
READERS = {
    "dpkt": lambda file: list(dpkt.pcapng.Reader(io.BytesIO(file)))[-1][0],
    "scapy": lambda file: rdpcap(io.BytesIO(file))[-1].time,
    "python-pcapng": lambda file: list(pcapng.FileScanner(io.BytesIO(file)))[-1].timestamp,
    "pycapng": lambda file: pycapng.read_packets("file.pcapng")[-1].timestamp_ns / 10**9,
    "gopacket": lambda file: int(subprocess.check_output(["./ask-go", "file.pcapng"])) / 10**9,
    "pktcap": lambda file: list(pktcap.read_frames(io.BytesIO(file)))[-1].time,
}
print("".ljust(22), *(name.rjust(13) for name in READERS))
for what, file in FILES.items():
    open("file.pcapng", "wb").write(file)
    right = SECONDS + (0 if what == "unit of 1 s" else 0.75)
    errors = (round(float(read(file)) - right, 3) for read in READERS.values())
    print(what.ljust(22), *(f"{error:13.4g}" for error in errors))
PYTHON
cat >go.mod <<'GO'
module ask

go 1.22

require github.com/gopacket/gopacket v1.7.7
GO
cat >ask.go <<'GO'
package main

import (
	"fmt"
	"os"

	"github.com/gopacket/gopacket/pcapgo"
)

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	reader, err := pcapgo.NewNgReader(file, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		panic(err)
	}
	last := int64(0)
	for {
		_, info, err := reader.ReadPacketData()
		if err != nil {
			break
		}
		last = info.Timestamp.UnixNano()
	}
	fmt.Println(last)
}
GO
GOTOOLCHAIN=local GOFLAGS=-mod=mod go build -o ask-go . 2>go.txt || { cat go.txt; exit 1; }
seen=$(venv/bin/python ask.py 2>errors.txt) || { cat errors.txt; exit 1; }
echo "$seen"
expected='                                dpkt         scapy python-pcapng       pycapng      gopacket        pktcap
microseconds                       0             0             0             0             0             0
second interface in ns     1.698e+12             0             0             0             0             0
second section in ns       1.698e+12     1.698e+12             0       1.2e+09             0             0
offset of 1000 s                   0         -1000         -1000         -1000             0             0
unit of 2**-30 s                   0             0             0             0         0.055             0
unit of 1 s                        0             0             0             0      -1.7e+09             0'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
