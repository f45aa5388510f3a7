import io.aeron.Aeron;
import io.aeron.ExclusivePublication;
import io.aeron.FragmentAssembler;
import io.aeron.Subscription;
import io.aeron.archive.client.AeronArchive;
import io.aeron.archive.client.ReplayMerge;
import io.aeron.archive.codecs.SourceLocation;
import io.aeron.driver.MediaDriver;
import io.aeron.logbuffer.FragmentHandler;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Aeron's ReplayMerge: a subscription that begins with a recording and goes over to the live stream of several
 * destinations, without a message lost, doubled or out of order. Says "merged" and "done".
 *
 * Arguments: folder of the driver, "launch" or "attach", control channel, response channel of the archive, control
 * endpoint of the stream, and the endpoints at which it is recorded, replayed and heard live.
 */
public final class MergeUser
{
    private static final int STREAM = 1005;
    private static final int RECORDED_FIRST = 5000;
    private static final int LIVE_LEAST = 2000;
    /** The stream goes on at the pace of who merges: nobody else with a tag waits for it, and it has to meet the end. */
    private static final int AHEAD_MAX = 10;
    private static final int GROUP_TAG = 77;
    private static final long TIMEOUT_NS = Peer.patient(60_000_000_000L);
    private static final long LENGTH_BYTES = 200;

    private final UnsafeBuffer buffer = new UnsafeBuffer(new byte[(int)LENGTH_BYTES]);
    private long sent;
    private long received;
    private final long deadlineNs = System.nanoTime() + TIMEOUT_NS;

    public static void main(final String[] args) throws Exception
    {
        try (MediaDriver driver = args[1].equals("launch") ? Peer.launch(args[0]) : null;
            Aeron aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(args[0]).errorHandler(Peer::fail));
            AeronArchive archive = AeronArchive.connect(new AeronArchive.Context()
                .aeron(aeron)
                .ownsAeronClient(false)
                .controlRequestChannel(args[2])
                .controlResponseChannel(args[3])))
        {
            new MergeUser().run(aeron, archive, args[4], args[5], args[6], args[7]);
        }
        Peer.say("done");
    }

    private void run(
        final Aeron aeron,
        final AeronArchive archive,
        final String control,
        final String recordAt,
        final String replayAt,
        final String liveAt) throws Exception
    {
        final String group = "aeron:udp?control=" + control + "|control-mode=dynamic";
        final String stream = group + "|term-length=64k|fc=tagged,g:" + GROUP_TAG + "/1,t:5s";
        try (ExclusivePublication publication = aeron.addExclusivePublication(stream, STREAM))
        {
            final String session = "|session-id=" + publication.sessionId();
            archive.startRecording(
                "aeron:udp?endpoint=" + recordAt + "|control=" + control + session + "|gtag=" + GROUP_TAG,
                STREAM, SourceLocation.REMOTE, true);
            while (sent < RECORDED_FIRST)
            {
                offer(publication);
            }
            final long id = find(archive, publication.sessionId());
            merge(aeron, archive, publication, id, session, replayAt, "aeron:udp?endpoint=" + liveAt + "|control=" + control);
        }
    }

    private void merge(
        final Aeron aeron,
        final AeronArchive archive,
        final ExclusivePublication publication,
        final long id,
        final String session,
        final String replayAt,
        final String live) throws Exception
    {
        final FragmentHandler handler = new FragmentAssembler((message, offset, length, header) ->
        {
            final long number = message.getLong(offset);
            check(number == received && length == LENGTH_BYTES, "message " + number + " where " + received + " was due");
            received++;
        });
        try (Subscription subscription = aeron.addSubscription("aeron:udp?control-mode=manual" + session, STREAM);
            ReplayMerge replay = new ReplayMerge(
                subscription, archive, "aeron:udp?" + session.substring(1), "aeron:udp?endpoint=" + replayAt, live,
                id, 0))
        {
            while (!replay.isMerged())
            {
                if (sent < received + AHEAD_MAX)
                {
                    offer(publication);
                }
                check(replay.poll(handler, 10) >= 0 && !replay.hasFailed(), "a replay that goes on");
            }
            Peer.say("merged");
            final long last = sent + LIVE_LEAST;
            while (received < last)
            {
                if (sent < Math.min(last, received + AHEAD_MAX))
                {
                    offer(publication);
                }
                replay.poll(handler, 10);
            }
            check(replay.isLiveAdded() && subscription.imageCount() == 1, "the live stream alone");
        }
    }

    private void offer(final ExclusivePublication publication)
    {
        buffer.putLong(0, sent);
        if (publication.offer(buffer) > 0)
        {
            sent++;
        }
        check(System.nanoTime() < deadlineNs, "all within time; " + sent + " sent, " + received + " received");
    }

    private long find(final AeronArchive archive, final int sessionId) throws Exception
    {
        long id;
        while ((id = archive.findLastMatchingRecording(0, "session-id=" + sessionId, STREAM, sessionId)) < 0)
        {
            check(System.nanoTime() < deadlineNs, "a recording within time");
            Thread.sleep(1);
        }
        return id;
    }

    private static void check(final boolean isRight, final String what)
    {
        if (!isRight)
        {
            throw new IllegalStateException("expected " + what);
        }
    }
}
