import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.util.Map;
import java.util.concurrent.TimeUnit;

import io.aeron.Aeron;
import io.aeron.CommonContext;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import io.aeron.logbuffer.FragmentHandler;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A suite as Aeron's own are: it starts the driver that a system property names, or Aeron's in this JVM. */
public class DriverSuiteTest
{
    private static final String DRIVER = System.getProperty("aeron.test.system.aeronmd.path");
    private static final int TERM_LENGTH = 128 * 1024;

    private final String folder = CommonContext.generateRandomDirName();
    private MediaDriver driver;
    private Process process;
    private Aeron aeron;
    private File errors;

    @BeforeEach
    void start() throws Exception
    {
        if (null == DRIVER)
        {
            final MediaDriver.Context context = new MediaDriver.Context().aeronDirectoryName(folder)
                .ipcTermBufferLength(TERM_LENGTH).dirDeleteOnShutdown(true);
            driver = MediaDriver.launch(context);
        }
        else
        {
            final ProcessBuilder builder = new ProcessBuilder(DRIVER, "-Daeron.driver.termination.validator=allow");
            builder.environment().putAll(Map.of(
                "AERON_DIR", folder,
                "AERON_IPC_TERM_BUFFER_LENGTH", String.valueOf(TERM_LENGTH),
                "AERON_DIR_DELETE_ON_SHUTDOWN", "true",
                "AERON_THREADING_MODE", "SHARED",
                "AERON_SHARED_IDLE_STRATEGY", "yield",
                "AERON_TIMER_INTERVAL", "100000000"));
            errors = File.createTempFile("driver", ".err");
            process = builder.inheritIO().redirectError(errors).start();
        }
        aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(folder).driverTimeoutMs(30_000));
    }

    @AfterEach
    void close() throws Exception
    {
        aeron.close();
        if (null != driver)
        {
            driver.close();
            return;
        }
        CommonContext.requestDriverTermination(new File(folder), null, 0, 0);
        assertTrue(process.waitFor(30, TimeUnit.SECONDS));
        assertEquals(0, process.exitValue());
        assertEquals(0, errors.length(), "standard error");  // as Aeron's own tests demand
        assertTrue(errors.delete());
    }

    @ParameterizedTest
    @ValueSource(strings = {"aeron:ipc", "aeron:udp?endpoint=localhost:0"})
    void echoes(final String channel)
    {
        try (Subscription subscription = aeron.addSubscription(channel, 7))
        {
            String target = channel;
            while (channel.startsWith("aeron:udp") && null == (target = subscription.tryResolveChannelEndpointPort()))
            {
                Thread.onSpinWait();
            }
            try (Publication publication = aeron.addPublication(target, 7))
            {
                final UnsafeBuffer message = new UnsafeBuffer(new byte[32]);
                message.putLong(0, 42);
                while (publication.offer(message) < 0)
                {
                    Thread.onSpinWait();
                }
                final long[] got = new long[1];
                final FragmentHandler handler = (buffer, offset, length, header) -> got[0] = buffer.getLong(offset);
                while (0 == subscription.poll(handler, 1))
                {
                    Thread.onSpinWait();
                }
                assertEquals(42, got[0]);
            }
        }
    }

    @Test
    void hasTheTermLengthThatWasSet()
    {
        try (Publication publication = aeron.addPublication("aeron:ipc", 7))
        {
            assertEquals(TERM_LENGTH, publication.termBufferLength());
        }
    }

    @Test
    void failsWithAeron()
    {
        assertTrue(null != DRIVER, "wants another driver");
    }

    @Test
    void failsWithOrdo()
    {
        assertEquals(null, DRIVER, "wants Aeron's driver");
    }
}
