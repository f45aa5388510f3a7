import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.ArchivingMediaDriver;
import io.aeron.exceptions.AeronException;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import org.agrona.concurrent.SleepingMillisIdleStrategy;

import java.io.File;
import java.util.Queue;

/**
 * Aeron's archive with its driver. Says "ready", and ends with its input.
 *
 * Arguments: folder of the driver, folder of the archive, control channel, replication channel.
 */
public final class ArchiveHost
{
    public static void main(final String[] args) throws Exception
    {
        final Queue<String> commands = Peer.commands();
        final MediaDriver.Context driver = new MediaDriver.Context()
            .aeronDirectoryName(args[0])
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true)
            .threadingMode(ThreadingMode.SHARED)
            .sharedIdleStrategy(new SleepingMillisIdleStrategy(1))
            .spiesSimulateConnection(true)
            .errorHandler(Peer::fail);
        final Archive.Context archive = new Archive.Context()
            .aeronDirectoryName(args[0])
            .archiveDir(new File(args[1]))
            .controlChannel(args[2])
            .replicationChannel(args[3])
            .segmentFileLength(65536)
            .errorHandler(ArchiveHost::failUnlessWarned)
            .threadingMode(ArchiveThreadingMode.SHARED)
            .idleStrategySupplier(() -> new SleepingMillisIdleStrategy(1));
        try (ArchivingMediaDriver host = ArchivingMediaDriver.launch(driver, archive))
        {
            Peer.say("ready " + host.archive().context().archiveId());
            while (!commands.contains(Peer.END))
            {
                Thread.sleep(1);
            }
        }
        Peer.say("closed");
    }

    /** A client that is gone before its goodbye was read is worth a warning. */
    private static void failUnlessWarned(final Throwable error)
    {
        if (!(error instanceof AeronException) || AeronException.Category.WARN != ((AeronException)error).category())
        {
            Peer.fail(error);
        }
    }

    private ArchiveHost()
    {
    }
}
