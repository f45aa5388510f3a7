import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import uk.co.real_logic.sbe.ir.Ir;
import uk.co.real_logic.sbe.json.JsonPrinter;
import uk.co.real_logic.sbe.xml.IrGenerator;
import uk.co.real_logic.sbe.xml.ParserOptions;
import uk.co.real_logic.sbe.xml.XmlSchemaParser;

/** Prints each message of the standard input (a line of hexadecimal digits) as a line of JSON, by a schema. */
public final class SbeAsJson {
    public static void main(final String[] args) throws Exception {
        final JsonPrinter printer = new JsonPrinter(read(Path.of(args[0])));
        final BufferedReader messages = new BufferedReader(new InputStreamReader(System.in));
        for (String line = messages.readLine(); line != null; line = messages.readLine()) {
            final StringBuilder json = new StringBuilder();
            printer.print(ByteBuffer.wrap(HexFormat.of().parseHex(line)), json);
            System.out.println(json.toString().replace('\n', ' '));
        }
    }

    private static Ir read(final Path schema) throws Exception {
        try (InputStream in = new BufferedInputStream(Files.newInputStream(schema))) {
            return new IrGenerator().generate(
                XmlSchemaParser.parse(in, ParserOptions.builder().stopOnError(true).build()));
        }
    }
}
