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
import java.io.BufferedInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import ordo.v1.ConsumersGrpc;
import ordo.v1.Ordo;
import ordo.v1.SequencerGrpc;

/**
 * A caller of Ordo gateways (docs/GATEWAY.md).
 *
 * <pre>
 * Client submit FILE < requests        line N is request N of the identity in FILE, which is made the first time
 * Client watch TOPIC SEQUENCE          what is published to a topic, from a number on
 * Client consume NAME                  as a member of the shared durable consumer NAME
 * </pre>
 *
 * ORDO_GATEWAYS is HOST:PORT,HOST:PORT; ORDO_TOKEN a token of the cluster; ORDO_CA a PEM file, for TLS.
 * Without a token or TLS they are left out, or empty.
 */
public final class Client {
    private static final long TIMEOUT_S = 5;
    /** Held here, as loggers that nobody holds lose their level: grpc tells of its start in several lines. */
    private static final Logger GRPC = Logger.getLogger("io.grpc");
    /** A gateway or cluster that is still full after so many failures in a row, or takes no such message, is not asked again. */
    private static final int FAILURES_MAX = 8;

    private final List<ManagedChannel> channels = new ArrayList<>();
    private int current;
    /** In a row. */
    private int failures;

    private Client() throws Exception {
        GRPC.setLevel(Level.WARNING);
        String ca = System.getenv("ORDO_CA");
        ChannelCredentials security = ca == null || ca.isEmpty()
            ? InsecureChannelCredentials.create()
            : TlsChannelCredentials.newBuilder().trustManager(new File(ca)).build();
        for (String address : System.getenv("ORDO_GATEWAYS").split(",")) {
            channels.add(Grpc.newChannelBuilder(address, security)
                .keepAliveTime(20, TimeUnit.SECONDS)
                .maxInboundMessageSize(Integer.MAX_VALUE)
                .build());
        }
    }

    private interface Call<T> {
        T make(ManagedChannel gateway) throws InterruptedException;
    }

    /** Makes a call, again and at the next gateway for as long as its outcome is unknown or nobody can take it. */
    private <T> T call(Call<T> call) throws InterruptedException {
        while (true) {
            try {
                T answer = call.make(channels.get(current));
                failures = 0;
                return answer;
            } catch (StatusRuntimeException error) {
                boolean isAgain = switch (error.getStatus().getCode()) {
                    case UNAVAILABLE, DEADLINE_EXCEEDED -> true;
                    case RESOURCE_EXHAUSTED -> failures < FAILURES_MAX;
                    default -> false;
                };
                if (!isAgain) {
                    failures = 0;
                    throw error;
                }
                System.err.println(error.getMessage());
                current = (current + 1) % channels.size();
                Thread.sleep(200L << Math.min(failures++, 4));
            }
        }
    }

    private static <S extends AbstractStub<S>> S withToken(S stub) {
        Metadata metadata = new Metadata();
        String token = System.getenv("ORDO_TOKEN");
        if (token != null && !token.isEmpty()) {
            metadata.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer " + token);
        }
        return stub.withInterceptors(MetadataUtils.newAttachHeadersInterceptor(metadata));
    }

    private static SequencerGrpc.SequencerBlockingStub sequencer(ManagedChannel gateway) {
        return withToken(SequencerGrpc.newBlockingStub(gateway));
    }

    /** An identity and where the log opened it: 0 for a new one, which has no file yet. */
    private record Identity(ByteString bytes, long position) {
        private static final Pattern FILE = Pattern.compile("([0-9a-fA-F]{32}) ([1-9][0-9]{0,18})\n");

        static Identity read(Path path) throws Exception {
            if (Files.notExists(path)) {
                byte[] bytes = new byte[16];
                new SecureRandom().nextBytes(bytes);
                return new Identity(ByteString.copyFrom(bytes), 0);
            }
            Matcher fields = FILE.matcher(Files.readString(path, StandardCharsets.ISO_8859_1));
            if (!fields.matches()) {
                throw new IllegalArgumentException(path + " is not an identity file, which has 32 hexadecimal digits and"
                    + " a position: name another file, or delete it if nothing was submitted with it");
            }
            byte[] bytes = HexFormat.of().parseHex(fields.group(1));
            return new Identity(ByteString.copyFrom(bytes), Long.parseLong(fields.group(2)));
        }

        /** Is on the disk before the first request is sent. */
        void write(Path path) throws Exception {
            String line = HexFormat.of().formatHex(bytes.toByteArray()) + " " + position + "\n";
            Files.writeString(path, line, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE, StandardOpenOption.SYNC);
        }
    }

    /** An identity that the cluster has forgotten is opened at another position: nobody knows which lines were executed. */
    private Ordo.OpenIdentityResponse open(Identity identity, Path path) throws Exception {
        Ordo.OpenIdentityRequest open = Ordo.OpenIdentityRequest.newBuilder().setIdentity(identity.bytes).build();
        Ordo.OpenIdentityResponse opened = call(gateway ->
            sequencer(gateway).withDeadlineAfter(TIMEOUT_S, TimeUnit.SECONDS).openIdentity(open));
        if (identity.position == 0) {
            new Identity(identity.bytes, opened.getIdentityPosition()).write(path);
        } else if (identity.position != opened.getIdentityPosition()) {
            throw new IllegalStateException("the cluster has forgotten the identity in " + path + ", and which lines were"
                + " executed: find that out, and submit the others with a new file");
        }
        return opened;
    }

    /**
     * The same identity and number make a request the same: however often it is sent, it is executed once. So a program
     * that was killed is started again with the same file and lines.
     */
    private void submit(Path path) throws Exception {
        Identity identity = Identity.read(path);
        Ordo.OpenIdentityResponse opened = open(identity, path);
        if (opened.getConfirmed() > 0) {
            System.err.println("skips the first " + opened.getConfirmed() + " lines, which were executed before");
        }
        InputStream input = new BufferedInputStream(System.in);
        long number = 0;
        for (ByteString line = readLine(input); line != null; line = readLine(input)) {
            if (++number > opened.getConfirmed()) {
                if (line.size() > opened.getPayloadBytesMax()) {
                    throw new IllegalArgumentException("line " + number + " has " + line.size() + " bytes, and the cluster"
                        + " takes " + opened.getPayloadBytesMax() + ": it was not sent, the lines before it were executed");
                }
                submitOne(Ordo.SubmitRequest.newBuilder()
                    .setIdentity(identity.bytes)
                    .setNumber(number)
                    .setPayload(line)
                    .setConfirmed(number - 1)
                    .setIdentityPosition(opened.getIdentityPosition())
                    .build());
            }
        }
    }

    /** The bytes up to the next line feed; null at the end. */
    private static ByteString readLine(InputStream input) throws IOException {
        ByteString.Output line = ByteString.newOutput();
        int next = input.read();
        if (next < 0) {
            return null;
        }
        for (; next >= 0 && next != '\n'; next = input.read()) {
            line.write(next);
        }
        return line.toByteString();
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
                failures = 0;
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
                Ordo.ConsumeResponse response = responses.take();
                failures = 0;
                requests.onNext(handle(response));
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

    private void run(String... words) throws Exception {
        switch (words.length == 0 ? "" : words[0] + " " + (words.length - 1)) {
            case "submit 1" -> submit(Path.of(words[1]));
            case "watch 2" -> watch(words[1], Long.parseLong(words[2]));
            case "consume 1" -> consume(words[1]);
            default -> throw new IllegalArgumentException(
                "usage: Client submit FILE | watch TOPIC SEQUENCE | consume NAME");
        }
    }

    public static void main(String[] arguments) {
        try {
            new Client().run(arguments);
        } catch (Exception error) {
            System.err.println(error.getMessage());
            System.exit(1);
        }
        System.exit(0);
    }
}
