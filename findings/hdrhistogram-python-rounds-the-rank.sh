#!/usr/bin/env bash
# HdrHistogram has ports that read each other's encoded histograms. Asked for a percentile of the same values, Java
# (2.2.2) and JavaScript (3.0.1) return the lowest value that at least this share does not exceed: they round the rank
# up. Python (hdrhistogram 0.10.8) rounds the rank to the nearest one.
#
# The surprise is at the tail, which such histograms are kept for: with 1 to 600 recorded once each, 99.9 % of 600 are
# 599.4 values, so Java and JavaScript return 600 and Python 599. One slow call in 600 is in the p99.9 of a Java program
# and not in that of a Python program that timed the same calls.
#
# Seen with: hdrhistogram 0.10.8 on CPython 3.11; HdrHistogram 2.2.2 on JDK 17; hdr-histogram-js 3.0.1 on Node.
#   percentile  java  js   python
#   0.2         2     2    1
#   50          300   300  300
#   99          594   594  594
#   99.9        600   600  599
#   99.91       600   600  599
#   99.99       600   600  600
#
# What follows: before figures of two languages stand beside each other, ask for a percentile that is a whole rank,
# 100 * ceil(percentile / 100 * count) / count.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install -q --disable-pip-version-check hdrhistogram==0.10.8
mvn -q -B dependency:copy -Dartifact=org.hdrhistogram:HdrHistogram:2.2.2 -DoutputDirectory=. >mvn.txt || { cat mvn.txt; exit 1; }
npm install --silent hdr-histogram-js@3.0.1 >/dev/null

cat >Ask.java <<'JAVA'
import org.HdrHistogram.Histogram;

public class Ask {
    public static void main(String[] percentiles) {
        Histogram values = new Histogram(1, 3_600_000, 3);
        for (int value = 1; value <= 600; value++) {
            values.recordValue(value);
        }
        for (String percentile : percentiles) {
            System.out.println(values.getValueAtPercentile(Double.parseDouble(percentile)));
        }
    }
}
JAVA
cat >ask.js <<'JS'
const values = require("hdr-histogram-js").build({ highestTrackableValue: 3600000, numberOfSignificantValueDigits: 3 });
for (let value = 1; value <= 600; value++) values.recordValue(value);
for (const percentile of process.argv.slice(2)) console.log(values.getValueAtPercentile(Number(percentile)));
JS
cat >ask.py <<'PYTHON'
import sys

from hdrh.histogram import HdrHistogram

values = HdrHistogram(1, 3_600_000, 3)
for value in range(1, 601):
    values.record_value(value)
for percentile in sys.argv[1:]:
    print(values.get_value_at_percentile(float(percentile)))
PYTHON

percentiles=(0.2 50 99 99.9 99.91 99.99)
javac -cp HdrHistogram-2.2.2.jar Ask.java
java -cp .:HdrHistogram-2.2.2.jar Ask "${percentiles[@]}" >java.txt
node ask.js "${percentiles[@]}" >js.txt
venv/bin/python ask.py "${percentiles[@]}" >python.txt
seen=$(printf '%s\n' "${percentiles[@]}" | paste -d' ' - java.txt js.txt python.txt)
echo "$seen"
expected='0.2 2 2 1
50 300 300 300
99 594 594 594
99.9 600 600 599
99.91 600 600 599
99.99 600 600 600'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
