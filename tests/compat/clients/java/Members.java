import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of a consumer group on the Java client, each in a thread of its own: classic range, classic cooperative,
 * KIP-848. The contract is that of tests/support/members: settings as one JSON argument, events as JSON lines, each a
 * single write, and everybody leaves when standard input ends.
 */
public final class Members {
    private static final FileOutputStream OUT = new FileOutputStream(FileDescriptor.out);
    private static volatile boolean leaving;

    public static void main(String[] arguments) throws Exception {
        JsonNode settings = new ObjectMapper().readTree(arguments[0]);
        List<Thread> threads = new ArrayList<>();
        for (JsonNode name : settings.get("names")) {
            Thread thread = new Thread(() -> run(name.asText(), settings), name.asText());
            thread.setUncaughtExceptionHandler((one, failure) -> {
                failure.printStackTrace();
                Runtime.getRuntime().halt(1);
            });
            thread.start();
            threads.add(thread);
        }
        while (System.in.read() >= 0) continue;
        leaving = true;
        for (Thread thread : threads) thread.join();
    }

    private static void run(String member, JsonNode settings) {
        String topic = settings.get("topic").asText();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(client(member, settings))) {
            consumer.subscribe(List.of(topic), new Listener(member, consumer));
            while (!leaving) process(member, consumer, consumer.poll(Duration.ofMillis(200)));
        }
        say(member, "closed", "");
    }

    private static void process(String member, KafkaConsumer<byte[], byte[]> consumer,
                                ConsumerRecords<byte[], byte[]> records) {
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        for (TopicPartition place : records.partitions()) {
            List<Long> offsets = records.records(place).stream().map(ConsumerRecord::offset).toList();
            say(member, "processed", ",\"partition\":" + place.partition() + ",\"offsets\":" + offsets);
            next.put(place, new OffsetAndMetadata(offsets.get(offsets.size() - 1) + 1));
        }
        if (next.isEmpty()) return;
        try {
            consumer.commitSync(next);
        } catch (KafkaException refusal) {
            say(member, "refused", ",\"error\":\"" + refusal.getClass().getSimpleName() + "\"");
            return;
        }
        next.forEach((place, offset) ->
            say(member, "committed", ",\"partition\":" + place.partition() + ",\"offset\":" + offset.offset()));
    }

    private static Map<String, Object> client(String member, JsonNode settings) {
        Map<String, Object> all = new HashMap<>();
        all.put("bootstrap.servers", settings.get("bootstrap").asText());
        all.put("group.id", settings.get("group").asText());
        all.put("client.id", member);
        all.put("enable.auto.commit", false);
        all.put("auto.offset.reset", "earliest");
        all.put("reconnect.backoff.ms", 20);
        all.put("reconnect.backoff.max.ms", 200);
        all.put("metadata.max.age.ms", 5_000);
        all.put("enable.metrics.push", false);
        all.put("key.deserializer", ByteArrayDeserializer.class);
        all.put("value.deserializer", ByteArrayDeserializer.class);
        String protocol = settings.get("protocol").asText();
        if (protocol.equals("consumer")) {
            all.put("group.protocol", "consumer");
            return all;
        }
        String assignor = protocol.equals("range") ? "RangeAssignor" : "CooperativeStickyAssignor";
        all.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
        all.put("session.timeout.ms", settings.get("session_ms").asInt());
        all.put("heartbeat.interval.ms", settings.get("heartbeat_ms").asInt());
        return all;
    }

    private record Listener(String member, KafkaConsumer<?, ?> consumer) implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> places) {
            int generation = consumer.groupMetadata().generationId();
            say(member, "assigned", partitions(places) + ",\"generation\":" + generation);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> places) {
            say(member, "revoked", partitions(places));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> places) {
            say(member, "lost", partitions(places));
        }

        private static String partitions(Collection<TopicPartition> places) {
            return ",\"partitions\":" + places.stream().map(TopicPartition::partition).sorted()
                .map(String::valueOf).collect(Collectors.joining(",", "[", "]"));
        }
    }

    private static void say(String member, String event, String facts) {
        String line = "{\"member\":\"" + member + "\",\"event\":\"" + event + "\"" + facts + "}\n";
        synchronized (OUT) {
            try {
                OUT.write(line.getBytes(StandardCharsets.UTF_8));
            } catch (IOException failure) {
                throw new IllegalStateException(failure);
            }
        }
    }
}
