import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.file.Files;

import io.aeron.ExclusivePublication;
import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.client.AeronArchive;
import io.aeron.exceptions.ConfigurationException;
import io.aeron.security.DefaultAuthenticatorSupplier;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A suite of an archive as Aeron's own are: the archive is started in the JVM of the test. */
public class ArchiveSuiteTest
{
    private SuiteDriver driver;
    private File folder;

    @BeforeEach
    void start() throws Exception
    {
        driver = new SuiteDriver();
        folder = Files.createTempDirectory("archive-suite").toFile();
    }

    @AfterEach
    void close() throws Exception
    {
        driver.close();
    }

    private Archive.Context context()
    {
        return new Archive.Context()
            .aeronDirectoryName(driver.folder)
            .archiveDir(folder)
            .deleteArchiveOnStart(true)
            .segmentFileLength(1 << 20)
            .threadingMode(ArchiveThreadingMode.SHARED)
            .controlChannelEnabled(false)
            .archiveClientContext(new AeronArchive.Context().controlResponseChannel("aeron:ipc"))
            .replicationChannel("aeron:udp?endpoint=localhost:0");
    }

    @Test
    void recordsAndTellsItsIdAndCounters()
    {
        try (Archive archive = Archive.launch(context()); AeronArchive client = AeronArchive.connect(
            new AeronArchive.Context().aeron(driver.aeron).controlRequestChannel("aeron:ipc")
                .controlResponseChannel("aeron:ipc")))
        {
            assertEquals(archive.context().archiveId(), client.archiveId());
            assertEquals(0, archive.context().errorCounter().get());
            try (ExclusivePublication publication = client.addRecordedExclusivePublication("aeron:ipc?alias=one", 7))
            {
                final UnsafeBuffer message = new UnsafeBuffer(new byte[32]);
                while (publication.offer(message) < 0)
                {
                    Thread.onSpinWait();
                }
                while (archive.context().totalWriteBytesCounter().get() < publication.position())
                {
                    Thread.onSpinWait();
                }
                assertEquals(1, archive.context().recordingSessionCounter().get());
            }
            client.listRecording(0, (controlSessionId, correlationId, recordingId, startTimestamp, stopTimestamp,
                startPosition, stopPosition, initialTermId, segmentFileLength, termBufferLength, mtuLength, sessionId,
                streamId, strippedChannel, originalChannel, sourceIdentity) ->
                assertEquals(1 << 20, segmentFileLength));
        }
    }

    @Test
    void isAeronsOwn()
    {
        try (Archive archive = Archive.launch(context()))
        {
            assertTrue(new File(archive.context().archiveDir(), "archive.catalog").exists());
        }
    }

    @Test
    void takesNoAuthenticatorOfTheTest()
    {
        if (null == System.getProperty("ordo.archive.program"))
        {
            return;
        }
        final Archive.Context context = context().authenticatorSupplier(new DefaultAuthenticatorSupplier());
        final String said = assertThrows(ConfigurationException.class, () -> Archive.launch(context)).getMessage();
        assertEquals("ERROR - Ordo's archive cannot be given an authenticator of its own", said);
    }
}
