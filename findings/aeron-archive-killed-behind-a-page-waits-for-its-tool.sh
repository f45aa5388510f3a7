#!/usr/bin/env bash
# Aeron's archive writes recordings frame by frame. When it is started again over the folder of a process that was
# killed, it looks for the end of each recording that was live.
#
# The surprise: whether it starts at all depends on where the last frame lies. If that crosses a page of 4,096 bytes, the
# archive refuses to start, though every byte is there and was synced (level 2): nothing but a kill -9 had happened to the
# process, and the machine went on. One more or one less message, and it starts. With frames of 1,408 bytes, the
# default, a third of all frames cross a page.
# It asks for `ArchiveTool verify`, which asks a person: y cuts the last frame off, n ("to do nothing") keeps it and
# writes down the end of the recording, so that the archive starts. And the tool asks the same of a recording whose
# archive was closed properly and which has its end in the catalog: y takes a whole message away there, too.
#
# Seen with: aeron-all 1.51.0, OpenJDK 17. Messages of 1,000 bytes take 1,056 in the log, and the fourth crosses a page.
#   messages  ended by  file sync  starts again   verify, n     verify, y
#   3         kill -9   2          stop 3168
#   4         kill -9   0          refused        stop 4224     stop 3168
#   4         kill -9   2          refused        stop 4224     stop 3168
#   4         close     0          stop 4224      stop 4224     stop 3168
#
# What follows: a supervisor that restarts a killed archive is not enough; have it run the tool with `n` on standard
# input where the machine itself has not failed. Never answer y for archives that were closed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mvn -q -B dependency:copy -Dartifact=io.aeron:aeron-all:1.51.0 -DoutputDirectory=.

cat >Recorder.java <<'JAVA'
import io.aeron.Publication;
import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.ArchivingMediaDriver;
import io.aeron.archive.client.AeronArchive;
import io.aeron.archive.client.ArchiveException;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import org.agrona.concurrent.UnsafeBuffer;

/** Arguments: port, sync level, how many messages to record, and "close" to end properly behind them. */
public class Recorder
{
    public static void main(final String[] args) throws Exception
    {
        final String aeron = Files.createTempDirectory(Path.of("."), "driver").toString();
        final int level = Integer.parseInt(args[1]);
        final MediaDriver.Context driver = new MediaDriver.Context()
            .aeronDirectoryName(aeron).dirDeleteOnStart(true).threadingMode(ThreadingMode.SHARED);
        final Archive.Context archive = new Archive.Context()
            .aeronDirectoryName(aeron).archiveDir(new File("archive"))
            .controlChannel("aeron:udp?endpoint=localhost:" + args[0])
            .replicationChannel("aeron:udp?endpoint=localhost:0")
            .fileSyncLevel(level).catalogFileSyncLevel(level).threadingMode(ArchiveThreadingMode.SHARED);
        try (ArchivingMediaDriver host = ArchivingMediaDriver.launch(driver, archive);
            AeronArchive client = AeronArchive.connect(new AeronArchive.Context().aeronDirectoryName(aeron)
                .controlRequestChannel("aeron:ipc").controlResponseChannel("aeron:ipc")))
        {
            final int count = Integer.parseInt(args[2]);
            if (count == 0)
            {
                System.out.println("stop " + client.getStopPosition(0));
                return;
            }
            final Publication publication = client.addRecordedExclusivePublication("aeron:ipc", 9);
            for (int i = 0; i < count; i++)
            {
                while (publication.offer(new UnsafeBuffer(new byte[1000])) < 0)
                {
                    Thread.yield();
                }
            }
            while (recorded(client) < publication.position())
            {
                Thread.sleep(5);
            }
            System.out.println("recorded");
            if (args.length < 4)
            {
                Thread.sleep(60_000);
            }
        }
    }

    private static long recorded(final AeronArchive client)
    {
        try
        {
            return client.getRecordingPosition(0);
        }
        catch (final ArchiveException notYet)
        {
            return -1;
        }
    }
}
JAVA
javac -cp aeron-all-1.51.0.jar Recorder.java
java=(java --add-opens=java.base/jdk.internal.misc=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED
    --add-opens=java.base/java.util.zip=ALL-UNNAMED -cp aeron-all-1.51.0.jar:.)
port=$(python3 -c 'import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

record() { # messages, kill or close, sync level
    rm -rf archive
    if [[ $2 == close ]]; then
        "${java[@]}" Recorder "$port" "$3" "$1" close >said
    else
        "${java[@]}" Recorder "$port" "$3" "$1" >said 2>errors &
        recorder=$!
        timeout 60 bash -c 'until grep -q recorded said; do sleep 0.1; done'
        kill -9 "$recorder"
        wait "$recorder" 2>/dev/null || true
    fi
    rm -f archive/archive-mark.dat # for ten seconds it says that the process lives
    rm -rf kept && cp -r archive kept
}
restart() { # after the answer to the tool, if one is given
    rm -rf archive && cp -r kept archive
    if (($#)); then
        echo "$1" | "${java[@]}" io.aeron.archive.ArchiveTool archive verify >tool 2>&1
        grep -q 'straddles a page boundary' tool
        rm -f archive/archive-mark.dat
    fi
    "${java[@]}" Recorder "$port" 0 0 2>&1 | sed -nE 's/.*potentially incomplete last fragment.*/refused/p; s/^(stop .*)/\1/p'
}
try() {
    record "$@"
    printf '%-9s %-9s %-10s %s\n' "$1" "$2" "$3" "$(restart | paste -sd,)"
}
verify() { printf '  verify, n: %s\n  verify, y: %s\n' "$(restart n)" "$(restart y)"; }
{
    try 3 kill 2
    try 4 kill 0
    verify
    try 4 kill 2
    verify
    try 4 close 0
    verify
} >output
cat output
cat >wanted <<'TEXT'
3         kill      2          stop 3168
4         kill      0          refused
  verify, n: stop 4224
  verify, y: stop 3168
4         kill      2          refused
  verify, n: stop 4224
  verify, y: stop 3168
4         close     0          stop 4224
  verify, n: stop 4224
  verify, y: stop 3168
TEXT
diff wanted output
