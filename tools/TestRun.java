import java.io.IOException;
import java.io.PrintWriter;
import java.util.Arrays;

import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/** Runs the tests of some classes with JUnit 5, and writes a line as each begins and ends: kind, id, name, error. */
public final class TestRun implements TestExecutionListener
{
    private static final int ERROR_LENGTH_MAX = 500;

    private final PrintWriter out;

    private TestRun(final PrintWriter out)
    {
        this.out = out;
    }

    public static void main(final String[] args) throws IOException
    {
        try (PrintWriter out = new PrintWriter(args[0], "UTF-8"))
        {
            final LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
                .selectors(Arrays.stream(args).skip(1).map(DiscoverySelectors::selectClass).toList())
                .build();
            LauncherFactory.create().execute(request, new TestRun(out));
            out.println("end");
        }
        System.exit(0);  // threads that a test left behind must not keep the process
    }

    public void executionStarted(final TestIdentifier test)
    {
        if (test.isTest())
        {
            say("begun", test, "");
        }
    }

    public void executionSkipped(final TestIdentifier test, final String reason)
    {
        say("skipped", test, reason);
    }

    public void executionFinished(final TestIdentifier test, final TestExecutionResult result)
    {
        final String error = result.getThrowable().map(Throwable::toString).orElse("");
        if (test.isTest())
        {
            say(result.getStatus().name().toLowerCase(), test, error);
        }
        else if (TestExecutionResult.Status.SUCCESSFUL != result.getStatus())
        {
            say("container", test, error);
        }
    }

    private void say(final String kind, final TestIdentifier test, final String text)
    {
        final String owner = test.getSource()
            .filter(MethodSource.class::isInstance)
            .map(source -> ((MethodSource)source).getClassName())
            .map(name -> name.substring(name.lastIndexOf('.') + 1) + ".")
            .orElse("");
        final String name = owner + test.getLegacyReportingName();
        out.println(String.join("\t", kind, plain(test.getUniqueId()), plain(name), plain(text)));
        out.flush();
    }

    private static String plain(final String text)
    {
        final String line = text.replaceAll("\\s+", " ").trim();
        return line.length() > ERROR_LENGTH_MAX ? line.substring(0, ERROR_LENGTH_MAX) : line;
    }
}
