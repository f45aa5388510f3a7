import com.google.protobuf.ByteString;
import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsChannelCredentials;
import io.grpc.stub.AbstractStub;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import ordo.v1.ConsumersGrpc;
import ordo.v1.Ordo;
import ordo.v1.SequencerGrpc;

/**
 * A caller of Ordo gateways (docs/GATEWAY.md).
 *
 * <pre>
 * Client submit IDENTITY < requests    line N is request N of the identity, 32 hexadecimal digits
 * Client watch TOPIC SEQUENCE          what is published to a topic, from a number on
 * Client consume NAME                  as a member of the shared durable consumer NAME
 * </pre>
 *
 * ORDO_GATEWAYS is HOST:PORT,HOST:PORT; ORDO_TOKEN a token of the cluster; ORDO_CA a PEM file, for TLS.
 */
public final class Client {
    private static final long TIMEOUT_S = 5;

    private final List<ManagedChannel> channels = new ArrayList<>();
    private int current;

    private Client() throws Exception {
        String ca = System.getenv("ORDO_CA");
        ChannelCredentials security = ca == null
            ? InsecureChannelCredentials.create()
            : TlsChannelCredentials.newBuilder().trustManager(new File(ca)).build();
        for (String address : System.getenv("ORDO_GATEWAYS").split(",")) {
            channels.add(Grpc.newChannelBuilder(address, security).keepAliveTime(20, TimeUnit.SECONDS).build());
        }
    }

    private interface Call<T> {
        T make(ManagedChannel gateway) throws InterruptedException;
    }

    /** Makes a call, again and at the next gateway for as long as its outcome is unknown or nobody can take it. */
    private <T> T call(Call<T> call) throws InterruptedException {
        while (true) {
            try {
                return call.make(channels.get(current));
            } catch (StatusRuntimeException error) {
                switch (error.getStatus().getCode()) {
                    case UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED -> System.err.println(error.getMessage());
                    default -> throw error;
                }
                current = (current + 1) % channels.size();
                Thread.sleep(200);
            }
        }
    }

    private static <S extends AbstractStub<S>> S withToken(S stub) {
        Metadata metadata = new Metadata();
        Metadata.Key<String> name = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
        metadata.put(name, "Bearer " + System.getenv("ORDO_TOKEN"));
        return stub.withInterceptors(MetadataUtils.newAttachHeadersInterceptor(metadata));
    }

    private static SequencerGrpc.SequencerBlockingStub sequencer(ManagedChannel gateway) {
        return withToken(SequencerGrpc.newBlockingStub(gateway));
    }

    /**
     * The same identity and number make a request the same: however often it is sent, it is executed once. So a program
     * that was killed is started again with the same identity and lines.
     */
    private void submit(ByteString identity) throws Exception {
        Ordo.OpenIdentityRequest open = Ordo.OpenIdentityRequest.newBuilder().setIdentity(identity).build();
        Ordo.OpenIdentityResponse opened = call(gateway ->
            sequencer(gateway).withDeadlineAfter(TIMEOUT_S, TimeUnit.SECONDS).openIdentity(open));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        long number = 0;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (++number > opened.getConfirmed()) {
                submitOne(Ordo.SubmitRequest.newBuilder()
                    .setIdentity(identity)
                    .setNumber(number)
                    .setPayload(ByteString.copyFromUtf8(line))
                    .setConfirmed(number - 1)
                    .setIdentityPosition(opened.getIdentityPosition())
                    .build());
            }
        }
    }

    private void submitOne(Ordo.SubmitRequest request) throws InterruptedException {
        try {
            Ordo.SubmitResponse answer = call(gateway ->
                sequencer(gateway).withDeadlineAfter(TIMEOUT_S, TimeUnit.SECONDS).submit(request));
            say(request.getNumber(), answer.getLogPosition(), answer.getPayload().toStringUtf8());
        } catch (StatusRuntimeException error) {
            if (error.getStatus().getCode() != Status.Code.FAILED_PRECONDITION) {
                throw error;
            }
            // Executed: the service's own refusal is an answer, too.
            say(request.getNumber(), "refused", error.getStatus().getDescription());
        }
    }

    /** Messages of a topic have numbers without gaps: who goes on with the next one misses nothing. */
    private void watch(String topic, long from) throws InterruptedException {
        long[] next = {from};
        call(gateway -> {
            Ordo.SubscribeTopicRequest request =
                Ordo.SubscribeTopicRequest.newBuilder().setTopic(topic).setFromSequence(next[0]).build();
            sequencer(gateway).subscribeTopic(request).forEachRemaining(batch -> {
                for (Ordo.TopicMessage message : batch.getMessagesList()) {
                    say(message.getSequence(), message.getPayload().toStringUtf8());
                    next[0] = message.getSequence() + 1;
                }
            });
            return null;
        });
    }

    /** What is not acknowledged, because this program or its gateway was killed, is handed out again to any member. */
    private void consume(String name) throws InterruptedException {
        call(gateway -> {
            Responses responses = new Responses();
            StreamObserver<Ordo.ConsumeRequest> requests =
                withToken(ConsumersGrpc.newStub(gateway)).consume(responses);
            Ordo.BeginConsuming.Builder begin = Ordo.BeginConsuming.newBuilder().setName(name).setIsShared(true);
            requests.onNext(Ordo.ConsumeRequest.newBuilder().setBegin(begin).build());
            while (true) {
                requests.onNext(handle(responses.take()));
            }
        });
    }

    private static Ordo.ConsumeRequest handle(Ordo.ConsumeResponse response) {
        Ordo.Acknowledgements.Builder done = Ordo.Acknowledgements.newBuilder();
        for (Ordo.ConsumedEntry one : response.getEntriesList()) {
            say(one.getEntry().getPosition(), one.getTryCount(), one.getEntry().getPayload().toStringUtf8());
            done.addAcknowledgementsBuilder().setPosition(one.getEntry().getPosition()).setTryCount(one.getTryCount());
        }
        return Ordo.ConsumeRequest.newBuilder().setAcknowledgements(done).build();
    }

    /** What a gateway says in a call, and its end, for the thread that works. */
    private static final class Responses implements StreamObserver<Ordo.ConsumeResponse> {
        private final BlockingQueue<Object> said = new LinkedBlockingQueue<>();

        Ordo.ConsumeResponse take() throws InterruptedException {
            Object next = said.take();
            if (next instanceof Ordo.ConsumeResponse response) {
                return response;
            }
            throw Status.fromThrowable((Throwable) next).asRuntimeException();
        }

        @Override
        public void onNext(Ordo.ConsumeResponse response) {
            said.add(response);
        }

        @Override
        public void onError(Throwable error) {
            said.add(error);
        }

        @Override
        public void onCompleted() {
            said.add(Status.UNAVAILABLE.withDescription("the gateway has ended the call").asException());
        }
    }

    private static void say(Object... values) {
        System.out.println(String.join("\t", Arrays.stream(values).map(String::valueOf).toList()));
    }

    public static void main(String[] arguments) throws Exception {
        String usage = "usage: Client submit IDENTITY | watch TOPIC SEQUENCE | consume NAME";
        Client client = new Client();
        switch (arguments.length == 0 ? "" : arguments[0]) {
            case "submit" -> client.submit(ByteString.copyFrom(HexFormat.of().parseHex(arguments[1])));
            case "watch" -> client.watch(arguments[1], Long.parseLong(arguments[2]));
            case "consume" -> client.consume(arguments[1]);
            default -> throw new IllegalArgumentException(usage);
        }
        client.channels.forEach(ManagedChannel::shutdownNow);
    }
}
