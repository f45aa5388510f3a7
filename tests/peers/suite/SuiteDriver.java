import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.util.Map;
import java.util.concurrent.TimeUnit;

import io.aeron.Aeron;
import io.aeron.CommonContext;
import io.aeron.driver.MediaDriver;

/** A driver as Aeron's tests start one: the program that a system property names, or Aeron's in this JVM. */
final class SuiteDriver implements AutoCloseable
{
    static final String PROGRAM = System.getProperty("aeron.test.system.aeronmd.path");
    static final int TERM_LENGTH = 128 * 1024;

    final String folder = CommonContext.generateRandomDirName();
    final Aeron aeron;
    private MediaDriver driver;
    private Process process;
    private File errors;

    SuiteDriver() throws Exception
    {
        if (null == PROGRAM)
        {
            final MediaDriver.Context context = new MediaDriver.Context().aeronDirectoryName(folder)
                .ipcTermBufferLength(TERM_LENGTH).dirDeleteOnShutdown(true);
            driver = MediaDriver.launch(context);
        }
        else
        {
            final ProcessBuilder builder = new ProcessBuilder(PROGRAM, "-Daeron.driver.termination.validator=allow");
            builder.environment().putAll(Map.of(
                "AERON_DIR", folder,
                "AERON_IPC_TERM_BUFFER_LENGTH", String.valueOf(TERM_LENGTH),
                "AERON_DIR_DELETE_ON_SHUTDOWN", "true",
                "AERON_THREADING_MODE", "SHARED",
                "AERON_SHARED_IDLE_STRATEGY", "yield",
                "AERON_TIMER_INTERVAL", "100000000"));
            errors = File.createTempFile("driver", ".err");
            process = builder.inheritIO().redirectError(errors).start();
        }
        aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(folder).driverTimeoutMs(30_000));
    }

    public void close() throws Exception
    {
        aeron.close();
        if (null != driver)
        {
            driver.close();
            return;
        }
        CommonContext.requestDriverTermination(new File(folder), null, 0, 0);
        assertTrue(process.waitFor(30, TimeUnit.SECONDS));
        assertEquals(0, process.exitValue());
        assertEquals(0, errors.length(), "standard error");  // as Aeron's own tests demand
        assertTrue(errors.delete());
    }
}
