import io.aeron.Aeron;
import io.aeron.ExclusivePublication;
import io.aeron.Subscription;
import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.ArchivingMediaDriver;
import io.aeron.archive.client.AeronArchive;
import io.aeron.archive.codecs.SourceLocation;
import io.aeron.archive.status.RecordingPos;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.FragmentHandler;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.YieldingIdleStrategy;
import org.agrona.concurrent.status.CountersReader;

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;

/**
 * An archive, or a reader of one: what `benchmarks/replay_peer.py` is for Ordo, with the same lines in and out.
 *
 * Arguments: "archive", folder, control channel, MiB to record, message length; or "reader", folder, control channel,
 * port for replays.
 */
public final class ReplayPeer
{
    private static final int STREAM_ID = 1001;
    private static final int REPLAY_STREAM_ID = 30;
    private static final int POLL_LIMIT = 256;
    private static final String RECORDED = "aeron:ipc?term-length=16m|mtu=8192|alias=recorded";

    public static void main(final String[] args) throws Exception
    {
        if ("archive".equals(args[0]))
        {
            serve(args[1], args[2], Long.parseLong(args[3]) << 20, Integer.parseInt(args[4]));
        }
        else
        {
            read(args[1], args[2], "aeron:udp?endpoint=127.0.0.1:" + args[3]);
        }
    }

    private static MediaDriver.Context driver(final String folder)
    {
        return new MediaDriver.Context()
            .aeronDirectoryName(folder + "/driver")
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true)
            .threadingMode(ThreadingMode.SHARED)
            .sharedIdleStrategy(new YieldingIdleStrategy())
            .initialWindowLength(1 << 20)
            .socketRcvbufLength(2 << 20)
            .socketSndbufLength(2 << 20);
    }

    private static void serve(final String folder, final String control, final long bytes, final int length)
        throws Exception
    {
        final Archive.Context archive = new Archive.Context()
            .aeronDirectoryName(folder + "/driver")
            .archiveDir(new File(folder, "archive"))
            .controlChannel(control)
            .replicationChannel("aeron:udp?endpoint=127.0.0.1:0")
            .segmentFileLength(128 << 20)
            .threadingMode(ArchiveThreadingMode.SHARED)
            .idleStrategySupplier(YieldingIdleStrategy::new);
        try (ArchivingMediaDriver host = ArchivingMediaDriver.launch(driver(folder), archive))
        {
            record(folder, bytes, length);
            System.out.println("ready");
            System.in.read();
        }
    }

    private static void record(final String folder, final long bytes, final int length)
    {
        final AeronArchive.Context context = new AeronArchive.Context()
            .aeronDirectoryName(folder + "/driver")
            .controlRequestChannel("aeron:ipc")
            .controlResponseChannel("aeron:ipc");
        try (AeronArchive client = AeronArchive.connect(context))
        {
            client.startRecording(RECORDED, STREAM_ID, SourceLocation.LOCAL);
            final ExclusivePublication publication = client.context().aeron()
                .addExclusivePublication(RECORDED, STREAM_ID);
            final UnsafeBuffer message = new UnsafeBuffer(new byte[length]);
            while (publication.position() < bytes)
            {
                if (publication.offer(message, 0, length) < 0)
                {
                    Thread.yield();
                }
            }
            final CountersReader counters = client.context().aeron().countersReader();
            final int counter = RecordingPos.findCounterIdBySession(
                counters, publication.sessionId(), client.archiveId());
            while (counters.getCounterValue(counter) < publication.position())
            {
                Thread.yield();
            }
            client.stopRecording(RECORDED, STREAM_ID);
        }
    }

    private static void read(final String folder, final String control, final String channel) throws Exception
    {
        final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try (MediaDriver driver = MediaDriver.launch(driver(folder)))
        {
            final AeronArchive.Context context = new AeronArchive.Context()
                .aeronDirectoryName(folder + "/driver")
                .controlRequestChannel(control)
                .controlResponseChannel("aeron:udp?endpoint=127.0.0.1:0");
            try (AeronArchive client = AeronArchive.connect(context))
            {
                System.out.println("ready");
                while (lines.readLine() != null)
                {
                    System.out.println("replay " + replay(client, channel));
                }
            }
        }
    }

    /** Bytes a second of one replay from the recording's start to its end. */
    private static double replay(final AeronArchive client, final String channel)
    {
        final long end = client.getStopPosition(0);
        final FragmentHandler handler = (buffer, offset, length, header) -> {};
        final long begin = System.nanoTime();
        try (Subscription subscription = client.replay(0, 0, end, channel, REPLAY_STREAM_ID))
        {
            while (subscription.hasNoImages() || subscription.imageAtIndex(0).position() < end)
            {
                if (subscription.poll(handler, POLL_LIMIT) == 0)
                {
                    Thread.yield();
                }
            }
        }
        return end * 1e9 / (System.nanoTime() - begin);
    }

    private ReplayPeer()
    {
    }
}
