import io.aeron.Publication;
import io.aeron.cluster.client.AeronCluster;
import io.aeron.cluster.client.EgressListener;
import io.aeron.cluster.codecs.AdminRequestType;
import io.aeron.cluster.codecs.AdminResponseCode;
import io.aeron.cluster.codecs.EventCode;
import io.aeron.driver.MediaDriver;
import io.aeron.logbuffer.Header;
import io.aeron.security.CredentialsSupplier;
import io.aeron.security.NullCredentialsSupplier;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

import java.nio.charset.StandardCharsets;
import java.util.Queue;

/**
 * A session of a cluster whose service echoes. Arguments: folder, "launch" or "attach", ingress endpoints or the
 * channel of an ingress without, egress channel, and perhaps credentials and the answer to a challenge. Does what its standard input says, a command a line:
 * "send N" sends N messages and says "echoed N" when all came back, in order and byte for byte;
 * "snapshot" asks for one as an administrator would;
 * "quiet" stops the keep-alives that otherwise go out every 200 ms; "close" ends the session.
 * A new leader makes it send again what was not echoed.
 */
public final class ClusterEcho implements EgressListener
{
    private static final int[] SIZES = { 1, 8, 32, 288, 1344, 1345, 1376, 4000, 100, 64, 16, 10_000, 1, 31, 1000, 2752 };
    private static final int LARGE = 100 * 1024;
    private static final int LARGE_EVERY = 100;
    private static final int WINDOW_BYTES = 256 * 1024;
    private static final long KEEP_ALIVE_NS = 200_000_000L;
    private static final long STALL_NS = 20_000_000_000L;
    private static final long MESSAGE_TIMEOUT_NS = Peer.patient(30_000_000_000L);

    private final UnsafeBuffer buffer = new UnsafeBuffer(new byte[LARGE]);
    private AeronCluster cluster;
    private long sent;
    private long received;
    private long target;
    private long inFlightBytes;
    private long resent;
    private boolean quiet;
    private long nextKeepAliveNs;
    private long timestamp;
    private long progressNs = System.nanoTime();

    public static void main(final String[] args) throws Exception
    {
        final Queue<String> commands = Peer.commands();
        final ClusterEcho echo = new ClusterEcho();
        try (MediaDriver driver = args[1].equals("launch") ? Peer.launch(args[0]) : null;
            AeronCluster cluster = AeronCluster.connect(new AeronCluster.Context()
                .aeronDirectoryName(args[0])
                .ingressChannel(args[2].startsWith("aeron:") ? args[2] : "aeron:udp")
                .ingressEndpoints(args[2].startsWith("aeron:") ? null : args[2])
                .egressChannel(args[3])
                .messageTimeoutNs(MESSAGE_TIMEOUT_NS)
                .egressListener(echo)
                .credentialsSupplier(args.length > 4 ? new Answers(args[4], args[5]) : new NullCredentialsSupplier())
                .errorHandler(Peer::fail)))
        {
            echo.cluster = cluster;
            Peer.say("connected " + cluster.clusterSessionId() + " " + cluster.leaderMemberId());
            echo.run(commands);
            Peer.say("end " + (cluster.isClosed() ? "closed" : "open") + " " + echo.resent);
        }
        Peer.say("closed");
    }

    /** Shows one text as credentials, and another when it is challenged. */
    private static final class Answers implements CredentialsSupplier
    {
        private final byte[] credentials;
        private final byte[] answer;

        Answers(final String credentials, final String answer)
        {
            this.credentials = credentials.getBytes(StandardCharsets.US_ASCII);
            this.answer = answer.getBytes(StandardCharsets.US_ASCII);
        }

        public byte[] encodedCredentials()
        {
            return credentials;
        }

        public byte[] onChallenge(final byte[] encodedChallenge)
        {
            Peer.say("challenged " + encodedChallenge.length);
            return answer;
        }
    }

    private void run(final Queue<String> commands) throws InterruptedException
    {
        while (!cluster.isClosed())
        {
            final String command = sent >= target && received >= target ? commands.poll() : null;
            if (command != null)
            {
                if (command.equals("close") || command.equals(Peer.END))
                {
                    return;
                }
                obey(command);
            }
            int work = cluster.pollEgress();
            work += send() ? 1 : 0;
            keepAlive();
            checkProgress();
            if (0 == work)
            {
                Thread.sleep(0, 200_000);
            }
        }
    }

    private void obey(final String command)
    {
        final String[] words = command.split(" ");
        switch (words[0])
        {
            case "send":
                target += Long.parseLong(words[1]);
                progressNs = System.nanoTime();
                break;
            case "quiet":
                quiet = true;
                break;
            case "time":
                Peer.say("time " + timestamp);
                break;
            case "snapshot":
                Peer.say("snapshot-requested " + cluster.sendAdminRequestToTakeASnapshot(4711));
                break;
            default:
                throw new IllegalArgumentException(command);
        }
    }

    private static int size(final long number)
    {
        return LARGE_EVERY - 1 == number % LARGE_EVERY ? LARGE : SIZES[(int)(number % SIZES.length)];
    }

    private int fill(final long number)
    {
        final int length = size(number);
        for (int i = 0; i < length; i++)
        {
            buffer.putByte(i, (byte)(number + 7L * i + (number >> 8)));
        }
        return length;
    }

    private boolean send()
    {
        if (sent >= target || inFlightBytes > WINDOW_BYTES)
        {
            return false;
        }
        final int length = fill(sent);
        final long result = cluster.offer(buffer, 0, length);
        if (result > 0)
        {
            sent++;
            inFlightBytes += length;
            return true;
        }
        if (Publication.MAX_POSITION_EXCEEDED == result)
        {
            throw new IllegalStateException("offer: " + Publication.errorString(result));
        }
        return false;
    }

    private void keepAlive()
    {
        final long nowNs = System.nanoTime();
        if (!quiet && nowNs > nextKeepAliveNs)
        {
            cluster.sendKeepAlive();
            nextKeepAliveNs = nowNs + KEEP_ALIVE_NS;
        }
    }

    private void checkProgress()
    {
        if (received < target && System.nanoTime() - progressNs > STALL_NS)
        {
            throw new IllegalStateException("no echo for 20 s: sent " + sent + ", received " + received);
        }
    }

    public void onMessage(
        final long clusterSessionId,
        final long timestamp,
        final DirectBuffer message,
        final int offset,
        final int length,
        final Header header)
    {
        if (clusterSessionId != cluster.clusterSessionId())
        {
            throw new IllegalStateException("message of session " + clusterSessionId);
        }
        final int expected = fill(received);
        if (length != expected || !matches(message, offset, length))
        {
            throw new IllegalStateException("echo " + received + ": length " + length + ", not " + expected +
                ", or other bytes");
        }
        received++;
        this.timestamp = timestamp;
        inFlightBytes -= length;
        progressNs = System.nanoTime();
        if (received == target)
        {
            Peer.say("echoed " + received);
        }
    }

    private boolean matches(final DirectBuffer message, final int offset, final int length)
    {
        for (int i = 0; i < length; i++)
        {
            if (message.getByte(offset + i) != buffer.getByte(i))
            {
                return false;
            }
        }
        return true;
    }

    public void onSessionEvent(
        final long correlationId,
        final long clusterSessionId,
        final long leadershipTermId,
        final int leaderMemberId,
        final EventCode code,
        final String detail)
    {
        Peer.say("event " + code + " " + leaderMemberId + " " + detail);
    }

    public void onNewLeader(
        final long clusterSessionId,
        final long leadershipTermId,
        final int leaderMemberId,
        final String ingressEndpoints)
    {
        resent += sent - received;
        sent = received;
        inFlightBytes = 0;
        Peer.say("new-leader " + leaderMemberId + " " + leadershipTermId);
    }

    public void onAdminResponse(
        final long clusterSessionId,
        final long correlationId,
        final AdminRequestType requestType,
        final AdminResponseCode responseCode,
        final String message,
        final DirectBuffer payload,
        final int payloadOffset,
        final int payloadLength)
    {
        Peer.say("admin " + correlationId + " " + requestType + " " + responseCode + " " + message);
    }
}
