#!/usr/bin/env bash
# An HdrHistogram log has a line for each interval: an optional tag, its start relative to the base time that the head
# names, its length, and the histogram. hdrhistogram-go 1.4.0 writes and reads such logs, as HdrHistogram 2.2.2 for Java.
#
# The surprise: each of three things that such a log is kept for goes wrong in Go, and none is told.
# - `OutputBaseTime` cuts the base time to the second ("up to 3 decimal places", its comment says), while intervals stay
#   relative to the millisecond: every interval of the log is up to a second early, for Java as well. Logs of two
#   processes that are laid over each other are off by the difference.
# - A range relative to the log's start never begins or ends where it should: the start time is added where Java takes it
#   off, so that "the first two seconds" are empty and "from the second second on" is the whole log.
# - An interval without a tag gets the tag of an interval that the range left out before it. What is read from the middle
#   of a log counts a tagged stream's neighbour as that stream.
#
# Seen with: hdrhistogram-go 1.4.0 on Go 1.26, HdrHistogram 2.2.2 on JDK 17; four intervals of a second from
# 1700000000.750 on, of which the second has the tag db; starts in ms after 1700000000:
#                            Go                            Java
#   Go's log, all            0 1000:db 2000 3000           0 1000:db 2000 3000
#   Java's log, all          750 1750:db 2750 3750         750 1750:db 2750 3750
#   Java's, relative 0 to 2  none                          750 1750:db 2750
#   Java's, relative 2 on    750 1750:db 2750 3750         2750 3750
#   Java's, from ...02 on    2750:db 3750                  2750 3750
#
# What follows: in Go write `#[BaseTime: ...]` by `OutputComment`, with its milliseconds; read from the beginning, and pick
# intervals by `StartTimeMs`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mvn -q -B dependency:copy -Dartifact=org.hdrhistogram:HdrHistogram:2.2.2 -DoutputDirectory=. >mvn.txt || { cat mvn.txt; exit 1; }

cat >go.mod <<'GO'
module ask

go 1.22

require github.com/HdrHistogram/hdrhistogram-go v1.4.0
GO
cat >ask.go <<'GO'
package main

import (
	"fmt"
	"math"
	"os"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

const base = 1_700_000_000_750

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func write() {
	file, err := os.Create("go.hlog")
	must(err)
	log := hdr.NewHistogramLogWriter(file)
	must(log.OutputBaseTime(base))
	must(log.OutputStartTime(base))
	log.SetBaseTime(base)
	for i := int64(0); i < 4; i++ {
		values := hdr.New(1, 3_600_000, 3)
		must(values.RecordValue(i + 1))
		values.SetStartTimeMs(base + 1000*i)
		values.SetEndTimeMs(base + 1000*i + 1000)
		if i == 1 {
			values.SetTag("db")
		}
		must(log.OutputIntervalHistogram(values))
	}
	must(file.Close())
}

func read(name string, start, end float64, absolute bool) {
	file, err := os.Open(name)
	must(err)
	log := hdr.NewHistogramLogReader(file)
	fmt.Printf("go %s from %.0f:", name, start)
	for {
		values, err := log.NextIntervalHistogramWithRange(start, end, absolute)
		must(err)
		if values == nil {
			break
		}
		fmt.Printf(" %d", values.StartTimeMs()-1_700_000_000_000)
		if values.Tag() != "" {
			fmt.Printf(":%s", values.Tag())
		}
	}
	fmt.Println()
}

func main() {
	if len(os.Args) > 1 {
		write()
		return
	}
	read("go.hlog", 0, math.MaxFloat64, true)
	read("java.hlog", 0, math.MaxFloat64, true)
	read("java.hlog", 0, 2, false)
	read("java.hlog", 2, math.MaxFloat64, false)
	read("java.hlog", 1_700_000_002, math.MaxFloat64, true)
}
GO
cat >Ask.java <<'JAVA'
import org.HdrHistogram.EncodableHistogram;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramLogReader;
import org.HdrHistogram.HistogramLogWriter;

public class Ask {
    static final long BASE = 1_700_000_000_750L;

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            write();
            return;
        }
        read("go.hlog", 0, Double.MAX_VALUE, true);
        read("java.hlog", 0, Double.MAX_VALUE, true);
        read("java.hlog", 0, 2, false);
        read("java.hlog", 2, Double.MAX_VALUE, false);
        read("java.hlog", 1_700_000_002, Double.MAX_VALUE, true);
    }

    static void write() throws Exception {
        HistogramLogWriter log = new HistogramLogWriter("java.hlog");
        log.outputBaseTime(BASE);
        log.outputStartTime(BASE);
        log.setBaseTime(BASE);
        for (int i = 0; i < 4; i++) {
            Histogram values = new Histogram(1, 3_600_000, 3);
            values.recordValue(i + 1);
            values.setStartTimeStamp(BASE + 1000 * i);
            values.setEndTimeStamp(BASE + 1000 * i + 1000);
            values.setTag(i == 1 ? "db" : null);
            log.outputIntervalHistogram(values);
        }
        log.close();
    }

    static void read(String name, double start, double end, boolean absolute) throws Exception {
        HistogramLogReader log = new HistogramLogReader(name);
        System.out.printf("java %s from %.0f:", name, start);
        while (true) {
            EncodableHistogram values = absolute
                ? log.nextAbsoluteIntervalHistogram(start, end) : log.nextIntervalHistogram(start, end);
            if (values == null) {
                break;
            }
            System.out.print(" " + (values.getStartTimeStamp() - 1_700_000_000_000L));
            System.out.print(values.getTag() == null ? "" : ":" + values.getTag());
        }
        System.out.println();
    }
}
JAVA
javac -cp HdrHistogram-2.2.2.jar Ask.java
export GOTOOLCHAIN=local GOFLAGS=-mod=mod
go build -o ask-go . 2>go.txt || { cat go.txt; exit 1; }
./ask-go write
java -cp .:HdrHistogram-2.2.2.jar Ask write
seen=$(./ask-go && java -cp .:HdrHistogram-2.2.2.jar Ask)
echo "$seen"
expected='go go.hlog from 0: 0 1000:db 2000 3000
go java.hlog from 0: 750 1750:db 2750 3750
go java.hlog from 0:
go java.hlog from 2: 750 1750:db 2750 3750
go java.hlog from 1700000002: 2750:db 3750
java go.hlog from 0: 0 1000:db 2000 3000
java java.hlog from 0: 750 1750:db 2750 3750
java java.hlog from 0: 750 1750:db 2750
java java.hlog from 2: 2750 3750
java java.hlog from 1700000002: 2750 3750'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
