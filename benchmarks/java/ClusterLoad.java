import io.aeron.Aeron;
import io.aeron.Publication;
import io.aeron.RethrowingErrorHandler;
import io.aeron.cluster.client.AeronCluster;
import io.aeron.cluster.client.EgressListener;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.Header;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.AgentInvoker;
import org.agrona.concurrent.UnsafeBuffer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * A session of a cluster whose service echoes; its driver runs on its own thread. For each line "load BYTES WINDOW
 * COUNT" it sends that many messages, up to a window of them on the way, takes every echo, and says "load COUNT NS
 * P50_NS P99_NS". A message begins with its number and the time at which it left. Ends with its standard input.
 *
 * Arguments: folder, ingress endpoints, MTU.
 */
public final class ClusterLoad implements EgressListener
{
    private static final long CHORE_NS = 1_000_000;
    private static final long KEEP_ALIVE_NS = 1_000_000_000L;
    private static final long SILENCE_NS = 20_000_000_000L;
    private static final int SAMPLES_MAX = 1 << 20;

    private final ConcurrentLinkedQueue<String> commands = new ConcurrentLinkedQueue<>();
    private final UnsafeBuffer payload = new UnsafeBuffer(new byte[1 << 16]);
    private final long[] timesNs = new long[SAMPLES_MAX];
    private AgentInvoker driver;
    private AgentInvoker client;
    private long choreNs;
    private AeronCluster cluster;
    private volatile boolean ended;
    private long sent;
    private long received;
    private int samples;
    private long keptNs;
    private int length;

    public static void main(final String[] args) throws Exception
    {
        final ClusterLoad load = new ClusterLoad();
        try (MediaDriver driver = MediaDriver.launch(new MediaDriver.Context()
            .aeronDirectoryName(args[0])
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true)
            .threadingMode(ThreadingMode.INVOKER)
            .mtuLength(Integer.parseInt(args[2]))
            .initialWindowLength(1 << 20)
            .socketRcvbufLength(2 << 20)
            .socketSndbufLength(2 << 20));
            Aeron aeron = Aeron.connect(new Aeron.Context()
                .aeronDirectoryName(args[0])
                .driverAgentInvoker(driver.sharedAgentInvoker())
                .useConductorAgentInvoker(true)
                .subscriberErrorHandler(RethrowingErrorHandler.INSTANCE));
            AeronCluster cluster = AeronCluster.connect(new AeronCluster.Context()
                .aeron(aeron)
                .ownsAeronClient(false)
                .agentInvoker(driver.sharedAgentInvoker())
                .ingressChannel("aeron:udp?term-length=4m")
                .ingressEndpoints(args[1])
                .egressChannel("aeron:udp?endpoint=127.0.0.1:0")
                .messageTimeoutNs(30_000_000_000L)
                .egressListener(load)))
        {
            load.driver = driver.sharedAgentInvoker();
            load.client = aeron.conductorAgentInvoker();
            load.cluster = cluster;
            System.out.println("ready");
            load.run();
        }
    }

    private void run() throws InterruptedException
    {
        final Thread reader = new Thread(this::read);
        reader.setDaemon(true);
        reader.start();
        while (!ended)
        {
            final String command = commands.poll();
            if (command == null)
            {
                cycle(System.nanoTime());
                Thread.sleep(1);
                continue;
            }
            final String[] words = command.split(" ");
            load(Integer.parseInt(words[1]), Integer.parseInt(words[2]), Integer.parseInt(words[3]));
        }
    }

    private void read()
    {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in)))
        {
            for (String line = input.readLine(); line != null; line = input.readLine())
            {
                commands.add(line);
            }
        }
        catch (final java.io.IOException error)
        {
            error.printStackTrace();
        }
        ended = true;
    }

    private void cycle(final long nowNs)
    {
        driver.invoke();
        cluster.pollEgress();
        if (nowNs >= choreNs)
        {
            client.invoke();
            choreNs = nowNs + CHORE_NS;
        }
        if (nowNs > keptNs + KEEP_ALIVE_NS)
        {
            cluster.sendKeepAlive();
            keptNs = nowNs;
        }
    }

    private void load(final int length, final int window, final int count)
    {
        this.length = length;
        sent = 0;
        received = 0;
        samples = 0;
        final long startNs = System.nanoTime();
        long heardNs = startNs;
        while (received < count)
        {
            final long before = received;
            while (sent < count && sent - received < window)
            {
                payload.putLong(0, sent);
                payload.putLong(8, System.nanoTime());
                final long result = cluster.offer(payload, 0, length);
                if (result == Publication.CLOSED || result == Publication.MAX_POSITION_EXCEEDED)
                {
                    throw new IllegalStateException("offer: " + Publication.errorString(result));
                }
                if (result < 0)
                {
                    break;
                }
                sent++;
            }
            final long nowNs = System.nanoTime();
            cycle(nowNs);
            if (received > before)
            {
                heardNs = nowNs;
            }
            else
            {
                Thread.yield();
                if (nowNs - heardNs > SILENCE_NS)
                {
                    throw new IllegalStateException("no echo for 20 s: sent " + sent + ", received " + received);
                }
            }
        }
        final long tookNs = System.nanoTime() - startNs;
        Arrays.sort(timesNs, 0, samples);
        System.out.println("load " + count + " " + tookNs + " " + timesNs[samples / 2] + " " +
            timesNs[(int)(samples * 99L / 100)]);
    }

    public void onMessage(
        final long clusterSessionId,
        final long timestamp,
        final DirectBuffer message,
        final int offset,
        final int length,
        final Header header)
    {
        if (length != this.length || message.getLong(offset) != received)
        {
            throw new IllegalStateException("echo " + received + ": length " + length + ", not " + this.length +
                ", or another number");
        }
        received++;
        if (samples < SAMPLES_MAX)
        {
            timesNs[samples++] = System.nanoTime() - message.getLong(offset + 8);
        }
    }
}
