import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.CommitMode;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;

/**
 * Confluent's parallel-consumer: {@code BOOTSTRAP TOPIC GROUP CONCURRENCY MESSAGES}. Reads the topic to its end once, so
 * that the JVM is warm, and once more by another group, which is measured. Prints one line of JSON.
 */
public final class ParallelConsumerPeer {
    public static void main(String[] args) throws Exception {
        read(args, args[2] + "-warm");
        System.out.println(read(args, args[2]).json());
        System.exit(0);
    }

    private static Account read(String[] args, String group) throws Exception {
        int concurrency = Integer.parseInt(args[3]);
        Account account = new Account(Long.parseLong(args[4]), concurrency);
        var consumer = new KafkaConsumer<String, byte[]>(Map.of(
                "bootstrap.servers", args[0],
                "group.id", group,
                "auto.offset.reset", "earliest",
                "enable.auto.commit", "false"), new StringDeserializer(), new ByteArrayDeserializer());
        var options = ParallelConsumerOptions.<String, byte[]>builder()
                .consumer(consumer)
                .ordering(ProcessingOrder.KEY)
                .maxConcurrency(concurrency)
                .commitMode(CommitMode.PERIODIC_CONSUMER_ASYNCHRONOUS)
                .build();
        try (var processor = ParallelStreamProcessor.createEosStreamProcessor(options)) {
            processor.subscribe(List.of(args[1]));
            processor.poll(context -> account.handle(context.value()));
            account.await();
        }
        return account;
    }
}
