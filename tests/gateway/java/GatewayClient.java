import com.google.protobuf.ByteString;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.StatusRuntimeException;
import io.grpc.health.v1.HealthCheckRequest;
import io.grpc.health.v1.HealthGrpc;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import ordo.v1.AdministrationGrpc;
import ordo.v1.Ordo;
import ordo.v1.SequencerGrpc;

import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** One of each call of a gateway, through generated code only; prints a line for each answer. */
public final class GatewayClient
{
    private static final long TIMEOUT_S = 20;

    private final SequencerGrpc.SequencerStub streams;
    private final SequencerGrpc.SequencerBlockingStub sequencer;
    private final ByteString identity;

    private GatewayClient(final ManagedChannel channel, final String token, final UUID identity)
    {
        streams = SequencerGrpc.newStub(ClientInterceptors.intercept(channel, bearer(token)));
        sequencer = SequencerGrpc.newBlockingStub(ClientInterceptors.intercept(channel, bearer(token)));
        final ByteBuffer bytes = ByteBuffer.allocate(16);
        bytes.putLong(identity.getMostSignificantBits()).putLong(identity.getLeastSignificantBits());
        this.identity = ByteString.copyFrom(bytes.array());
    }

    private static ClientInterceptor bearer(final String token)
    {
        final Metadata metadata = new Metadata();
        metadata.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer " + token);
        return MetadataUtils.newAttachHeadersInterceptor(metadata);
    }

    private SequencerGrpc.SequencerBlockingStub soon()
    {
        return sequencer.withDeadlineAfter(TIMEOUT_S, TimeUnit.SECONDS);
    }

    private static void say(final String what, final Object... values)
    {
        final StringBuilder line = new StringBuilder(what);
        for (final Object value : values)
        {
            line.append('\t').append(value);
        }
        System.out.println(line);
    }

    private Ordo.SubmitResponse submit(final long number, final String payload)
    {
        return soon().submit(Ordo.SubmitRequest.newBuilder()
            .setIdentity(identity)
            .setNumber(number)
            .setPayload(ByteString.copyFromUtf8(payload))
            .build());
    }

    /** The same number twice, as after an answer that was lost; then one that the service refuses. */
    private Ordo.SubmitResponse submitAgain()
    {
        final Ordo.SubmitResponse first = submit(1, "{\"add\": 5}");
        say("submit", first.getPayload().toStringUtf8(), first.getLogPosition());
        final Ordo.SubmitResponse again = submit(1, "{\"add\": 5}");
        say("again", again.getPayload().toStringUtf8(), again.getLogPosition());
        try
        {
            submit(2, "{\"add\": -100}");
        }
        catch (final StatusRuntimeException refused)
        {
            say("refused", refused.getStatus().getCode(), refused.getStatus().getDescription());
        }
        return first;
    }

    private void stream(final long number, final String... payloads) throws Exception
    {
        final CompletableFuture<Void> ended = new CompletableFuture<>();
        final StreamObserver<Ordo.AnswerBatch> answers = new StreamObserver<>()
        {
            public void onNext(final Ordo.AnswerBatch batch)
            {
                for (int i = 0; i < batch.getPayloadsCount(); i++)
                {
                    final Ordo.AnswerBatch.Outcome outcome =
                        batch.getOutcomesCount() == 0 ? Ordo.AnswerBatch.Outcome.EXECUTED : batch.getOutcomes(i);
                    say("answer", batch.getNumber() + i, outcome, batch.getPayloads(i).toStringUtf8());
                }
            }

            public void onError(final Throwable error)
            {
                ended.completeExceptionally(error);
            }

            public void onCompleted()
            {
                ended.complete(null);
            }
        };
        final StreamObserver<Ordo.SubmitBatch> requests =
            streams.withDeadlineAfter(TIMEOUT_S, TimeUnit.SECONDS).submitStream(answers);
        final Ordo.SubmitBatch.Builder batch =
            Ordo.SubmitBatch.newBuilder().setIdentity(identity).setNumber(number).setConfirmed(number - 1);
        for (final String payload : payloads)
        {
            batch.addPayloads(ByteString.copyFromUtf8(payload));
        }
        requests.onNext(batch.build());
        requests.onCompleted();
        ended.get(TIMEOUT_S, TimeUnit.SECONDS);
    }

    private void read(final Ordo.SubmitResponse first)
    {
        final Ordo.QueryResponse reply = soon().query(Ordo.QueryRequest.getDefaultInstance());
        say("query", reply.getPayload().toStringUtf8());
        final Iterator<Ordo.LogBatch> log =
            soon().subscribe(Ordo.SubscribeRequest.newBuilder().addKinds("request").build());
        while (log.hasNext())
        {
            for (final Ordo.LogEntry entry : log.next().getEntriesList())
            {
                if (entry.getIdentityPosition() == first.getIdentityPosition())
                {
                    say("entry", entry.getNumber(), entry.getPosition(), entry.getPayload().toStringUtf8());
                    return;
                }
            }
        }
    }

    private void follow(final Ordo.SubmitResponse first)
    {
        final Iterator<Ordo.TopicBatch> topic = soon().subscribeTopic(Ordo.SubscribeTopicRequest.newBuilder()
            .setTopic("balances")
            .setFromPosition(first.getLogPosition() - 1)
            .build());
        while (topic.hasNext())
        {
            for (final Ordo.TopicMessage message : topic.next().getMessagesList())
            {
                say("topic", message.getPosition(), message.getPayload().toStringUtf8());
                return;
            }
        }
    }

    private static void administer(final ManagedChannel channel, final String token)
    {
        final AdministrationGrpc.AdministrationBlockingStub administration =
            AdministrationGrpc.newBlockingStub(ClientInterceptors.intercept(channel, bearer(token)))
                .withDeadlineAfter(TIMEOUT_S, TimeUnit.SECONDS);
        for (final Ordo.Member member : administration.status(Ordo.StatusRequest.getDefaultInstance()).getMembersList())
        {
            say("member", member.getMemberId(), member.getRole());
        }
        administration.takeSnapshot(Ordo.TakeSnapshotRequest.getDefaultInstance());
        say("snapshot");
    }

    /** Arguments: the gateway's address, a client's token, an operator's token, the identity as a UUID. */
    public static void main(final String[] arguments) throws Exception
    {
        final ManagedChannel channel =
            Grpc.newChannelBuilder(arguments[0], InsecureChannelCredentials.create()).build();
        say("health", HealthGrpc.newBlockingStub(channel)
            .withDeadlineAfter(TIMEOUT_S, TimeUnit.SECONDS)
            .check(HealthCheckRequest.getDefaultInstance())
            .getStatus());
        final GatewayClient client = new GatewayClient(channel, arguments[1], UUID.fromString(arguments[3]));
        final Ordo.SubmitResponse first = client.submitAgain();
        client.stream(3, "{\"add\": 1}", "{\"add\": -100}", "{\"add\": 1}");
        client.read(first);
        client.follow(first);
        administer(channel, arguments[2]);
        channel.shutdownNow().awaitTermination(TIMEOUT_S, TimeUnit.SECONDS);
    }
}
