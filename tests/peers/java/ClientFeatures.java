import io.aeron.Aeron;
import io.aeron.ChannelUri;
import io.aeron.Counter;
import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.exceptions.RegistrationException;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.status.CountersReader;

import java.lang.reflect.Method;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.BooleanSupplier;

/**
 * Asks somebody else's driver for what goes beyond plain streams, and says "ok" and a name for each. What a release of
 * Aeron has no call for is left out.
 *
 * Arguments: folder.
 */
public final class ClientFeatures
{
    private static final long TIMEOUT_NS = Peer.patient(10_000_000_000L);
    private static final int STREAM_ID = 10;
    private static final int COUNTER_TYPE_ID = 1001;
    private static final int DESTINATIONS_TYPE_ID = 18;
    private static final String LOCAL = "aeron:udp?endpoint=127.0.0.1:0";

    private final Aeron aeron;
    private final ConcurrentLinkedQueue<String> news;

    private ClientFeatures(final Aeron aeron, final ConcurrentLinkedQueue<String> news)
    {
        this.aeron = aeron;
        this.news = news;
    }

    public static void main(final String[] args) throws Exception
    {
        final ConcurrentLinkedQueue<String> news = new ConcurrentLinkedQueue<>();
        try (Aeron aeron = Aeron.connect(new Aeron.Context()
            .aeronDirectoryName(args[0])
            .availableCounterHandler((counters, registrationId, id) -> news.add("up " + id))
            .unavailableCounterHandler((counters, registrationId, id) -> news.add("down " + id))
            .publicationErrorFrameHandler((frame) -> news.add("refused " + frame.errorMessage()))
            .errorHandler(Peer::fail)))
        {
            final ClientFeatures features = new ClientFeatures(aeron, news);
            features.counters(args[0]);
            features.destinations();
            features.sockets();
            features.errors();
            features.spies();
            features.rejections();
            features.sessions();
            features.revocations();
        }
        Peer.say("done");
    }

    private void counters(final String folder) throws Exception
    {
        final int own;
        final int fixed;
        try (Aeron other = Aeron.connect(new Aeron.Context().aeronDirectoryName(folder)))
        {
            final Counter counter = other.addCounter(COUNTER_TYPE_ID, "goes");
            own = counter.id();
            await("news of a counter", () -> news.contains("up " + own));
            final Counter stays = other.addStaticCounter(COUNTER_TYPE_ID, "stays", 4711);
            stays.set(42);
            fixed = stays.id();
        }
        await("the end of a counter", () -> news.contains("down " + own));
        final Counter again = aeron.addStaticCounter(COUNTER_TYPE_ID, "stays", 4711);
        demand("the same counter", again.id() == fixed && again.get() == 42);
        Peer.say("ok counters");
    }

    private void destinations() throws Exception
    {
        try (Subscription subscription = aeron.addSubscription(LOCAL, STREAM_ID);
            Publication publication = aeron.addPublication("aeron:udp?control-mode=manual", STREAM_ID);
            Subscription many = aeron.addSubscription("aeron:udp?control-mode=manual", STREAM_ID + 1))
        {
            final long id = publication.asyncAddDestination(channelOf(subscription));
            await("a destination", () -> !aeron.isCommandActive(id) && publication.isConnected());
            publication.removeDestination(id);
            await("no destination", () -> 0 == valueOf(DESTINATIONS_TYPE_ID));
            many.addDestination(LOCAL);
            final String bound = "aeron:udp?endpoint=" + many.localSocketAddresses().get(0);
            try (Publication single = aeron.addPublication(bound, STREAM_ID + 1))
            {
                await("a source", () -> single.isConnected() && many.isConnected());
                many.removeDestination(LOCAL);
                await("no source", () -> many.localSocketAddresses().isEmpty());
            }
        }
        Peer.say("ok destinations");
    }

    private void sockets() throws Exception
    {
        try (Subscription subscription = aeron.addSubscription(LOCAL, STREAM_ID))
        {
            final String channel = channelOf(subscription);
            final String endpoint = ChannelUri.parse(channel).get("endpoint");
            demand("an active channel", subscription.channelStatus() == 1);
            demand("a port: " + endpoint, !endpoint.endsWith(":0"));
            demand("the address", subscription.localSocketAddresses().contains(endpoint));
        }
        Peer.say("ok sockets");
    }

    private void errors()
    {
        try
        {
            aeron.addPublication("aeron:udp?endpoint=127.0.0.1:1|mtu=100000", STREAM_ID);
            throw new IllegalStateException("it was accepted");
        }
        catch (final RegistrationException error)
        {
            demand(error.getMessage(), error.getMessage().contains("mtu=100000"));
        }
        Peer.say("ok errors");
    }

    private void spies() throws Exception
    {
        final UnsafeBuffer message = new UnsafeBuffer(new byte[100]);
        final String channel = "aeron:udp?endpoint=127.0.0.1:9|ssc=true";
        final int[] count = new int[1];
        try (Subscription spy = aeron.addSubscription("aeron-spy:aeron:udp?endpoint=127.0.0.1:9", STREAM_ID);
            Publication publication = aeron.addPublication(channel, STREAM_ID))
        {
            await("a spy", () -> spy.isConnected() && publication.isConnected());
            await("room", () -> publication.offer(message) > 0);
            await("the message", () ->
            {
                spy.poll((buffer, offset, length, header) -> count[0] += length, 10);
                return count[0] == 100;
            });
        }
        Peer.say("ok spies");
    }

    private void rejections() throws Exception
    {
        try (Subscription subscription = aeron.addSubscription(LOCAL, STREAM_ID);
            Publication publication = aeron.addPublication(channelOf(subscription), STREAM_ID))
        {
            await("an image", () -> subscription.imageCount() == 1 && publication.isConnected());
            final Method reject = Image.class.getDeclaredMethod("reject", String.class);
            reject.setAccessible(true);
            reject.invoke(subscription.imageAtIndex(0), "not wanted here");
            await("the reason", () -> news.stream().anyMatch((text) -> text.startsWith("refused ") &&
                text.contains("not wanted here")));
        }
        Peer.say("ok rejections");
    }

    private void sessions() throws Exception
    {
        final Method next;
        try
        {
            next = Aeron.class.getMethod("nextSessionId", int.class);
        }
        catch (final NoSuchMethodException notYet)
        {
            return;
        }
        final Set<Integer> used = new HashSet<>();
        for (int i = 0; i < 3; i++)
        {
            used.add(aeron.addExclusivePublication("aeron:ipc", STREAM_ID + 2).sessionId());
        }
        demand("a free session", !used.contains((Integer)next.invoke(aeron, STREAM_ID + 2)));
        Peer.say("ok sessions");
    }

    private void revocations() throws Exception
    {
        final Method revoke;
        final Method isRevoked;
        try
        {
            revoke = ExclusivePublication.class.getMethod("revoke");
            isRevoked = Image.class.getMethod("isPublicationRevoked");
        }
        catch (final NoSuchMethodException notYet)
        {
            return;
        }
        try (Subscription subscription = aeron.addSubscription(LOCAL, STREAM_ID))
        {
            final ExclusivePublication publication =
                aeron.addExclusivePublication(channelOf(subscription), STREAM_ID);
            await("an image", () -> subscription.imageCount() == 1 && publication.isConnected());
            final Image image = subscription.imageAtIndex(0);
            revoke.invoke(publication);
            await("the end", () -> subscription.imageCount() == 0);
            demand("a revoked image", (Boolean)isRevoked.invoke(image));
        }
        Peer.say("ok revocations");
    }

    private long valueOf(final int typeId)
    {
        final CountersReader counters = aeron.countersReader();
        final long[] value = { -1 };
        counters.forEach((id, type, key, label) ->
        {
            if (type == typeId)
            {
                value[0] = counters.getCounterValue(id);
            }
        });
        return value[0];
    }

    private static String channelOf(final Subscription subscription) throws Exception
    {
        final String[] channel = new String[1];
        await("a port", () -> (channel[0] = subscription.tryResolveChannelEndpointPort()) != null);
        return channel[0];
    }

    private static void await(final String what, final BooleanSupplier condition) throws Exception
    {
        final long deadlineNs = System.nanoTime() + TIMEOUT_NS;
        while (!condition.getAsBoolean())
        {
            demand(what + " in time", System.nanoTime() < deadlineNs);
            Thread.sleep(1);
        }
    }

    private static void demand(final String what, final boolean isSo)
    {
        if (!isSo)
        {
            throw new IllegalStateException("not " + what);
        }
    }
}
