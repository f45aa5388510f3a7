import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.aeron.Aeron;
import io.aeron.Publication;
import io.aeron.Subscription;
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
    private SuiteDriver driver;
    private Aeron aeron;

    @BeforeEach
    void start() throws Exception
    {
        driver = new SuiteDriver();
        aeron = driver.aeron;
    }

    @AfterEach
    void close() throws Exception
    {
        driver.close();
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
            assertEquals(SuiteDriver.TERM_LENGTH, publication.termBufferLength());
        }
    }

    @Test
    void failsWithAeron()
    {
        assertTrue(null != SuiteDriver.PROGRAM, "wants another driver");
    }

    @Test
    void failsWithOrdo()
    {
        assertEquals(null, SuiteDriver.PROGRAM, "wants Aeron's driver");
    }
}
