import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Future;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Produces one record for each key on standard input (base64, one a line) and prints key and partition. */
public final class Partitions {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("acks", "all");
        settings.put("linger.ms", 5);
        Map<String, Future<RecordMetadata>> sent = new LinkedHashMap<>();
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            BufferedReader keys = new BufferedReader(new InputStreamReader(System.in));
            for (String line = keys.readLine(); line != null; line = keys.readLine()) {
                byte[] key = Base64.getDecoder().decode(line);
                sent.put(line, producer.send(new ProducerRecord<>(arguments[1], key, new byte[0])));
            }
        }
        for (Map.Entry<String, Future<RecordMetadata>> entry : sent.entrySet()) {
            System.out.println(entry.getKey() + " " + entry.getValue().get().partition());
        }
    }
}
