import io.aeron.Aeron;
import io.aeron.ExclusivePublication;
import io.aeron.FragmentAssembler;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.FragmentHandler;
import io.aeron.logbuffer.Header;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.AgentInvoker;
import org.agrona.concurrent.UnsafeBuffer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * One end of a pair of streams: what `benchmarks/stream_peer.py` is for Ordo, with the same lines in and out.
 *
 * Arguments: "near" or "far", folder, "launch" (a driver on this thread) or "attach", channel it sends on, channel it
 * receives from, longest message.
 */
public final class StreamPeer
{
    private static final int STREAM_THERE = 1001;
    private static final int STREAM_BACK = 1002;
    private static final int HEAD = 16;
    private static final long FLAG = 1;
    private static final int POLL_LIMIT = 256;
    private static final int BATCH_BYTES = 65536;
    private static final int BATCH_MAX = 256;
    private static final long CHORE_NS = 1_000_000;
    private static final long QUIET_NS = 5_000_000;
    private static final long SLICE_NS = 20_000_000;
    private static final long SILENCE_NS = 10_000_000_000L;
    private static final int SAMPLES_MAX = 1 << 20;

    private final ConcurrentLinkedQueue<String> commands = new ConcurrentLinkedQueue<>();
    private final AgentInvoker driver;
    private final AgentInvoker client;
    private final ExclusivePublication publication;
    private final Subscription subscription;
    private final UnsafeBuffer payload;
    private final UnsafeBuffer count = new UnsafeBuffer(new byte[8]);
    private final long[] timesNs = new long[SAMPLES_MAX];
    private final FragmentHandler farHandler = new FragmentAssembler(this::onMessage);
    private final FragmentHandler nearHandler = new FragmentAssembler(this::onAnswer);
    private volatile boolean ended;
    private long nowNs;
    private long choreNs;
    private long sent;
    private long received;
    private long answer;
    private boolean answered;

    private StreamPeer(
        final AgentInvoker driver,
        final AgentInvoker client,
        final ExclusivePublication publication,
        final Subscription subscription,
        final int lengthMax)
    {
        this.driver = driver;
        this.client = client;
        this.publication = publication;
        this.subscription = subscription;
        this.payload = new UnsafeBuffer(new byte[lengthMax]);
    }

    public static void main(final String[] args) throws Exception
    {
        try (MediaDriver driver = args[2].equals("launch") ? launch(args[1]) : null)
        {
            final Aeron.Context context = new Aeron.Context()
                .aeronDirectoryName(args[1])
                .useConductorAgentInvoker(true);
            if (driver != null)
            {
                context.driverAgentInvoker(driver.sharedAgentInvoker());
            }
            try (Aeron aeron = Aeron.connect(context))
            {
                final boolean near = args[0].equals("near");
                final Subscription subscription = aeron.addSubscription(args[4], near ? STREAM_BACK : STREAM_THERE);
                final ExclusivePublication publication = aeron.addExclusivePublication(
                    args[3], near ? STREAM_THERE : STREAM_BACK);
                new StreamPeer(
                    driver == null ? null : driver.sharedAgentInvoker(),
                    aeron.conductorAgentInvoker(),
                    publication,
                    subscription,
                    Integer.parseInt(args[5])).run(near);
            }
        }
    }

    private static MediaDriver launch(final String directory)
    {
        return MediaDriver.launch(new MediaDriver.Context()
            .aeronDirectoryName(directory)
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true)
            .threadingMode(ThreadingMode.INVOKER)
            .initialWindowLength(1 << 20)
            .socketRcvbufLength(2 << 20)
            .socketSndbufLength(2 << 20));
    }

    private void run(final boolean near)
    {
        final Thread reader = new Thread(this::read);
        reader.setDaemon(true);
        reader.start();
        while (!(publication.isConnected() && subscription.isConnected()) && !ended)
        {
            cycle();
            LockSupport.parkNanos(CHORE_NS);
        }
        System.out.println("ready");
        while (!ended)
        {
            if (near)
            {
                obey();
            }
            else
            {
                serve();
            }
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

    private void obey()
    {
        final String command = commands.poll();
        if (command == null)
        {
            cycle();
            LockSupport.parkNanos(CHORE_NS);
            return;
        }
        final String[] words = command.split(" ");
        final int length = Integer.parseInt(words[1]);
        final long durationNs = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(words[2]));
        if (words[0].equals("trips"))
        {
            final int samples = roundTrips(length, durationNs);
            Arrays.sort(timesNs, 0, samples);
            System.out.println("trips " + samples + " " + timesNs[samples / 2] + " " + timesNs[samples * 99 / 100]);
        }
        else
        {
            stream(length, durationNs);
        }
    }

    private void cycle()
    {
        nowNs = System.nanoTime();
        if (driver != null)
        {
            driver.invoke();
        }
        if (nowNs >= choreNs)
        {
            client.invoke();
            choreNs = nowNs + CHORE_NS;
        }
    }

    private void serve()
    {
        nowNs = System.nanoTime();
        final long endNs = nowNs + SLICE_NS;
        long heardNs = nowNs;
        while (nowNs < endNs || nowNs - heardNs < QUIET_NS)
        {
            if (subscription.poll(farHandler, POLL_LIMIT) > 0)
            {
                heardNs = nowNs;
            }
            else if (nowNs - heardNs > QUIET_NS)
            {
                LockSupport.parkNanos(CHORE_NS);
            }
            else
            {
                Thread.yield();
            }
            cycle();
        }
    }

    private void onMessage(final DirectBuffer buffer, final int offset, final int length, final Header header)
    {
        received++;
        if (buffer.getLong(offset + 8) == FLAG)
        {
            count.putLong(0, received);
            final long deadlineNs = nowNs + SILENCE_NS;
            while (publication.offer(count, 0, 8, buffer, offset + 8, length - 8) <= 0)
            {
                cycle();
                check(deadlineNs, "an answer found no room");
            }
        }
    }

    private void onAnswer(final DirectBuffer buffer, final int offset, final int length, final Header header)
    {
        answer = buffer.getLong(offset);
        answered = true;
    }

    private void check(final long deadlineNs, final String what)
    {
        if (nowNs > deadlineNs)
        {
            throw new IllegalStateException(what + " for 10 s");
        }
    }

    private void ask(final int length)
    {
        payload.putLong(0, sent);
        payload.putLong(8, FLAG);
        final long deadlineNs = System.nanoTime() + SILENCE_NS;
        while (publication.offer(payload, 0, length) <= 0)
        {
            cycle();
            check(deadlineNs, "a message found no room");
        }
        sent++;
        answered = false;
        cycle();
        while (subscription.poll(nearHandler, POLL_LIMIT) == 0 || !answered)
        {
            Thread.yield();
            cycle();
            check(deadlineNs, "no answer");
        }
        if (answer != sent)
        {
            throw new IllegalStateException("the far end received " + answer + " messages, expected " + sent);
        }
    }

    private int roundTrips(final int length, final long durationNs)
    {
        long startNs = System.nanoTime();
        final long endNs = startNs + durationNs;
        int samples = 0;
        while (startNs < endNs && samples < SAMPLES_MAX)
        {
            ask(length);
            final long doneNs = System.nanoTime();
            timesNs[samples++] = doneNs - startNs;
            startNs = doneNs;
        }
        return samples;
    }

    private void stream(final int length, final long durationNs)
    {
        final int batch = Math.max(1, Math.min(BATCH_MAX, BATCH_BYTES / length));
        final long before = sent;
        final long startNs = System.nanoTime();
        nowNs = startNs;
        payload.putLong(8, 0);
        while (nowNs < startNs + durationNs)
        {
            int taken = 0;
            while (taken < batch)
            {
                payload.putLong(0, sent);
                final long result = publication.offer(payload, 0, length);
                if (result <= 0 && result != Publication.ADMIN_ACTION)
                {
                    break;
                }
                if (result > 0)
                {
                    sent++;
                    taken++;
                }
            }
            if (taken == 0)
            {
                Thread.yield();
            }
            cycle();
        }
        ask(length);
        System.out.println("stream " + (sent - before) + " " + (System.nanoTime() - startNs));
    }
}
