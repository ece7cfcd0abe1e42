import java.util.Properties;

import com.linecorp.decaton.processor.TaskMetadata;
import com.linecorp.decaton.processor.runtime.DecatonTask;
import com.linecorp.decaton.processor.runtime.ProcessorProperties;
import com.linecorp.decaton.processor.runtime.ProcessorsBuilder;
import com.linecorp.decaton.processor.runtime.Property;
import com.linecorp.decaton.processor.runtime.StaticPropertySupplier;
import com.linecorp.decaton.processor.runtime.SubscriptionBuilder;
import com.linecorp.decaton.processor.runtime.TaskExtractor;

/**
 * LINE's decaton: {@code BOOTSTRAP TOPIC GROUP CONCURRENCY MESSAGES}. Reads the topic to its end once, so that the JVM is
 * warm, and once more by another group, which is measured. Prints one line of JSON.
 */
public final class DecatonPeer {
    public static void main(String[] args) throws Exception {
        read(args, args[2] + "-warm");
        System.out.println(read(args, args[2]).json());
        System.exit(0);
    }

    private static Account read(String[] args, String group) throws Exception {
        int concurrency = Integer.parseInt(args[3]);
        Account account = new Account(Long.parseLong(args[4]), concurrency);
        Properties consumer = new Properties();
        consumer.setProperty("bootstrap.servers", args[0]);
        consumer.setProperty("group.id", group);
        consumer.setProperty("client.id", "bench");
        consumer.setProperty("auto.offset.reset", "earliest");
        TaskExtractor<byte[]> asItIs = record ->
                new DecatonTask<>(TaskMetadata.builder().build(), record.value(), record.value());
        var subscription = SubscriptionBuilder.newBuilder("bench")
                .consumerConfig(consumer)
                .addProperties(StaticPropertySupplier.of(
                        Property.ofStatic(ProcessorProperties.CONFIG_PARTITION_CONCURRENCY, concurrency)))
                .processorsBuilder(ProcessorsBuilder.consuming(args[1], asItIs)
                        .thenProcess((context, payload) -> account.handle(payload)))
                .buildAndStart();
        try (subscription) {
            account.await();
        }
        return account;
    }
}
