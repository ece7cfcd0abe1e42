import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;

/**
 * The Java client's side of the interoperability test: sends and reads with its defaults.
 *
 * <p>A message is one line: {@code KEY VALUE HEADERS}. Bytes are {@code x} and hexadecimal digits, absent ones
 * {@code -}. Headers are {@code NAME=BYTES} with the name's bytes as above, joined by commas, or {@code -} for none.
 *
 * <ul>
 *   <li>{@code produce BOOTSTRAP TOPIC}: sends the messages on standard input, answers {@code PARTITION} for each.
 *   <li>{@code consume BOOTSTRAP TOPIC COUNT}: answers {@code PARTITION MESSAGE} for each.
 *   <li>{@code route CONNECT GROUP}: follows the registry as a Java service does, and answers {@code BOOTSTRAP TOPIC},
 *       the group's own cluster and the topic that it is bound to; then, in the second line, the topic's cluster.
 * </ul>
 */
public final class KafkaInterop {
    private static final Duration LIMIT = Duration.ofSeconds(60);
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        if (args[0].equals("route")) {
            route(args[1], args[2]);
            return;
        }
        Map<String, Object> config = Map.of("bootstrap.servers", args[1]);
        switch (args[0]) {
            case "produce" -> produce(config, args[2]);
            case "consume" -> consume(config, args[2], Integer.parseInt(args[3]));
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private static void route(String connect, String group) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        try (var zookeeper = new ZooKeeper(connect, 10_000, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        })) {
            connected.await();
            Properties bound = node(zookeeper, "/zms/consumergroup/" + group);
            String topic = bound.getProperty("bindingTopic");
            System.out.println(bootstrap(zookeeper, bound) + " " + topic);
            System.out.println(bootstrap(zookeeper, node(zookeeper, "/zms/topic/" + topic)));
        }
    }

    private static String bootstrap(ZooKeeper zookeeper, Properties entry) throws Exception {
        Properties cluster = node(zookeeper, "/zms/cluster/" + entry.getProperty("clusterName"));
        if (!cluster.getProperty("brokerType").equalsIgnoreCase("kafka")) {
            throw new IllegalStateException("not a Kafka cluster: " + cluster);
        }
        return cluster.getProperty("bootAddr");
    }

    private static Properties node(ZooKeeper zookeeper, String path) throws Exception {
        Properties properties = new Properties();
        byte[] data = zookeeper.getData(path, false, null);
        properties.load(new InputStreamReader(new ByteArrayInputStream(data), StandardCharsets.UTF_8));
        return properties;
    }

    private static void produce(Map<String, Object> config, String topic) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String line : input.lines().toList()) {
                String[] fields = line.split(" ");
                var record = new ProducerRecord<>(topic, bytes(fields[0]), bytes(fields[1]));
                addHeaders(record.headers(), fields[2]);
                RecordMetadata stored = producer.send(record).get();
                System.out.println(stored.partition());
            }
        }
    }

    private static void consume(Map<String, Object> config, String topic, int count) {
        List<String> lines = new ArrayList<>();
        long limit = System.nanoTime() + LIMIT.toNanos();
        try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            var partitions = consumer.partitionsFor(topic).stream()
                    .map(info -> new TopicPartition(topic, info.partition()))
                    .toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (lines.size() < count && System.nanoTime() < limit) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> lines.add(line(record)));
            }
        }
        lines.forEach(System.out::println);
    }

    private static String line(ConsumerRecord<byte[], byte[]> record) {
        return record.partition() + " " + text(record.key()) + " " + text(record.value()) + " " + text(record.headers());
    }

    private static void addHeaders(Headers headers, String field) {
        if (field.equals("-")) {
            return;
        }
        for (String header : field.split(",")) {
            String[] parts = header.split("=");
            headers.add(new String(bytes(parts[0]), StandardCharsets.UTF_8), bytes(parts[1]));
        }
    }

    private static String text(Headers headers) {
        List<String> parts = new ArrayList<>();
        for (Header header : headers) {
            parts.add(text(header.key().getBytes(StandardCharsets.UTF_8)) + "=" + text(header.value()));
        }
        return parts.isEmpty() ? "-" : parts.stream().collect(Collectors.joining(","));
    }

    private static byte[] bytes(String field) {
        return field.equals("-") ? null : HEX.parseHex(field.substring(1));
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "-" : "x" + HEX.formatHex(bytes);
    }
}
