import io.aeron.Aeron;
import io.aeron.ChannelUriStringBuilder;
import io.aeron.ExclusivePublication;
import io.aeron.FragmentAssembler;
import io.aeron.Image;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import org.agrona.concurrent.UnsafeBuffer;

import java.util.HashMap;
import java.util.Map;
import java.util.Queue;

/**
 * One end of a response channel: folder, "responder" or "requester", request channel and stream, control address of
 * the responses, their stream, and how many messages a requester sends.
 */
public final class ResponseStream
{
    private final Queue<String> commands = Peer.commands();
    private final Aeron aeron;
    private final String requests;
    private final int requestStream;
    private final String control;
    private final int responseStream;

    private ResponseStream(final Aeron aeron, final String[] args)
    {
        this.aeron = aeron;
        requests = args[2];
        requestStream = Integer.parseInt(args[3]);
        control = args[4];
        responseStream = Integer.parseInt(args[5]);
    }

    public static void main(final String[] args)
    {
        System.setProperty("aeron.enable.experimental.features", "true"); // what they were in 1.47
        try (MediaDriver driver = Peer.launch(args[0]);
            Aeron aeron = Aeron.connect(new Aeron.Context()
                .aeronDirectoryName(driver.aeronDirectoryName()).errorHandler(Peer::fail)))
        {
            final ResponseStream stream = new ResponseStream(aeron, args);
            if ("responder".equals(args[1]))
            {
                stream.respond();
            }
            else
            {
                stream.request(Integer.parseInt(args[6]));
            }
        }
        Peer.say("closed");
    }

    private ChannelUriStringBuilder response()
    {
        return new ChannelUriStringBuilder().media("udp").controlMode("response").controlEndpoint(control);
    }

    /** Sends each requester its own messages back until the input ends. */
    private void respond()
    {
        final Map<Long, ExclusivePublication> publications = new HashMap<>();
        final Map<Long, FragmentAssembler> assemblers = new HashMap<>();
        try (Subscription subscription = aeron.addSubscription(requests, requestStream))
        {
            Peer.say("ready");
            while (!Peer.END.equals(commands.peek()))
            {
                for (final Image image : subscription.images())
                {
                    final ExclusivePublication publication = publications.computeIfAbsent(
                        image.correlationId(),
                        (id) -> aeron.addExclusivePublication(
                            response().responseCorrelationId(id).build(), responseStream));
                    if (publication.isConnected())
                    {
                        image.poll(assemblers.computeIfAbsent(image.correlationId(), (id) -> echo(publication)), 10);
                    }
                }
                Thread.yield();
            }
        }
        publications.values().forEach(ExclusivePublication::close);
    }

    private static FragmentAssembler echo(final ExclusivePublication publication)
    {
        return new FragmentAssembler((buffer, offset, length, header) ->
        {
            while (publication.offer(buffer, offset, length) < 0 && publication.isConnected())
            {
                Thread.yield();
            }
        });
    }

    /** Sends numbered messages, one at a time, and demands each of them back. */
    private void request(final int count)
    {
        final UnsafeBuffer message = new UnsafeBuffer(new byte[64]);
        final int[] echoed = {0};
        try (Subscription responses = aeron.addSubscription(response().build(), responseStream);
            ExclusivePublication publication = aeron.addExclusivePublication(
                new ChannelUriStringBuilder(requests).responseCorrelationId(responses.registrationId()).build(),
                requestStream))
        {
            while (!publication.isConnected() || !responses.isConnected())
            {
                Thread.yield();
            }
            Peer.say("ready");
            for (int i = 0; i < count; i++)
            {
                message.putInt(0, i);
                while (publication.offer(message) < 0)
                {
                    Thread.yield();
                }
                while (echoed[0] == i)
                {
                    responses.poll((buffer, offset, length, header) ->
                    {
                        if (buffer.getInt(offset) != echoed[0]++)
                        {
                            Peer.fail(new IllegalStateException("another message came back"));
                        }
                    }, 10);
                }
            }
            Peer.say("echoed " + echoed[0]);
            while (!Peer.END.equals(commands.peek()))
            {
                Thread.yield();
            }
        }
    }
}
