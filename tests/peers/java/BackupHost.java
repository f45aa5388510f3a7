import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.client.AeronArchive;
import io.aeron.cluster.ClusterBackup;
import io.aeron.cluster.ClusterBackupEventsListener;
import io.aeron.cluster.ClusterBackupMediaDriver;
import io.aeron.cluster.ClusterMember;
import io.aeron.cluster.RecordingLog;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.security.CredentialsSupplier;
import io.aeron.security.NullCredentialsSupplier;
import org.agrona.concurrent.SleepingMillisIdleStrategy;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.TimeUnit;

/**
 * Aeron's ClusterBackup with driver and archive. Says "response N" (a member offers N snapshot recordings), "updated
 * RECORDING@POSITION/SERVICE ..." when they are here, "live RECORDING POSITION" as the log grows, and "failure WORDS".
 *
 * How far the log is comes from the position counter. The listener hears of progress only: a log that was recorded whole
 * before the backup looked at it for the first time, and does not grow, is never mentioned there.
 *
 * Arguments: folder, control channel of its archive, replication channel, its consensus channel, catch-up endpoint,
 * consensus endpoints of the members, source (ANY, LEADER, FOLLOWER), and perhaps credentials and the answer to a
 * challenge.
 */
public final class BackupHost implements ClusterBackupEventsListener
{
    private volatile long recordingId = -1;

    public static void main(final String[] args) throws Exception
    {
        final Queue<String> commands = Peer.commands();
        final CredentialsSupplier credentials =
            args.length > 7 ? new Answers(args[7], args[8]) : new NullCredentialsSupplier();
        final String aeron = args[0] + "/aeron";
        final MediaDriver.Context driver = new MediaDriver.Context()
            .aeronDirectoryName(aeron)
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true)
            .threadingMode(ThreadingMode.SHARED)
            .sharedIdleStrategy(new SleepingMillisIdleStrategy(1))
            .spiesSimulateConnection(true)
            .errorHandler(BackupHost::note);
        final Archive.Context archive = new Archive.Context()
            .aeronDirectoryName(aeron)
            .archiveDir(new File(args[0], "archive"))
            .controlChannel(args[1])
            .replicationChannel(args[2])
            .threadingMode(ArchiveThreadingMode.SHARED)
            .idleStrategySupplier(() -> new SleepingMillisIdleStrategy(1))
            .errorHandler(BackupHost::note);
        final BackupHost listener = new BackupHost();
        final ClusterBackup.Context backup = new ClusterBackup.Context()
            .aeronDirectoryName(aeron)
            .clusterDir(new File(args[0], "cluster"))
            .archiveContext(new AeronArchive.Context()
                .controlRequestChannel("aeron:ipc")
                .controlResponseChannel("aeron:ipc"))
            .clusterArchiveContext(new AeronArchive.Context()
                .controlRequestChannel("aeron:udp?endpoint=localhost:1")
                .controlResponseChannel("aeron:udp?endpoint=localhost:0")
                .credentialsSupplier(credentials))
            .consensusChannel(args[3])
            .catchupEndpoint(args[4])
            .clusterConsensusEndpoints(args[5])
            .sourceType(ClusterBackup.SourceType.valueOf(args[6]))
            .clusterBackupIntervalNs(TimeUnit.SECONDS.toNanos(2))
            .clusterBackupResponseTimeoutNs(TimeUnit.SECONDS.toNanos(1))
            .clusterBackupCoolDownIntervalNs(TimeUnit.SECONDS.toNanos(1))
            .credentialsSupplier(credentials)
            .idleStrategySupplier(() -> new SleepingMillisIdleStrategy(1))
            .eventsListener(listener)
            .errorHandler(BackupHost::note);
        try (ClusterBackupMediaDriver host = ClusterBackupMediaDriver.launch(driver, archive, backup))
        {
            Peer.say("ready");
            long told = -1;
            while (!commands.contains(Peer.END))
            {
                final long position = backup.liveLogPositionCounter().get();
                if (listener.recordingId != -1 && position != told)
                {
                    told = position;
                    Peer.say("live " + listener.recordingId + " " + position);
                }
                Thread.sleep(1);
            }
        }
        Peer.say("closed");
    }

    /** A backup goes on after errors; the test says which of them it expects. */
    private static void note(final Throwable error)
    {
        Peer.say("failure " + error);
    }

    public void onBackupQuery()
    {
        Peer.say("query");
    }

    public void onPossibleFailure(final Exception error)
    {
        note(error);
    }

    public void onBackupResponse(
        final ClusterMember[] members, final ClusterMember source, final List<RecordingLog.Snapshot> snapshots)
    {
        Peer.say("response " + source.id() + " " + members.length + " " + snapshots.size());
    }

    public void onUpdatedRecordingLog(final RecordingLog log, final List<RecordingLog.Snapshot> snapshots)
    {
        final StringBuilder line = new StringBuilder("updated");
        for (final RecordingLog.Entry one : log.entries())
        {
            if (RecordingLog.ENTRY_TYPE_TERM == one.type)
            {
                recordingId = one.recordingId;
            }
            else if (RecordingLog.ENTRY_TYPE_SNAPSHOT == one.type)
            {
                line.append(' ').append(one.recordingId).append('@').append(one.logPosition).append('/')
                    .append(one.serviceId);
            }
        }
        Peer.say(line.toString());
    }

    public void onLiveLogProgress(final long recordingId, final long recordingPosCounterId, final long logPosition)
    {
        this.recordingId = recordingId;
    }

    /** Shows one text as credentials, and another when it is challenged. */
    private static final class Answers implements CredentialsSupplier
    {
        private final byte[] credentials;
        private final byte[] answer;

        Answers(final String credentials, final String answer)
        {
            this.credentials = credentials.getBytes(StandardCharsets.US_ASCII);
            this.answer = answer.getBytes(StandardCharsets.US_ASCII);
        }

        public byte[] encodedCredentials()
        {
            return credentials;
        }

        public byte[] onChallenge(final byte[] encodedChallenge)
        {
            Peer.say("challenged " + encodedChallenge.length);
            return answer;
        }
    }
}
