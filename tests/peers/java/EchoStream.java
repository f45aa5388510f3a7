import io.aeron.Aeron;
import io.aeron.FragmentAssembler;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import io.aeron.logbuffer.Header;
import org.agrona.DirectBuffer;

import java.util.Queue;

/**
 * Sends every message of one stream back on another. Says "ready", and images as they come and go. A line on its
 * standard input makes it say "echoed N" and close its publication, the end of the input makes it close the rest.
 *
 * Arguments: folder, "launch" (a driver of its own) or "attach" (somebody else's), channel and stream it reads, channel
 * and stream it answers on, "exclusive" or "concurrent".
 */
public final class EchoStream
{
    private static final long OFFER_TIMEOUT_NS = Peer.patient(20_000_000_000L);

    private final Publication publication;
    private long echoed;

    private EchoStream(final Publication publication)
    {
        this.publication = publication;
    }

    public static void main(final String[] args) throws Exception
    {
        final Queue<String> commands = Peer.commands();
        try (MediaDriver driver = args[1].equals("launch") ? Peer.launch(args[0]) : null;
            Aeron aeron = Aeron.connect(new Aeron.Context()
                .aeronDirectoryName(args[0])
                .clientName("java-echo")
                .errorHandler(Peer::fail));
            Subscription subscription = aeron.addSubscription(
                args[2],
                Integer.parseInt(args[3]),
                (image) -> Peer.say("image " + image.sessionId() + " " + image.sourceIdentity()),
                (image) -> Peer.say("image-gone " + image.sessionId() + " " + image.isEndOfStream()));
            Publication publication = args[6].equals("exclusive") ?
                aeron.addExclusivePublication(args[4], Integer.parseInt(args[5])) :
                aeron.addPublication(args[4], Integer.parseInt(args[5])))
        {
            Peer.say("ready");
            final EchoStream echo = new EchoStream(publication);
            final FragmentAssembler assembler = new FragmentAssembler(echo::onMessage);
            while (commands.isEmpty())
            {
                if (0 == subscription.poll(assembler, 64))
                {
                    Thread.sleep(0, 200_000);
                }
            }
            Peer.say("echoed " + echo.echoed);
            publication.close();
            while (!commands.contains(Peer.END))
            {
                Thread.sleep(1);
            }
        }
        Peer.say("closed");
    }

    private void onMessage(final DirectBuffer buffer, final int offset, final int length, final Header header)
    {
        final long deadlineNs = System.nanoTime() + OFFER_TIMEOUT_NS;
        long result;
        while ((result = publication.offer(buffer, offset, length)) < 0)
        {
            if (Publication.CLOSED == result || System.nanoTime() > deadlineNs)
            {
                throw new IllegalStateException("offer: " + Publication.errorString(result));
            }
            Thread.yield();
        }
        echoed++;
    }
}
