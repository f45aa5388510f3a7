import io.aeron.Aeron;
import io.aeron.AeronCounters;
import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.RethrowingErrorHandler;
import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.client.AeronArchive;
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
import org.agrona.concurrent.AgentInvoker;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.YieldingIdleStrategy;

import java.io.File;

/**
 * A member of Aeron's cluster with a service that echoes. Driver, archive and consensus module share a thread,
 * the service has another; both yield, or back off, when they have nothing to do. Ends with its standard input.
 *
 * Arguments: member id, folder, driver's folder, members as Aeron writes them, host and port for replication, level of
 * file sync (0: page cache, 1: data of files is on disk before it is acknowledged), MTU, "yield" or "backoff".
 */
public final class ClusterNode implements ClusteredService
{
    private Cluster cluster;

    public static void main(final String[] args) throws Exception
    {
        final int memberId = Integer.parseInt(args[0]);
        final String members = args[3];
        final int syncLevel = Integer.parseInt(args[5]);
        final String archiveEndpoint = members.split("\\|")[memberId].split(",")[5];
        final AeronArchive.Context local = new AeronArchive.Context()
            .controlRequestChannel("aeron:ipc?term-length=64k")
            .controlResponseChannel("aeron:ipc?term-length=64k");
        endWithInput();
        try (MediaDriver driver = MediaDriver.launch(driver(args[2], Integer.parseInt(args[6])));
            Archive archive = Archive.launch(archive(args, archiveEndpoint, syncLevel, driver.sharedAgentInvoker()));
            Aeron aeron = Aeron.connect(new Aeron.Context()
                .aeronDirectoryName(args[2])
                .driverAgentInvoker(archive.invoker())
                .subscriberErrorHandler(RethrowingErrorHandler.INSTANCE)
                .useConductorAgentInvoker(true));
            ConsensusModule module = ConsensusModule.launch(new ConsensusModule.Context()
                .clusterMemberId(memberId)
                .clusterMembers(members)
                .clusterDir(new File(args[1], "cluster"))
                .aeronDirectoryName(args[2])
                .aeron(aeron)
                .errorCounter(aeron.addCounter(
                    AeronCounters.CLUSTER_CONSENSUS_MODULE_ERROR_COUNT_TYPE_ID, "Cluster Errors - clusterId=0"))
                .idleStrategySupplier(() -> new Others(archive.invoker(), idle(args[7])))
                .archiveContext(local.clone().agentInvoker(archive.invoker()))
                .ingressChannel("aeron:udp?term-length=4m")
                .egressChannel("aeron:udp?term-length=4m")
                .logChannel("aeron:udp?term-length=64m")
                .replicationChannel("aeron:udp?endpoint=" + args[4])
                .fileSyncLevel(syncLevel)
                .errorHandler(Throwable::printStackTrace));
            ClusteredServiceContainer container = ClusteredServiceContainer.launch(
                new ClusteredServiceContainer.Context()
                    .aeronDirectoryName(args[2])
                    .clusterDir(new File(args[1], "cluster"))
                    .archiveContext(local.clone())
                    .clusteredService(new ClusterNode())
                    .idleStrategySupplier(() -> idle(args[7]))
                    .errorHandler(Throwable::printStackTrace)))
        {
            System.out.println("ready");
            Thread.currentThread().join();
        }
    }

    private static MediaDriver.Context driver(final String directory, final int mtu)
    {
        return new MediaDriver.Context()
            .aeronDirectoryName(directory)
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true)
            .threadingMode(ThreadingMode.INVOKER)
            .spiesSimulateConnection(true)
            .mtuLength(mtu)
            .ipcMtuLength(mtu)
            .initialWindowLength(1 << 20)
            .socketRcvbufLength(2 << 20)
            .socketSndbufLength(2 << 20)
            .errorHandler(Throwable::printStackTrace);
    }

    private static Archive.Context archive(
        final String[] args, final String endpoint, final int syncLevel, final AgentInvoker driver)
    {
        return new Archive.Context()
            .aeronDirectoryName(args[2])
            .archiveDir(new File(args[1], "archive"))
            .controlChannel("aeron:udp?endpoint=" + endpoint)
            .localControlChannel("aeron:ipc?term-length=64k")
            .replicationChannel("aeron:udp?endpoint=" + args[4])
            .recordingEventsEnabled(false)
            .threadingMode(ArchiveThreadingMode.INVOKER)
            .mediaDriverAgentInvoker(driver)
            .fileSyncLevel(syncLevel)
            .catalogFileSyncLevel(syncLevel)
            .errorHandler(Throwable::printStackTrace);
    }

    /** Runs driver and archive in each turn of the consensus module, and idles when nobody had work. */
    private static final class Others implements IdleStrategy
    {
        private final AgentInvoker archive;
        private final IdleStrategy idle;

        Others(final AgentInvoker archive, final IdleStrategy idle)
        {
            this.archive = archive;
            this.idle = idle;
        }

        public void idle(final int workCount)
        {
            idle.idle(archive.invoke() + workCount);
        }

        public void idle()
        {
            idle(0);
        }

        public void reset()
        {
            idle.reset();
        }
    }

    private static IdleStrategy idle(final String name)
    {
        return name.equals("yield") ? new YieldingIdleStrategy() : new BackoffIdleStrategy();
    }

    private static void endWithInput()
    {
        final Thread reader = new Thread(() ->
        {
            try
            {
                while (System.in.read() >= 0)
                {
                }
            }
            catch (final java.io.IOException error)
            {
                error.printStackTrace();
            }
            Runtime.getRuntime().halt(0);
        });
        reader.setDaemon(true);
        reader.start();
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
        while (session.offer(buffer, offset, length) < 0 && !session.isClosing())
        {
            cluster.idleStrategy().idle();
        }
    }

    public void onRoleChange(final Cluster.Role newRole)
    {
        System.out.println("role " + newRole);
    }

    public void onSessionOpen(final ClientSession session, final long timestamp)
    {
    }

    public void onSessionClose(final ClientSession session, final long timestamp, final CloseReason closeReason)
    {
    }

    public void onTimerEvent(final long correlationId, final long timestamp)
    {
    }

    public void onTakeSnapshot(final ExclusivePublication snapshotPublication)
    {
    }

    public void onTerminate(final Cluster cluster)
    {
    }
}
