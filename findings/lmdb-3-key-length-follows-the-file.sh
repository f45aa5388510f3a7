#!/usr/bin/env bash
# lmdb 3.0.0 (Python, wheel from PyPI) carries two engines, LMDB 0.9.36 and 1.0.2. Which one makes a new file is decided
# by the environment variable LMDB_DEFAULT_LIB_VERSION; which one opens a file that is there, by the file. Their longest
# keys differ: 511 and 1978 bytes with pages of 4,096.
#
# The surprise: whether the same put of a key of 1,000 bytes works depends on the environment of the process that made
# the file, for ever: not on the release, not on the program, and not on the environment of the process that puts it.
# `lmdb.version()` says nothing of the file either; `Environment.lib_version()` and `max_key_size()` do.
# The file's format version (32-bit, little endian, after the magic 0xBEEFC0DE) is 1 or 3.
#
# Seen with: lmdb 3.0.0, CPython 3.11, Linux x86-64:
#   made without, opened without : engine 0.9.36 format 1 longest key 511 a key of 1000 bytes: BadValsizeError
#   made without, opened with    : engine 0.9.36 format 1 longest key 511 a key of 1000 bytes: BadValsizeError
#   made with, opened without    : engine 1.0.2 format 3 longest key 1978 a key of 1000 bytes: stored
#   made with, opened with       : engine 1.0.2 format 3 longest key 1978 a key of 1000 bytes: stored
#
# What follows for a program with files that outlive it: name the engine (`lmdb.open(..., lib_version=0)`) when a file is
# made, and ask the open environment for the longest key.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check lmdb==3.0.0

cat >"$folder/use.py" <<'PYTHON'
import struct
import sys

import lmdb

path = sys.argv[1]
with lmdb.open(path, subdir=False, map_size=1 << 20) as env:
    try:
        with env.begin(write=True) as txn:
            txn.put(b"k" * 1000, b"v")
        outcome = "stored"
    except lmdb.Error as error:
        outcome = type(error).__name__
    engine, longest = ".".join(map(str, env.lib_version())), env.max_key_size()
data = open(path, "rb").read(64)
(version,) = struct.unpack_from("<I", data, data.index(struct.pack("<I", 0xBEEFC0DE)) + 4)
print(f"engine {engine} format {version} longest key {longest} a key of 1000 bytes: {outcome}")
PYTHON

use() { # use WITH|WITHOUT FILE
    if [[ $1 == with ]]; then export LMDB_DEFAULT_LIB_VERSION=1; else unset LMDB_DEFAULT_LIB_VERSION; fi
    "$folder/venv/bin/python" "$folder/use.py" "$folder/$2"
}

seen=$(
    for made in without with; do
        use "$made" "$made.mdb" >/dev/null
        for opened in without with; do echo "made $made, opened $opened: $(use "$opened" "$made.mdb")"; done
    done
)
echo "$seen"
expected='made without, opened without: engine 0.9.36 format 1 longest key 511 a key of 1000 bytes: BadValsizeError
made without, opened with: engine 0.9.36 format 1 longest key 511 a key of 1000 bytes: BadValsizeError
made with, opened without: engine 1.0.2 format 3 longest key 1978 a key of 1000 bytes: stored
made with, opened with: engine 1.0.2 format 3 longest key 1978 a key of 1000 bytes: stored'
[[ $seen == "$expected" ]] || { echo "this has changed"; exit 1; }
