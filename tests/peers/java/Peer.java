import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import org.agrona.concurrent.SleepingMillisIdleStrategy;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.ConcurrentLinkedQueue;

/** What the programs share: a driver, lines in, lines out. */
final class Peer
{
    static final String END = "end of input";

    private Peer()
    {
    }

    /** A limit of time as the run has it: tests.patience. */
    static long patient(final long durationNs)
    {
        return (long)(durationNs * Double.parseDouble(System.getProperty("patience", "1")));
    }

    /** A small driver on a thread of its own. */
    static MediaDriver launch(final String directory)
    {
        return MediaDriver.launch(new MediaDriver.Context()
            .aeronDirectoryName(directory)
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true)
            .threadingMode(ThreadingMode.SHARED)
            .sharedIdleStrategy(new SleepingMillisIdleStrategy(1))
            .ipcTermBufferLength(1 << 20)
            .publicationTermBufferLength(1 << 20)
            .errorHandler(Peer::fail));
    }

    /** The lines of the standard input as they come, then END for ever. */
    static ConcurrentLinkedQueue<String> commands()
    {
        final ConcurrentLinkedQueue<String> commands = new ConcurrentLinkedQueue<>();
        final Thread reader = new Thread(() ->
        {
            try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in)))
            {
                for (String line = input.readLine(); line != null; line = input.readLine())
                {
                    commands.add(line);
                }
            }
            catch (final java.io.IOException error)
            {
                fail(error);
            }
            commands.add(END);
        });
        reader.setDaemon(true);
        reader.start();
        return commands;
    }

    static void say(final String line)
    {
        System.out.println(line);
    }

    static void fail(final Throwable error)
    {
        error.printStackTrace();
        say("error " + error);
    }
}
