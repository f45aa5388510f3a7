import io.aeron.Aeron;
import io.aeron.ExclusivePublication;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.archive.client.AeronArchive;
import io.aeron.archive.client.ArchiveException;
import io.aeron.archive.client.RecordingSignalConsumer;
import io.aeron.archive.client.ReplayParams;
import io.aeron.archive.client.ReplicationParams;
import io.aeron.archive.codecs.SourceLocation;
import io.aeron.archive.status.RecordingPos;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.status.CountersReader;

import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * What an archive answers to each public method of AeronArchive, in a line "method, what is asked => answer".
 *
 * Arguments: folder of the archive's driver, control endpoint, eight free ports. With a further argument the texts of
 * errors are printed, too.
 */
public final class ArchiveMethods
{
    private static final long TIMEOUT_NS = (long)(15e9 * Double.parseDouble(System.getProperty("patience", "1")));
    private static final int STREAM = 7;
    private static final int PORTS = 8;

    interface Call
    {
        Object ask() throws Exception;
    }

    private final Aeron aeron;
    private final AeronArchive archive;
    private final CountersReader counters;
    private final String control;
    private final int[] ports = new int[PORTS];
    private final boolean tells;
    private final Set<String> signals = new TreeSet<>();

    private ArchiveMethods(final String[] args)
    {
        aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(args[0]).errorHandler(error -> {}));
        control = "aeron:udp?endpoint=" + args[1];
        for (int i = 0; i < PORTS; i++)
        {
            ports[i] = Integer.parseInt(args[2 + i]);
        }
        tells = args.length > 2 + PORTS;
        final RecordingSignalConsumer heard = (session, correlation, recording, subscription, position, signal) ->
            signals.add(signal.name());
        archive = AeronArchive.connect(context().recordingSignalConsumer(heard));
        counters = aeron.countersReader();
    }

    private AeronArchive.Context context()
    {
        return new AeronArchive.Context()
            .aeron(aeron)
            .ownsAeronClient(false)
            .controlRequestChannel(control)
            .controlResponseChannel("aeron:udp?endpoint=127.0.0.1:0")
            .messageTimeoutNs(TIMEOUT_NS);
    }

    private void line(final String name, final Call call)
    {
        Object answer;
        try
        {
            answer = call.ask();
        }
        catch (final ArchiveException error)
        {
            answer = "error " + error.errorCode() + (tells ? " " + error.getMessage().split("\n")[0] : "");
        }
        catch (final Exception error)
        {
            answer = error.getClass().getSimpleName() + (tells ? " " + error.getMessage() : "");
        }
        System.out.println(name + " => " + answer);
    }

    private static boolean await(final BooleanSupplier state)
    {
        final long deadline = System.nanoTime() + TIMEOUT_NS;
        while (!state.getAsBoolean())
        {
            if (System.nanoTime() > deadline)
            {
                return false;
            }
            LockSupport.parkNanos(500_000);
        }
        return true;
    }

    private boolean heard(final String signal)
    {
        return await(() ->
        {
            archive.pollForRecordingSignals();
            return signals.contains(signal);
        });
    }

    private void send(final Publication publication, final int count)
    {
        final UnsafeBuffer message = new UnsafeBuffer(new byte[1000]);
        for (int i = 0; i < count; i++)
        {
            await(() -> publication.offer(message) > 0);
        }
    }

    private void send(final ExclusivePublication publication, final int count)
    {
        final UnsafeBuffer message = new UnsafeBuffer(new byte[1000]);
        for (int i = 0; i < count; i++)
        {
            await(() -> publication.offer(message) > 0);
        }
    }

    private int counterOf(final int sessionId)
    {
        final int[] found = {CountersReader.NULL_COUNTER_ID};
        await(() -> (found[0] = RecordingPos.findCounterIdBySession(counters, sessionId, archive.archiveId())) >= 0);
        return found[0];
    }

    private long recordingOf(final int sessionId)
    {
        return RecordingPos.getRecordingId(counters, counterOf(sessionId));
    }

    private boolean stopped(final long recordingId)
    {
        return await(() -> archive.getStopPosition(recordingId) != AeronArchive.NULL_POSITION);
    }

    /** A stopped recording of that many messages over IPC; its id. */
    private long made(final int stream, final int count)
    {
        final ExclusivePublication publication =
            archive.addRecordedExclusivePublication("aeron:ipc?term-length=64k", stream);
        final long recordingId = recordingOf(publication.sessionId());
        send(publication, count);
        await(() -> archive.getRecordingPosition(recordingId) == publication.position());
        archive.stopRecording(publication);
        publication.close();
        stopped(recordingId);
        return recordingId;
    }

    private int received(final Subscription subscription, final int count)
    {
        final int[] got = {0};
        await(() ->
        {
            subscription.poll((buffer, offset, length, header) -> got[0]++, 100);
            return got[0] >= count;
        });
        return got[0];
    }

    private String udp(final int number)
    {
        return "aeron:udp?endpoint=127.0.0.1:" + ports[number];
    }

    private void session()
    {
        line("state", archive::state);
        line("context", () -> archive.context() != null);
        line("controlSessionId", () -> archive.controlSessionId() != 0);
        line("archiveId", () -> archive.archiveId() != Aeron.NULL_VALUE);
        line("lastCorrelationId", () -> archive.lastCorrelationId() > 0);
        line("archiveProxy", () -> archive.archiveProxy().publication().isConnected());
        line("controlResponsePoller", () -> archive.controlResponsePoller() != null);
        line("pollForErrorResponse, none", archive::pollForErrorResponse);
        line("checkForErrorResponse, none", () ->
        {
            archive.checkForErrorResponse();
            return "none";
        });
        line("asyncConnect", () ->
        {
            final AeronArchive.AsyncConnect connect = AeronArchive.asyncConnect(context());
            final AeronArchive[] made = {null};
            await(() -> (made[0] = connect.poll()) != null);
            final AeronArchive.State state = made[0].state();
            made[0].close();
            return state + " " + made[0].state();
        });
        line("segmentFileBasePosition", () -> AeronArchive.segmentFileBasePosition(0, 200_000, 65536, 65536));
    }

    private long recording()
    {
        final long[] recordingId = {-1};
        line("startRecording", () -> archive.startRecording(udp(0), STREAM, SourceLocation.REMOTE) != -1);
        line("startRecording, again", () -> archive.startRecording(udp(0), STREAM, SourceLocation.REMOTE));
        line("startRecording, bad channel", () -> archive.startRecording("aeron:tcp?x=1", STREAM, SourceLocation.LOCAL));
        line("listRecordingSubscriptions", () -> archive.listRecordingSubscriptions(
            0, 10, "endpoint", STREAM, true, (session, correlation, id, stream, channel) -> {}));
        line("listRecordingSubscriptions, none", () -> archive.listRecordingSubscriptions(
            0, 10, "nothing", STREAM, true, (session, correlation, id, stream, channel) -> {}));
        line("listRecordingSubscriptions, below 0", () -> archive.listRecordingSubscriptions(
            -1, 10, "", STREAM, false, (session, correlation, id, stream, channel) -> {}));
        final ExclusivePublication publication =
            aeron.addExclusivePublication(udp(0) + "|term-length=64k", STREAM);
        recordingId[0] = recordingOf(publication.sessionId());
        line("signal START", () -> heard("START"));
        send(publication, 62);
        line("offer at the end of a term", () ->
        {
            final UnsafeBuffer message = new UnsafeBuffer(new byte[1000]);
            final long[] result = {0};
            await(() -> (result[0] = publication.offer(message)) != Publication.BACK_PRESSURED);
            return result[0] + " " + publication.position();
        });
        line("getRecordingPosition", () ->
            await(() -> archive.getRecordingPosition(recordingId[0]) == publication.position()));
        line("rec-pos counter", () -> await(() -> counters.getCounterValue(
            RecordingPos.findCounterIdByRecording(counters, recordingId[0], archive.archiveId())) ==
            publication.position()));
        line("getMaxRecordedPosition", () -> archive.getMaxRecordedPosition(recordingId[0]) == publication.position());
        line("getStartPosition", () -> archive.getStartPosition(recordingId[0]));
        line("getStopPosition, live", () -> archive.getStopPosition(recordingId[0]));
        line("purgeRecording, live", () -> archive.purgeRecording(recordingId[0]));
        line("truncateRecording, live", () -> archive.truncateRecording(recordingId[0], 0));
        line("extendRecording, live", () ->
            archive.extendRecording(recordingId[0], udp(0), STREAM, SourceLocation.REMOTE));
        line("stopRecording", () ->
        {
            archive.stopRecording(udp(0), STREAM);
            return stopped(recordingId[0]);
        });
        line("getStopPosition", () -> archive.getStopPosition(recordingId[0]) == publication.position());
        line("signal STOP", () -> heard("STOP"));
        publication.close();
        line("stopRecording, not recorded", () ->
        {
            archive.stopRecording(udp(0), STREAM);
            return "ok";
        });
        line("tryStopRecording, not recorded", () -> archive.tryStopRecording(udp(0), STREAM));
        line("stopRecording, unknown id", () ->
        {
            archive.stopRecording(123_456_789L);
            return "ok";
        });
        line("tryStopRecording, unknown id", () -> archive.tryStopRecording(123_456_789L));
        line("tryStopRecordingByIdentity, stopped", () -> archive.tryStopRecordingByIdentity(recordingId[0]));
        line("tryStopRecordingByIdentity, unknown", () -> archive.tryStopRecordingByIdentity(999));
        line("startRecording, autoStop; stopRecording by id", () ->
        {
            final long id = archive.startRecording("aeron:ipc?alias=x", 8, SourceLocation.LOCAL, true);
            archive.stopRecording(id);
            return "ok";
        });
        line("addRecordedPublication, stopRecording(publication)", () ->
        {
            final Publication recorded = archive.addRecordedPublication("aeron:ipc?term-length=64k", 9);
            final long id = recordingOf(recorded.sessionId());
            send(recorded, 3);
            archive.stopRecording(recorded);
            recorded.close();
            return stopped(id);
        });
        line("tryStopRecordingByIdentity, live", () ->
        {
            final ExclusivePublication recorded =
                archive.addRecordedExclusivePublication("aeron:ipc?term-length=64k", 10);
            final boolean isStopped = archive.tryStopRecordingByIdentity(recordingOf(recorded.sessionId()));
            recorded.close();
            return isStopped;
        });
        return recordingId[0];
    }

    private void extension(final long recordingId)
    {
        final long stop = archive.getStopPosition(recordingId);
        final int[] initialTermId = {0};
        final String[] identity = {"", ""};
        archive.listRecording(recordingId, (session, correlation, id, start, end, from, to, initial, segment, term, mtu,
            sessionId, stream, stripped, original, source) ->
        {
            initialTermId[0] = initial;
            identity[0] = source;
        });
        final String channel = udp(1) + "|term-length=64k|init-term-id=" + initialTermId[0] + "|term-id=" +
            (initialTermId[0] + (int)(stop / 65536)) + "|term-offset=" + stop % 65536;
        line("extendRecording", () ->
        {
            archive.extendRecording(recordingId, udp(1), STREAM, SourceLocation.REMOTE, true);
            final ExclusivePublication publication = aeron.addExclusivePublication(channel, STREAM);
            final boolean isExtended = heard("EXTEND");
            send(publication, 62);
            final boolean isRecorded = await(() ->
                archive.getRecordingPosition(recordingId) == publication.position());
            publication.close();
            return isExtended + " " + isRecorded + " " + stopped(recordingId);
        });
        archive.listRecording(recordingId, (session, correlation, id, start, end, from, to, initial, segment, term, mtu,
            sessionId, stream, stripped, original, source) -> identity[1] = source);
        line("source identity after an extension", () -> identity[0].equals(identity[1]));
        line("extendRecording, unknown", () ->
            archive.extendRecording(999, udp(1), STREAM, SourceLocation.REMOTE));
        line("extendRecording, other stream", () ->
            archive.extendRecording(recordingId, udp(1), STREAM + 1, SourceLocation.REMOTE));
    }

    private void listings(final long recordingId)
    {
        line("listRecordings", () -> archive.listRecordings(0, 2, ArchiveMethods::ignore));
        line("listRecordings, beyond the last", () -> archive.listRecordings(1000, 2, ArchiveMethods::ignore));
        line("listRecordingsForUri", () ->
            archive.listRecordingsForUri(0, 10, "127.0.0.1:" + ports[0], STREAM, ArchiveMethods::ignore));
        line("listRecordingsForUri, none", () ->
            archive.listRecordingsForUri(0, 10, "nothing", STREAM, ArchiveMethods::ignore));
        line("listRecording", () -> archive.listRecording(recordingId, ArchiveMethods::ignore));
        line("listRecording, unknown", () -> archive.listRecording(999, ArchiveMethods::ignore));
        line("recordingDescriptorPoller", () -> archive.recordingDescriptorPoller() != null);
        line("recordingSubscriptionDescriptorPoller", () -> archive.recordingSubscriptionDescriptorPoller() != null);
        line("findLastMatchingRecording", () ->
        {
            final int[] session = {0};
            archive.listRecording(recordingId, (control, correlation, id, start, end, from, to, initial, segment, term,
                mtu, sessionId, stream, stripped, original, source) -> session[0] = sessionId);
            return archive.findLastMatchingRecording(0, "endpoint", STREAM, session[0]) == recordingId;
        });
        line("findLastMatchingRecording, none", () -> archive.findLastMatchingRecording(0, "endpoint", 999, 1));
        line("findLastMatchingRecording, below 0", () -> archive.findLastMatchingRecording(-1, "endpoint", 999, 1));
        line("getStartPosition, unknown", () -> archive.getStartPosition(999));
        line("getStopPosition, unknown", () -> archive.getStopPosition(999));
        line("getRecordingPosition, unknown", () -> archive.getRecordingPosition(999));
        line("getMaxRecordedPosition, unknown", () -> archive.getMaxRecordedPosition(999));
        line("updateChannel", () ->
        {
            archive.updateChannel(recordingId, udp(0) + "|alias=updated|term-length=64k");
            return archive.listRecordingsForUri(0, 10, "alias=updated", STREAM, ArchiveMethods::ignore);
        });
        line("updateChannel, unknown", () ->
        {
            archive.updateChannel(999, udp(0));
            return "ok";
        });
    }

    private void replays(final long recordingId)
    {
        final long stop = archive.getStopPosition(recordingId);
        line("startReplay, stopReplay", () ->
        {
            final long id = archive.startReplay(recordingId, 0, 1000, udp(2), 20);
            archive.stopReplay(id);
            return id != 0;
        });
        line("stopReplay, unknown", () ->
        {
            archive.stopReplay(999);
            return "ok";
        });
        line("stopAllReplays", () ->
        {
            archive.stopAllReplays(recordingId);
            return "ok";
        });
        line("startReplay, unknown", () -> archive.startReplay(999, 0, 1000, udp(2), 20));
        line("startReplay, after the end", () -> archive.startReplay(recordingId, stop + 32, 1000, udp(2), 20));
        line("startReplay, at the end", () -> archive.startReplay(recordingId, stop, 1000, udp(2), 20));
        line("startReplay, within a frame", () -> archive.startReplay(recordingId, 64, 1000, udp(2), 20));
        line("startReplay, not aligned", () -> archive.startReplay(recordingId, 3, 1000, udp(2), 20));
        line("startReplay, length below -2", () -> archive.startReplay(recordingId, 0, -3, udp(2), 20));
        line("startReplay, fileIoMaxLength below the MTU", () ->
            archive.startReplay(recordingId, udp(2), 20, new ReplayParams().fileIoMaxLength(64)));
        line("startBoundedReplay, no counter", () ->
            archive.startBoundedReplay(recordingId, 0, 1000, 9999, udp(2), 20));
        line("startBoundedReplay", () ->
        {
            final io.aeron.Counter bound = aeron.addCounter(2000, "bound of a replay");
            bound.setOrdered(2112);
            final Subscription subscription = aeron.addSubscription(udp(2), 21);
            final long id = archive.startBoundedReplay(
                recordingId, 0, AeronArchive.REPLAY_ALL_AND_FOLLOW, bound.id(), udp(2), 21);
            final int got = received(subscription, 2);
            archive.stopReplay(id);
            subscription.close();
            bound.close();
            return got;
        });
        line("replay", () ->
        {
            final Subscription subscription = archive.replay(recordingId, 0, stop, udp(2), 22);
            final int got = received(subscription, 124);
            subscription.close();
            return got;
        });
        line("replay, with handlers", () ->
        {
            final Subscription subscription = archive.replay(
                recordingId, 0, AeronArchive.REPLAY_ALL_AND_STOP, "aeron:ipc", 23, image -> {}, image -> {});
            final int got = received(subscription, 124);
            subscription.close();
            return got;
        });
        line("replay, ReplayParams", () ->
        {
            final Subscription subscription = archive.replay(
                recordingId, udp(2), 24, new ReplayParams().position(65536).fileIoMaxLength(65536));
            final int got = received(subscription, 62);
            subscription.close();
            return got;
        });
        line("replay over a response channel", () ->
        {
            try (AeronArchive own = AeronArchive.connect(context()
                .controlRequestChannel(control)
                .controlResponseChannel("aeron:udp?control-mode=response|control=127.0.0.1:" + ports[3])))
            {
                final Subscription subscription = own.replay(
                    recordingId,
                    "aeron:udp?control-mode=response|control=127.0.0.1:" + ports[4],
                    25,
                    new ReplayParams().position(0).length(stop));
                final int got = received(subscription, 124);
                subscription.close();
                return got;
            }
        });
    }

    private void empty()
    {
        final long empty = made(11, 0);
        line("startReplay, empty and stopped, from its start, -1", () ->
            replayOfNothing(empty, AeronArchive.NULL_POSITION, AeronArchive.NULL_LENGTH));
        line("startReplay, empty and stopped, from its start, MAX", () ->
            replayOfNothing(empty, AeronArchive.NULL_POSITION, Long.MAX_VALUE));
        line("startReplay, empty and stopped, from 0", () -> replayOfNothing(empty, 0, AeronArchive.NULL_LENGTH));
        line("startReplay, empty and stopped, -2", () ->
            replayOfNothing(empty, AeronArchive.NULL_POSITION, AeronArchive.REPLAY_ALL_AND_STOP));
        line("startReplay, length 0", () ->
        {
            archive.stopReplay(archive.startReplay(empty, AeronArchive.NULL_POSITION, 0, "aeron:ipc", 31));
            return "accepted";
        });
    }

    private Object replayOfNothing(final long recordingId, final long position, final long length)
    {
        // It may come and end before it is looked for.
        final AtomicBoolean hasCome = new AtomicBoolean();
        final Subscription subscription = aeron.addSubscription("aeron:ipc", 30, (image) -> hasCome.set(true), (image) -> {});
        try
        {
            archive.startReplay(recordingId, position, length, "aeron:ipc", 30);
            final boolean came = await(hasCome::get);
            final boolean ended = await(() -> subscription.imageCount() == 0 || subscription.imageAtIndex(0).isEndOfStream());
            return "a stream " + came + " that ends " + ended;
        }
        finally
        {
            subscription.close();
        }
    }

    private void storage(final long recordingId)
    {
        line("detachSegments, not a base", () ->
        {
            archive.detachSegments(recordingId, 32);
            return "ok";
        });
        line("detachSegments", () ->
        {
            archive.detachSegments(recordingId, 65536);
            return archive.getStartPosition(recordingId);
        });
        line("attachSegments", () -> archive.attachSegments(recordingId) + " " + archive.getStartPosition(recordingId));
        line("deleteDetachedSegments", () ->
        {
            archive.detachSegments(recordingId, 65536);
            return archive.deleteDetachedSegments(recordingId) + " " + heard("DELETE");
        });
        line("detachSegments, unknown", () ->
        {
            archive.detachSegments(999, 65536);
            return "ok";
        });
        line("attachSegments, unknown", () -> archive.attachSegments(999));
        line("deleteDetachedSegments, unknown", () -> archive.deleteDetachedSegments(999));
        final long other = made(12, 200);
        line("purgeSegments", () -> archive.purgeSegments(other, 131072) + " " + archive.getStartPosition(other));
        line("purgeSegments, below the start", () -> archive.purgeSegments(other, 65536));
        line("purgeSegments, unknown", () -> archive.purgeSegments(999, 65536));
        line("truncateRecording, within a frame", () -> archive.truncateRecording(other, 131072 + 64));
        line("truncateRecording, not aligned", () -> archive.truncateRecording(other, 131072 + 3));
        line("truncateRecording, beyond the end", () -> archive.truncateRecording(other, 1 << 30));
        line("truncateRecording, unknown", () -> archive.truncateRecording(999, 0));
        line("migrateSegments, do not meet", () -> archive.migrateSegments(other, recordingId));
        line("migrateSegments, unknown", () -> archive.migrateSegments(999, recordingId));
        line("purgeRecording", () -> archive.purgeRecording(other) > 0);
        line("purgeRecording, purged", () -> archive.purgeRecording(other));
        line("listRecording, purged", () -> archive.listRecording(other, ArchiveMethods::ignore));
        final long cut = made(13, 200);
        line("truncateRecording", () -> archive.truncateRecording(cut, 65536 + 1056) > 0);
        line("truncateRecording, then getStopPosition", () -> archive.getStopPosition(cut));
        line("truncateRecording to the start", () -> archive.truncateRecording(cut, 0) > 0);
    }

    private void replications(final long recordingId)
    {
        final String source = control;
        line("replicate", () ->
        {
            signals.clear();
            archive.replicate(recordingId, -1, 10, source, null);
            return heard("REPLICATE_END") + " " + heard("STOP") + " " + signals;
        });
        line("replicate, to a position", () ->
        {
            signals.clear();
            archive.replicate(recordingId, -1, 65536 + 2112, 10, source, null, udp(5));
            return heard("REPLICATE_END") + " " + heard("STOP") + " " + signals;
        });
        line("replicate, ReplicationParams", () ->
        {
            signals.clear();
            archive.replicate(recordingId, 10, source, new ReplicationParams().fileIoMaxLength(65536)
                .replicationSessionId(4711).replicationChannel(udp(5)));
            return heard("REPLICATE_END") + " " + heard("STOP") + " " + signals;
        });
        line("replicate, fileIoMaxLength below the MTU", () ->
        {
            signals.clear();
            archive.replicate(recordingId, 10, source, new ReplicationParams().fileIoMaxLength(64));
            return failure();
        });
        line("replicate, source unknown", () ->
        {
            signals.clear();
            archive.replicate(999, -1, 10, source, null);
            return failure();
        });
        line("replicate, target unknown", () -> archive.replicate(recordingId, 999, 10, source, null));
        line("stopReplication, unknown", () ->
        {
            archive.stopReplication(999);
            return "ok";
        });
        line("tryStopReplication, unknown", () -> archive.tryStopReplication(999));
        line("taggedReplicate", () ->
        {
            signals.clear();
            archive.taggedReplicate(recordingId, -1, 100, 200, 10, source, null);
            return heard("REPLICATE_END") + " " + heard("STOP") + " " + signals;
        });
        live(source);
    }

    private Object failure()
    {
        final String[] text = {null};
        try
        {
            await(() -> (text[0] = archive.pollForErrorResponse()) != null);
        }
        catch (final ArchiveException error)
        {
            text[0] = error.getMessage();
        }
        return text[0] != null ? "refused" + (tells ? " " + text[0] : "") : "nothing";
    }

    private void live(final String source)
    {
        final String group = "aeron:udp?control-mode=dynamic|control=127.0.0.1:" + ports[6] +
            "|term-length=64k|ssc=true";
        final ExclusivePublication publication = aeron.addExclusivePublication(group, 40);
        archive.startRecording(group + "|session-id=" + publication.sessionId(), 40, SourceLocation.LOCAL);
        final long live = recordingOf(publication.sessionId());
        send(publication, 20);
        line("stopReplication", () ->
        {
            signals.clear();
            final long id = archive.replicate(live, -1, 10, source, null);
            final boolean begun = heard("EXTEND");
            archive.stopReplication(id);
            return begun + " " + heard("REPLICATE_END") + " " + heard("STOP");
        });
        line("tryStopReplication", () ->
        {
            signals.clear();
            final long id = archive.replicate(live, -1, 10, source, null);
            final boolean begun = heard("EXTEND");
            return begun + " " + archive.tryStopReplication(id) + " " + heard("REPLICATE_END") + " " + heard("STOP");
        });
        line("replicate, live destination", () ->
        {
            signals.clear();
            archive.replicate(live, -1, 10, source, "aeron:udp?endpoint=127.0.0.1:" + ports[7] +
                "|control=127.0.0.1:" + ports[6]);
            final boolean merged = heard("MERGE") && heard("REPLICATE_END");
            final long[] copy = {-1};
            archive.listRecordings(0, 1000, (session, correlation, id, start, end, from, to, initial, segment, term, mtu,
                sessionId, stream, stripped, original, identity) -> copy[0] = id);
            send(publication, 20);
            final boolean follows = await(() -> archive.getRecordingPosition(copy[0]) == publication.position());
            archive.tryStopRecordingByIdentity(copy[0]);
            return merged + " " + follows + " " + signals;
        });
        archive.stopRecording(group + "|session-id=" + publication.sessionId(), 40);
        publication.close();
        line("replicate, live destination of a stopped source", () ->
        {
            stopped(live);
            signals.clear();
            archive.replicate(live, -1, 10, source, "aeron:udp?endpoint=127.0.0.1:" + ports[7] +
                "|control=127.0.0.1:" + ports[6]);
            return failure();
        });
    }

    private static void ignore(
        final long controlSessionId, final long correlationId, final long recordingId, final long startTimestamp,
        final long stopTimestamp, final long startPosition, final long stopPosition, final int initialTermId,
        final int segmentFileLength, final int termBufferLength, final int mtuLength, final int sessionId,
        final int streamId, final String strippedChannel, final String originalChannel, final String sourceIdentity)
    {
    }

    private void counted()
    {
        final Set<Integer> types = new TreeSet<>();
        counters.forEach((counterId, typeId, key, label) ->
        {
            if (typeId >= 102 && typeId <= 113)
            {
                types.add(typeId);
            }
        });
        line("counters", () -> types);
    }

    public static void main(final String[] args)
    {
        final ArchiveMethods methods = new ArchiveMethods(args);
        methods.session();
        final long recordingId = methods.recording();
        methods.extension(recordingId);
        methods.listings(recordingId);
        methods.replays(recordingId);
        methods.empty();
        methods.replications(recordingId);
        methods.storage(recordingId);
        methods.counted();
        methods.line("close", () ->
        {
            methods.archive.close();
            return methods.archive.state();
        });
        methods.aeron.close();
        System.exit(0);
    }
}
