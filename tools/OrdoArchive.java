package io.aeron.archive;

import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;

import io.aeron.Aeron;
import io.aeron.AeronCounters;
import io.aeron.Counter;
import io.aeron.archive.client.ArchiveException;
import io.aeron.exceptions.ConfigurationException;
import net.bytebuddy.ByteBuddy;
import net.bytebuddy.implementation.FieldAccessor;
import net.bytebuddy.implementation.MethodCall;
import net.bytebuddy.implementation.MethodDelegation;
import net.bytebuddy.implementation.bind.annotation.Argument;
import net.bytebuddy.implementation.bind.annotation.This;
import org.agrona.IoUtil;
import org.agrona.concurrent.status.AtomicCounter;
import org.agrona.concurrent.status.CountersReader;

/**
 * Ordo's archive where a program starts Aeron's in its own JVM.
 *
 * `main` writes an Archive class whose constructor and `close` start and end the program that the system property
 * ordo.archive.program names. That class comes before Aeron's jar on the class path.
 */
public final class OrdoArchive
{
    private static final String PROGRAM = System.getProperty("ordo.archive.program");
    private static final String READY = "ready ";
    private static final int END_TIMEOUT_S = 20;
    private static final Map<Archive.Context, OrdoArchive> RUNNING =
        Collections.synchronizedMap(new IdentityHashMap<>());

    private final Process process;
    private final Aeron aeron;

    public static void main(final String[] args) throws Exception
    {
        new ByteBuddy()
            .redefine(Archive.class)
            .constructor(takesArguments(Archive.Context.class))
            .intercept(MethodCall.invoke(Object.class.getConstructor())
                .andThen(FieldAccessor.ofField("ctx").setsArgumentAt(0))
                .andThen(MethodDelegation.withDefaultConfiguration().filter(named("start")).to(OrdoArchive.class)))
            .method(named("launch").and(takesArguments(Archive.Context.class)))
            .intercept(MethodCall.construct(Archive.class.getDeclaredConstructor(Archive.Context.class))
                .withArgument(0))
            .method(named("close"))
            .intercept(MethodDelegation.withDefaultConfiguration().filter(named("end")).to(OrdoArchive.class))
            .make()
            .saveIn(new File(args[0]));
    }

    /** Starts an archive with the settings of a context, which then tells its folder, its id and its counters. */
    public static void start(@Argument(0) final Archive.Context context) throws IOException
    {
        refuse(null != context.authenticatorSupplier(), "an authenticator of its own");
        refuse(null != context.authorisationServiceSupplier(), "an authorisation service of its own");
        if (null == context.archiveDir())
        {
            context.archiveDir(new File(context.archiveDirectoryName()));
        }
        context.archiveDir(context.archiveDir().getCanonicalFile());
        refuse(null != context.markFileDir() &&
            !context.markFileDir().getCanonicalFile().equals(context.archiveDir()), "a mark file elsewhere");
        if (context.deleteArchiveOnStart())
        {
            IoUtil.delete(context.archiveDir(), false);
        }
        RUNNING.put(context, new OrdoArchive(context));
    }

    private static void refuse(final boolean isAskedFor, final String what)
    {
        if (isAskedFor)
        {
            throw new ConfigurationException("Ordo's archive cannot be given " + what);
        }
    }

    /** Ends the archive; where that has happened, nothing. */
    public static void end(@This final Archive archive)
    {
        final OrdoArchive running = RUNNING.remove(archive.context());
        if (null != running)
        {
            running.end();
        }
    }

    private OrdoArchive(final Archive.Context context) throws IOException
    {
        final String folder = null != context.aeron() ?
            context.aeron().context().aeronDirectoryName() : context.aeronDirectoryName();
        process = new ProcessBuilder(command(context, folder)).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        final BufferedReader said = process.inputReader();
        String line = said.readLine();
        if (null == line || !line.startsWith(READY))
        {
            throw new ArchiveException(null == line ? "Ordo's archive ended at its start" : line);
        }
        context.archiveId(Long.parseLong(line.substring(READY.length())));
        aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(folder).errorHandler(error -> {}));
        showCounters(context.aeron(aeron), aeron.countersReader());
    }

    private static List<String> command(final Archive.Context context, final String folder)
    {
        final List<String> command = new ArrayList<>(List.of(PROGRAM));
        set(command, "dir", folder);
        set(command, "archive.dir", context.archiveDir());
        set(command, "archive.id", Aeron.NULL_VALUE == context.archiveId() ? null : context.archiveId());
        set(command, "archive.file.sync.level", context.fileSyncLevel());
        set(command, "archive.segment.file.length", context.segmentFileLength());
        set(command, "archive.low.storage.space.threshold", context.lowStorageSpaceThreshold());
        set(command, "archive.control.channel", context.controlChannelEnabled() ? context.controlChannel() : null);
        set(command, "archive.control.stream.id", context.controlStreamId());
        set(command, "archive.local.control.channel", context.localControlChannel());
        set(command, "archive.local.control.stream.id", context.localControlStreamId());
        set(command, "archive.replication.channel", context.replicationChannel());
        set(command, "archive.recording.events.channel",
            context.recordingEventsEnabled() ? context.recordingEventsChannel() : null);
        set(command, "archive.recording.events.stream.id", context.recordingEventsStreamId());
        set(command, "archive.max.concurrent.recordings", context.maxConcurrentRecordings());
        set(command, "archive.max.concurrent.replays", context.maxConcurrentReplays());
        set(command, "archive.connect.timeout", context.connectTimeoutNs());
        set(command, "archive.session.liveness.check.interval", context.sessionLivenessCheckIntervalNs());
        return command;
    }

    private static void set(final List<String> command, final String name, final Object value)
    {
        if (null != value)
        {
            command.add("-Daeron." + name + "=" + value);
        }
    }

    private static void showCounters(final Archive.Context context, final CountersReader counters)
    {
        final IntFunction<Counter> counter = typeId -> new Counter(counters, find(context, counters, typeId));
        final int errors = find(context, counters, AeronCounters.ARCHIVE_ERROR_COUNT_TYPE_ID);
        context.errorCounter(new AtomicCounter(counters.valuesBuffer(), errors))
            .controlSessionsCounter(counter.apply(AeronCounters.ARCHIVE_CONTROL_SESSIONS_TYPE_ID))
            .recordingSessionCounter(counter.apply(AeronCounters.ARCHIVE_RECORDING_SESSION_COUNT_TYPE_ID))
            .replaySessionCounter(counter.apply(AeronCounters.ARCHIVE_REPLAY_SESSION_COUNT_TYPE_ID))
            .totalWriteBytesCounter(counter.apply(AeronCounters.ARCHIVE_RECORDER_TOTAL_WRITE_BYTES_TYPE_ID))
            .totalWriteTimeCounter(counter.apply(AeronCounters.ARCHIVE_RECORDER_TOTAL_WRITE_TIME_TYPE_ID))
            .maxWriteTimeCounter(counter.apply(AeronCounters.ARCHIVE_RECORDER_MAX_WRITE_TIME_TYPE_ID))
            .totalReadBytesCounter(counter.apply(AeronCounters.ARCHIVE_REPLAYER_TOTAL_READ_BYTES_TYPE_ID))
            .totalReadTimeCounter(counter.apply(AeronCounters.ARCHIVE_REPLAYER_TOTAL_READ_TIME_TYPE_ID))
            .maxReadTimeCounter(counter.apply(AeronCounters.ARCHIVE_REPLAYER_MAX_READ_TIME_TYPE_ID));
    }

    private static int find(final Archive.Context context, final CountersReader counters, final int typeId)
    {
        return ArchiveCounters.find(counters, typeId, context.archiveId());
    }

    private void end()
    {
        aeron.close();
        process.destroy();
        try
        {
            if (!process.waitFor(END_TIMEOUT_S, TimeUnit.SECONDS))
            {
                throw new ArchiveException("Ordo's archive did not end within " + END_TIMEOUT_S + " s");
            }
        }
        catch (final InterruptedException ex)
        {
            Thread.currentThread().interrupt();
        }
        finally
        {
            process.destroyForcibly();
        }
    }
}
