#!/usr/bin/env bash
# itchfeed reads Nasdaq's TotalView-ITCH 5.0. When the package itchcpp is installed, importing itch takes its classes in
# place of itchfeed's own, without a word and under the same names (itch.messages, itch.parser); its source says that
# existing code keeps working unchanged.
#
# The values that both read are the same, message by message. What a program can do with a message is not:
#
#                                       itchfeed alone   with itchcpp beside it
#   pickle.dumps(message)               works            TypeError
#   copy.copy(message)                  works            TypeError
#   message.mark = 1                    works            AttributeError
#   message.message_format, in decode() there            not there
#
# So a program that hands messages to multiprocessing, to an executor or to Spark ends once somebody installs a package
# that it never imports; the error names a module of which its code says nothing.
#
# Seen with: itchfeed 1.6.4, itchcpp 1.6.4, CPython 3.11.
#
# What follows: hand the raw bytes (message.to_bytes()) to other processes, or set ITCH_NO_CPP=1 before the import.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q --disable-pip-version-check itchfeed==1.6.4

cat >ask.py <<'PYTHON'
import copy
import pickle
import struct

from itch.parser import MessageParser

ADD_ORDER = b"A" + struct.pack("!HHHIQcI8sI", 1, 2, 0, 9, 7, b"B", 100, b"ZZZT    ", 1234500)


def outcome(call, message):
    try:
        call(message)
    except Exception as error:
        return type(error).__name__
    return "works"


(message,) = MessageParser().parse_stream(struct.pack("!H", len(ADD_ORDER)) + ADD_ORDER)
decoded = message.decode()
print("values:", decoded.stock, decoded.shares, decoded.price, message.to_bytes() == ADD_ORDER)
print("pickle:", outcome(pickle.dumps, message))
print("copy:", outcome(copy.copy, message))
print("attribute:", outcome(lambda one: setattr(one, "mark", 1), message))
print("message_format:", hasattr(decoded, "message_format"))
PYTHON

venv/bin/python ask.py >alone.txt
venv/bin/python -m pip install -q --disable-pip-version-check itchcpp==1.6.4
venv/bin/python ask.py >beside.txt
ITCH_NO_CPP=1 venv/bin/python ask.py >without.txt
cat >expected-alone.txt <<'TEXT'
values: ZZZT 100 123.45 True
pickle: works
copy: works
attribute: works
message_format: True
TEXT
cat >expected-beside.txt <<'TEXT'
values: ZZZT 100 123.45 True
pickle: TypeError
copy: TypeError
attribute: AttributeError
message_format: False
TEXT
paste alone.txt beside.txt
diff expected-alone.txt alone.txt && diff expected-beside.txt beside.txt && diff expected-alone.txt without.txt
echo "as described"
