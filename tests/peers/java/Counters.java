import io.aeron.CncFileDescriptor;
import org.agrona.DirectBuffer;
import org.agrona.IoUtil;
import org.agrona.concurrent.status.CountersReader;

import java.io.File;
import java.nio.MappedByteBuffer;
import java.nio.charset.StandardCharsets;

/** Prints every counter of a driver's folder: id, type, value, registration id, owner id, label, split by tabs. */
public final class Counters
{
    public static void main(final String[] args)
    {
        final MappedByteBuffer file = IoUtil.mapExistingFile(new File(args[0], CncFileDescriptor.CNC_FILE), "cnc");
        final DirectBuffer meta = CncFileDescriptor.createMetaDataBuffer(file);
        CncFileDescriptor.checkVersion(meta.getInt(CncFileDescriptor.cncVersionOffset(0)));
        final CountersReader counters = new CountersReader(
            CncFileDescriptor.createCountersMetaDataBuffer(file, meta),
            CncFileDescriptor.createCountersValuesBuffer(file, meta),
            StandardCharsets.US_ASCII);
        counters.forEach((id, typeId, key, label) -> System.out.println(
            id + "\t" + typeId + "\t" + counters.getCounterValue(id) + "\t" + counters.getCounterRegistrationId(id) +
            "\t" + counters.getCounterOwnerId(id) + "\t" + label));
        IoUtil.unmap(file);
    }
}
