/** Asks Kafka's own message classes. Lines in: class name, version, hex bytes. Lines out: what those bytes are. */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;

public class KafkaMessages {
    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ", 3);
            System.out.println(answer(words[0], Short.parseShort(words[1]), HexFormat.of().parseHex(words[2])));
        }
    }

    /** "refused", or "read", how many bytes Kafka read, and what it writes again. */
    private static String answer(String name, short version, byte[] raw) throws Exception {
        Constructor<?> constructor = Class.forName(name).getConstructor(Readable.class, short.class);
        var buffer = ByteBuffer.wrap(raw);
        try {
            var message = (Message) constructor.newInstance(new ByteBufferAccessor(buffer), version);
            return "read " + buffer.position() + " " + written(message, version);
        } catch (InvocationTargetException refused) {
            return "refused";
        }
    }

    /** Kafka reads unsorted and repeated tags, but cannot write them: then "-". */
    private static String written(Message message, short version) {
        try {
            var buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] bytes = new byte[buffer.remaining()];
            buffer.get(bytes);
            return HexFormat.of().formatHex(bytes);
        } catch (RuntimeException unsorted) {
            return "-";
        }
    }
}
