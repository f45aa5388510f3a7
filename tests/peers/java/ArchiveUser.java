import io.aeron.Aeron;
import io.aeron.ChannelUriStringBuilder;
import io.aeron.ExclusivePublication;
import io.aeron.FragmentAssembler;
import io.aeron.Subscription;
import io.aeron.archive.client.AeronArchive;
import io.aeron.archive.client.ArchiveException;
import io.aeron.archive.codecs.SourceLocation;
import io.aeron.archive.status.RecordingPos;
import io.aeron.driver.MediaDriver;
import io.aeron.security.CredentialsSupplier;
import io.aeron.security.NullCredentialsSupplier;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.status.CountersReader;

import java.nio.charset.StandardCharsets;

/**
 * Aeron's own archive client against an archive: records, lists, replays, extends, truncates, purges, moves segments,
 * and meets the errors it should. Says "done" when all went as its own archive would have it.
 *
 * Arguments: folder of the driver, "launch" or "attach", control channel, response channel, channel to record,
 * channel to replay to, and perhaps its credentials.
 */
public final class ArchiveUser
{
    private static final int STREAM = 1001;
    private static final int REPLAY_STREAM = 2002;
    private static final int COUNT = 3000;
    private static final int INVALID_POSITION = 16;
    private static final long TIMEOUT_NS = Peer.patient(20_000_000_000L);

    private final Aeron aeron;
    private final AeronArchive archive;
    private final String channel;
    private final String replayChannel;
    private final boolean isLocal;

    private ArchiveUser(
        final Aeron aeron, final AeronArchive archive, final String channel, final String replay, final boolean isLocal)
    {
        this.aeron = aeron;
        this.archive = archive;
        this.channel = channel;
        this.replayChannel = replay;
        this.isLocal = isLocal;
    }

    private static CredentialsSupplier shown(final String token)
    {
        return new CredentialsSupplier()
        {
            public byte[] encodedCredentials()
            {
                return token.getBytes(StandardCharsets.US_ASCII);
            }

            public byte[] onChallenge(final byte[] encodedChallenge)
            {
                throw new IllegalStateException("nobody is challenged for a token");
            }
        };
    }

    public static void main(final String[] args) throws Exception
    {
        try (MediaDriver driver = args[1].equals("launch") ? Peer.launch(args[0]) : null;
            Aeron aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(args[0]).errorHandler(Peer::fail));
            AeronArchive archive = AeronArchive.connect(new AeronArchive.Context()
                .aeron(aeron)
                .ownsAeronClient(false)
                .credentialsSupplier(args.length > 6 ? shown(args[6]) : new NullCredentialsSupplier())
                .controlRequestChannel(args[2])
                .controlResponseChannel(args[3])))
        {
            Peer.say("archive-id " + archive.archiveId());
            final ArchiveUser user = new ArchiveUser(aeron, archive, args[4], args[5], args[1].equals("attach"));
            user.run();
        }
        Peer.say("done");
    }

    private void run() throws Exception
    {
        final long id = record();
        final long stop = archive.getStopPosition(id);
        check(archive.getStartPosition(id) == 0, "start position");
        check(archive.getMaxRecordedPosition(id) == stop, "max recorded position");
        check(archive.getRecordingPosition(id) == AeronArchive.NULL_POSITION, "recording position");
        check(list(id) == 1, "listing");
        check(replay(id, 0, stop) == COUNT, "replayed messages");
        extend(id, stop);
        final long longer = archive.getStopPosition(id);
        check(longer > stop, "extended");
        check(replay(id, 0, longer) == 2 * COUNT, "messages after the extension");
        archive.truncateRecording(id, stop);
        check(archive.getStopPosition(id) == stop, "truncated");
        segments(id, stop);
        errors(id, stop);
        archive.purgeRecording(id);
        check(archive.listRecording(id, (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p) -> {}) == 0, "purged");
    }

    private long record() throws Exception
    {
        final long subscription = archive.startRecording(
            channel, STREAM, isLocal ? SourceLocation.LOCAL : SourceLocation.REMOTE);
        final long id;
        try (ExclusivePublication publication = aeron.addExclusivePublication(channel + "|term-length=64k", STREAM))
        {
            send(publication);
            id = find(publication.sessionId());
            awaitPosition(id, publication.position());
            check(archive.findLastMatchingRecording(0, "alias=java", STREAM, publication.sessionId()) == id, "find");
            check(archive.listRecordingSubscriptions(
                0, 10, "alias=java", STREAM, true, (c, r, s, st, ch) -> check(s == subscription, "id")) == 1,
                "subscriptions");
            if (isLocal)
            {
                final CountersReader counters = aeron.countersReader();
                final int counterId = RecordingPos.findCounterIdByRecording(counters, id, archive.archiveId());
                check(counterId >= 0 && counters.getCounterValue(counterId) == publication.position(), "counter");
            }
        }
        archive.stopRecording(subscription);
        while (archive.getStopPosition(id) == AeronArchive.NULL_POSITION)
        {
            Thread.sleep(1);
        }
        Peer.say("recorded " + id);
        return id;
    }

    private long find(final int sessionId) throws Exception
    {
        final long deadlineNs = System.nanoTime() + TIMEOUT_NS;
        long id;
        while ((id = archive.findLastMatchingRecording(0, "alias=java", STREAM, sessionId)) < 0)
        {
            check(System.nanoTime() < deadlineNs, "a recording within time");
            Thread.sleep(1);
        }
        return id;
    }

    private void awaitPosition(final long id, final long position) throws Exception
    {
        final long deadlineNs = System.nanoTime() + TIMEOUT_NS;
        while (archive.getRecordingPosition(id) < position)
        {
            check(System.nanoTime() < deadlineNs, "recorded within time");
            Thread.sleep(1);
        }
    }

    private void send(final ExclusivePublication publication) throws Exception
    {
        final UnsafeBuffer buffer = new UnsafeBuffer(new byte[200]);
        final long deadlineNs = System.nanoTime() + TIMEOUT_NS;
        for (int i = 0; i < COUNT; i++)
        {
            buffer.putInt(0, i);
            while (publication.offer(buffer, 0, 4 + i % 190) < 0)
            {
                check(System.nanoTime() < deadlineNs, "sent within time");
                Thread.yield();
            }
        }
    }

    private int list(final long id)
    {
        return archive.listRecordingsForUri(0, 100, "alias=java", STREAM,
            (session, correlation, recording, startTime, stopTime, start, stop, initialTerm, segment, term, mtu,
            sessionId, stream, stripped, original, source) ->
            {
                check(recording == id && stream == STREAM && term == 65536, "descriptor");
                check(original.contains("alias=java") && stopTime >= startTime && startTime > 0, "descriptor texts");
            });
    }

    private int replay(final long id, final long position, final long length) throws Exception
    {
        final int[] count = new int[1];
        final long deadlineNs = System.nanoTime() + TIMEOUT_NS;
        try (Subscription subscription = archive.replay(id, position, length, replayChannel, REPLAY_STREAM))
        {
            final FragmentAssembler assembler = new FragmentAssembler((buffer, offset, size, header) ->
            {
                check(buffer.getInt(offset) == count[0] % COUNT, "order of the replay");
                count[0]++;
            });
            while (!subscription.isConnected() || !subscription.imageAtIndex(0).isEndOfStream())
            {
                if (subscription.poll(assembler, 64) == 0)
                {
                    Thread.sleep(0, 200_000);
                    if (count[0] > 0 && !subscription.isConnected())
                    {
                        break;
                    }
                }
                check(System.nanoTime() < deadlineNs, "replayed within time: " + count[0]);
            }
        }
        Peer.say("replayed " + count[0]);
        return count[0];
    }

    private void extend(final long id, final long stop) throws Exception
    {
        final int[] initialTermId = new int[1];
        archive.listRecording(id, (a, b, c, d, e, f, g, initial, i, j, k, l, m, n, o, p) -> initialTermId[0] = initial);
        final String extended = new ChannelUriStringBuilder(channel).initialPosition(stop, initialTermId[0], 65536).build();
        final long subscription = archive.extendRecording(
            id, channel, STREAM, isLocal ? SourceLocation.LOCAL : SourceLocation.REMOTE);
        try (ExclusivePublication publication = aeron.addExclusivePublication(extended, STREAM))
        {
            send(publication);
            awaitPosition(id, publication.position());
        }
        archive.stopRecording(subscription);
        while (archive.getStopPosition(id) == AeronArchive.NULL_POSITION)
        {
            Thread.sleep(1);
        }
        Peer.say("extended");
    }

    private void segments(final long id, final long stop)
    {
        final long segment = 65536;
        archive.detachSegments(id, 2 * segment);
        check(archive.getStartPosition(id) == 2 * segment, "detached");
        check(archive.attachSegments(id) == 2, "attached");
        check(archive.getStartPosition(id) == 0, "start after attach");
        archive.detachSegments(id, segment);
        check(archive.deleteDetachedSegments(id) == 1, "deleted");
        check(archive.purgeSegments(id, 2 * segment) == 1, "purged segments");
        check(archive.getStartPosition(id) == 2 * segment, "start after purge");
        Peer.say("segments");
    }

    private void errors(final long id, final long stop)
    {
        expect(ArchiveException.UNKNOWN_RECORDING, () -> archive.getStartPosition(4711));
        expect(ArchiveException.UNKNOWN_RECORDING, () -> archive.startReplay(4711, 0, 1, replayChannel, REPLAY_STREAM));
        expect(INVALID_POSITION, () -> archive.truncateRecording(id, stop + 32));
        expect(INVALID_POSITION,
            () -> archive.startReplay(id, stop + 32, 1, replayChannel, REPLAY_STREAM));
        expect(ArchiveException.UNKNOWN_SUBSCRIPTION, () -> archive.stopRecording(4711));
        expect(ArchiveException.UNKNOWN_SUBSCRIPTION, () -> archive.stopRecording(channel, STREAM));
        archive.startRecording(channel, STREAM, SourceLocation.LOCAL);
        expect(ArchiveException.ACTIVE_SUBSCRIPTION,
            () -> archive.startRecording(channel, STREAM, SourceLocation.LOCAL));
        check(archive.tryStopRecording(channel, STREAM), "stopped");
        check(!archive.tryStopRecording(channel, STREAM), "stopped once");
        Peer.say("errors");
    }

    private static void expect(final int code, final Runnable action)
    {
        try
        {
            action.run();
        }
        catch (final ArchiveException error)
        {
            check(error.errorCode() == code, "code " + error.errorCode() + " for " + code + ": " + error.getMessage());
            return;
        }
        check(false, "an error with code " + code);
    }

    private static void check(final boolean isGood, final String what)
    {
        if (!isGood)
        {
            throw new AssertionError(what);
        }
    }
}
