import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.client.AeronArchive;
import io.aeron.cluster.ClusteredMediaDriver;
import io.aeron.cluster.ConsensusModule;
import io.aeron.cluster.codecs.CloseReason;
import io.aeron.cluster.service.ClientSession;
import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusteredService;
import io.aeron.cluster.service.ClusteredServiceContainer;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.Header;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.NoOpLock;
import org.agrona.concurrent.SleepingMillisIdleStrategy;

import java.io.File;
import java.util.Queue;
import java.util.concurrent.TimeUnit;

/**
 * A member of a cluster of Aeron's, with driver, archive, consensus module and a service that echoes. Says "ready", and
 * "role FOLLOWER", "role LEADER" and the like as they change; ends with its input.
 *
 * Arguments: folder, member id, members as Aeron writes them.
 */
public final class ClusterHost implements ClusteredService
{
    private Cluster cluster;

    public static void main(final String[] args) throws Exception
    {
        final Queue<String> commands = Peer.commands();
        final String aeron = args[0] + "/aeron";
        final int memberId = Integer.parseInt(args[1]);
        final String[] endpoints = args[2].split("\\|")[memberId].split(",");
        final MediaDriver.Context driver = new MediaDriver.Context()
            .aeronDirectoryName(aeron)
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true)
            .threadingMode(ThreadingMode.SHARED)
            .sharedIdleStrategy(new SleepingMillisIdleStrategy(1))
            .ipcTermBufferLength(1 << 20)
            .publicationTermBufferLength(1 << 20)
            .errorHandler(ClusterHost::note);
        final Archive.Context archive = new Archive.Context()
            .aeronDirectoryName(aeron)
            .archiveDir(new File(args[0], "archive"))
            .controlChannel("aeron:udp?endpoint=" + endpoints[5])
            .replicationChannel("aeron:udp?endpoint=127.0.0.1:0")
            .segmentFileLength(1 << 20)
            .threadingMode(ArchiveThreadingMode.SHARED)
            .idleStrategySupplier(() -> new SleepingMillisIdleStrategy(1))
            .errorHandler(ClusterHost::note);
        final AeronArchive.Context local = new AeronArchive.Context()
            .aeronDirectoryName(aeron)
            .lock(NoOpLock.INSTANCE)
            .controlRequestChannel("aeron:ipc")
            .controlResponseChannel("aeron:ipc");
        final ConsensusModule.Context module = new ConsensusModule.Context()
            .aeronDirectoryName(aeron)
            .clusterDir(new File(args[0], "cluster"))
            .clusterMemberId(memberId)
            .clusterMembers(args[2])
            .ingressChannel("aeron:udp")
            .isIpcIngressAllowed(true)
            .logChannel("aeron:udp?term-length=1m")
            .replicationChannel("aeron:udp?endpoint=127.0.0.1:0")
            .archiveContext(local.clone())
            .startupCanvassTimeoutNs(TimeUnit.SECONDS.toNanos(5))
            .leaderHeartbeatTimeoutNs(TimeUnit.SECONDS.toNanos(2))
            .leaderHeartbeatIntervalNs(TimeUnit.MILLISECONDS.toNanos(100))
            .idleStrategySupplier(() -> new SleepingMillisIdleStrategy(1))
            .errorHandler(ClusterHost::note);
        final ClusteredServiceContainer.Context service = new ClusteredServiceContainer.Context()
            .aeronDirectoryName(aeron)
            .clusterDir(new File(args[0], "cluster"))
            .archiveContext(local.clone())
            .clusteredService(new ClusterHost())
            .idleStrategySupplier(() -> new SleepingMillisIdleStrategy(1))
            .errorHandler(ClusterHost::note);
        try (ClusteredMediaDriver host = ClusteredMediaDriver.launch(driver, archive, module);
            ClusteredServiceContainer container = ClusteredServiceContainer.launch(service))
        {
            Peer.say("ready");
            while (!commands.contains(Peer.END))
            {
                Thread.sleep(1);
            }
        }
        Peer.say("closed");
    }

    /** Elections, and members of another make, are full of warnings; a test says what it waits for. */
    private static void note(final Throwable error)
    {
        Peer.say("note " + error.toString().replace('\n', ' '));
    }

    public void onStart(final Cluster cluster, final Image snapshotImage)
    {
        this.cluster = cluster;
    }

    public void onSessionMessage(
        final ClientSession session,
        final long timestamp,
        final DirectBuffer buffer,
        final int offset,
        final int length,
        final Header header)
    {
        while (session.offer(buffer, offset, length) < 0 && cluster.role() == Cluster.Role.LEADER)
        {
            cluster.idleStrategy().idle();
        }
    }

    public void onRoleChange(final Cluster.Role role)
    {
        Peer.say("role " + role);
    }

    public void onSessionOpen(final ClientSession session, final long timestamp)
    {
    }

    public void onSessionClose(final ClientSession session, final long timestamp, final CloseReason reason)
    {
    }

    public void onTimerEvent(final long correlationId, final long timestamp)
    {
    }

    public void onTakeSnapshot(final ExclusivePublication publication)
    {
    }

    public void onTerminate(final Cluster cluster)
    {
    }
}
