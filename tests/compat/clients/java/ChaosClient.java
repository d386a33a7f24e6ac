import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * An idempotent producer and the only member of a KIP-848 group, for `make chaos`. Arguments: bootstrap servers, topic,
 * number of partitions, group, records per second. Each line of the output is one event: `sent`, `acknowledged` with
 * partition and offset, `failed`, `assigned`, `read` with partition and offset; the value is last. The producer ends
 * when standard input contains a byte; the consumer when it ends.
 */
public final class ChaosClient {
    private static final FileOutputStream OUT = new FileOutputStream(FileDescriptor.out);
    private static volatile boolean producing = true;
    private static volatile boolean consuming = true;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        int rate = Integer.parseInt(arguments[4]);
        Thread producer = start("producer", () -> produce(bootstrap, topic, partitions, rate));
        Thread consumer = start("consumer", () -> consume(bootstrap, topic, arguments[3]));
        int command = System.in.read();
        producing = false;
        producer.join();
        print("finished");
        while (command >= 0) command = System.in.read();
        consuming = false;
        consumer.join();
    }

    private static Thread start(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setUncaughtExceptionHandler((one, failure) -> {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        thread.start();
        return thread;
    }

    private static void produce(String bootstrap, String topic, int partitions, int rate) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap,
            "enable.idempotence", true,
            "acks", "all",
            "linger.ms", 2,
            "delivery.timeout.ms", 120_000,
            "reconnect.backoff.max.ms", 200,
            "enable.metrics.push", false,
            "key.serializer", StringSerializer.class,
            "value.serializer", StringSerializer.class);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            for (int number = 1; producing; number++) {
                String value = "JavaLoad " + number;
                print("sent " + value);
                producer.send(new ProducerRecord<>(topic, number % partitions, null, value), (place, failure) ->
                    print(failure != null ? "failed " + value
                        : "acknowledged " + place.partition() + " " + place.offset() + " " + value));
                pause(1000 / rate);
            }
        }
    }

    private static void consume(String bootstrap, String topic, String group) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap,
            "group.id", group,
            "group.protocol", "consumer",
            "auto.offset.reset", "earliest",
            "auto.commit.interval.ms", 200,
            "reconnect.backoff.max.ms", 200,
            "enable.metrics.push", false,
            "key.deserializer", StringDeserializer.class,
            "value.deserializer", StringDeserializer.class);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(topic), new Listener());
            while (consuming) {
                consumer.poll(Duration.ofMillis(200)).forEach(record ->
                    print("read " + record.partition() + " " + record.offset() + " " + record.value()));
            }
        }
    }

    private static final class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            print("assigned");
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        }
    }

    private static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException failure) {
            throw new IllegalStateException(failure);
        }
    }

    private static void print(String line) {
        synchronized (OUT) {
            try {
                OUT.write((line + "\n").getBytes(StandardCharsets.UTF_8));
            } catch (IOException failure) {
                throw new IllegalStateException(failure);
            }
        }
    }
}
