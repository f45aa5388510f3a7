import codecs.MessageHeaderDecoder;
import codecs.MessageHeaderEncoder;
import codecs.OrderDecoder;
import codecs.OrderEncoder;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.math.BigInteger;
import java.util.Arrays;
import java.util.HexFormat;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Writes and reads orders with the code that SBE's tool generates, and says what one takes.
 *
 * Orders are as many objects, and lie at as many places of one buffer, as RING says, and differ: what is written or
 * read is another one each time, so that the compiler can move nothing out of the loops. All of it flows into a sum that
 * is printed, so that it can leave nothing out.
 *
 * Lines of the standard input, each answered by one that begins with the same word:
 *   values EIGHT NUMBERS   the message in hexadecimal digits; the orders that are measured follow from these values
 *   fields HEX             the eight values of a message
 *   encode|decode|write|read COUNT   nanoseconds of processor time of one message, without the garbage collector's, and
 *                          the sum: from an object, into a new object, and without objects, from numbers at hand and
 *                          in place
 */
public final class OrderCodecs {
    private static final int RING = 256;
    private static final int LENGTH = MessageHeaderEncoder.ENCODED_LENGTH + OrderEncoder.BLOCK_LENGTH;

    private record Order(long orderId, long account, long price, long quantity, long instrument, int venue,
        short side, short flags) {
    }

    private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    private final MessageHeaderEncoder headerOut = new MessageHeaderEncoder();
    private final MessageHeaderDecoder headerIn = new MessageHeaderDecoder();
    private final OrderEncoder encoder = new OrderEncoder();
    private final OrderDecoder decoder = new OrderDecoder();
    private final UnsafeBuffer buffer = new UnsafeBuffer(new byte[RING * LENGTH]);
    private final Order[] orders = new Order[RING];

    public static void main(final String[] args) throws Exception {
        final OrderCodecs codecs = new OrderCodecs();
        final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            final String[] words = line.split(" ");
            System.out.println(words[0] + " " + codecs.answer(words));
        }
    }

    private String answer(final String[] words) {
        switch (words[0]) {
            case "values":
                return fill(Arrays.stream(words).skip(1).mapToLong(word -> new BigInteger(word).longValue()).toArray());
            case "fields":
                return fields(HexFormat.of().parseHex(words[1]));
            default:
                return measure(words[0], Integer.parseInt(words[1]));
        }
    }

    private String fill(final long[] values) {
        for (int i = 0; i < RING; i++) {
            orders[i] = new Order(values[0] + i, values[1], values[2] + i, values[3], values[4], (int)values[5],
                (short)values[6], (short)values[7]);
        }
        encode(RING);
        final byte[] first = new byte[LENGTH];
        buffer.getBytes(0, first);
        return HexFormat.of().formatHex(first);
    }

    private String fields(final byte[] message) {
        decoder.wrapAndApplyHeader(new UnsafeBuffer(message), 0, headerIn);
        final Order order = order();
        return Long.toUnsignedString(order.orderId) + " " + Long.toUnsignedString(order.account) + " " + order.price +
            " " + order.quantity + " " + order.instrument + " " + order.venue + " " + order.side + " " + order.flags;
    }

    private String measure(final String way, final int count) {
        final long start = threads.getCurrentThreadCpuTime();
        long sum = 0;
        switch (way) {
            case "encode" -> encode(count);
            case "decode" -> decode(count);
            case "write" -> write(count);
            case "read" -> sum = read(count);
            default -> throw new IllegalArgumentException(way + " is unknown: encode, decode, write, read");
        }
        final double eachNs = (threads.getCurrentThreadCpuTime() - start) / (double)count;
        return eachNs + " " + (sum + sumOfRing());
    }

    private long sumOfRing() {
        long sum = 0;
        for (int i = 0; i < RING; i++) {
            sum += orders[i].hashCode();
        }
        for (int i = 0; i < buffer.capacity(); i++) {
            sum = sum * 31 + buffer.getByte(i);
        }
        return sum;
    }

    private void encode(final int count) {
        for (int i = 0; i < count; i++) {
            final int at = i & RING - 1;
            final Order order = orders[at];
            encoder.wrapAndApplyHeader(buffer, at * LENGTH, headerOut)
                .order_id(order.orderId).account(order.account).price(order.price).quantity(order.quantity)
                .instrument(order.instrument).venue(order.venue).side(order.side).flags(order.flags);
        }
    }

    private void decode(final int count) {
        for (int i = 0; i < count; i++) {
            final int at = i & RING - 1;
            decoder.wrapAndApplyHeader(buffer, at * LENGTH, headerIn);
            orders[at] = order();
        }
    }

    private Order order() {
        return new Order(decoder.order_id(), decoder.account(), decoder.price(), decoder.quantity(),
            decoder.instrument(), decoder.venue(), decoder.side(), decoder.flags());
    }

    private void write(final int count) {
        for (int i = 0; i < count; i++) {
            final int at = i & RING - 1;
            encoder.wrapAndApplyHeader(buffer, at * LENGTH, headerOut)
                .order_id(i).account(at).price(-i).quantity(at + 1).instrument(at + 2).venue(at).side((short)(at & 1))
                .flags((short)(at & 7));
        }
    }

    private long read(final int count) {
        long sum = 0;
        for (int i = 0; i < count; i++) {
            decoder.wrapAndApplyHeader(buffer, (i & RING - 1) * LENGTH, headerIn);
            sum = sum * 31 + (decoder.order_id() ^ decoder.account() ^ decoder.price() ^ decoder.quantity() ^
                decoder.instrument() ^ decoder.venue() ^ decoder.side() ^ decoder.flags());
        }
        return sum;
    }
}
