import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

import com.sun.management.OperatingSystemMXBean;

/**
 * The handler of all peers, and what its runs together did. The same as on our side: it blocks for a time that follows
 * from the message's number, and the clock runs from the entry of the first handler to the end of the last.
 */
final class Account {
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private final long messages;
    private final int workers;
    private final AtomicLong begun = new AtomicLong();
    private final AtomicLong ended = new AtomicLong();
    private final AtomicLong spent = new AtomicLong();
    private final AtomicLong nominal = new AtomicLong();
    private final CountDownLatch over = new CountDownLatch(1);
    private volatile long firstBegan;
    private volatile long firstCpu;
    private volatile long wall;
    private volatile long cpu;

    Account(long messages, int workers) {
        this.messages = messages;
        this.workers = workers;
    }

    void handle(byte[] payload) {
        long began = System.nanoTime();
        if (begun.getAndIncrement() == 0) {
            firstBegan = began;
            firstCpu = SYSTEM.getProcessCpuTime();
        }
        long wait = waitOf(ByteBuffer.wrap(payload).getLong());
        block(began + wait);
        nominal.addAndGet(wait);
        spent.addAndGet(System.nanoTime() - began);
        if (ended.incrementAndGet() == messages) {
            wall = System.nanoTime() - firstBegan;
            cpu = SYSTEM.getProcessCpuTime() - firstCpu;
            over.countDown();
        }
    }

    /** Thread.sleep of this Java rounds up to milliseconds; this does not. */
    private static void block(long until) {
        for (long left = until - System.nanoTime(); left > 0; left = until - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    /** Nanoseconds: 0 to 5 ms in steps of a microsecond. */
    static long waitOf(long number) {
        return TimeUnit.MICROSECONDS.toNanos(Long.remainderUnsigned(scatter(number), 5001));
    }

    private static long scatter(long number) {
        long mixed = number + 0x9e3779b97f4a7c15L;
        mixed = (mixed ^ (mixed >>> 30)) * 0xbf58476d1ce4e5b9L;
        mixed = (mixed ^ (mixed >>> 27)) * 0x94d049bb133111ebL;
        return mixed ^ (mixed >>> 31);
    }

    void await() throws InterruptedException {
        if (!over.await(120, TimeUnit.SECONDS)) {
            throw new IllegalStateException("handled " + ended.get() + " of " + messages + " messages");
        }
    }

    /** As the benchmark reads it. */
    String json() throws Exception {
        return String.format("{\"messages\":%d,\"wall_ns\":%d,\"cpu_ns\":%d,\"spent_ns\":%d,\"nominal_ns\":%d,"
                + "\"workers\":%d,\"peak_bytes\":%d}",
                messages, wall, cpu, spent.get(), nominal.get(), workers, peak());
    }

    private static long peak() throws Exception {
        return Files.readAllLines(Path.of("/proc/self/status")).stream()
                .filter(line -> line.startsWith("VmHWM:"))
                .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")) * 1024)
                .findFirst().orElse(0);
    }
}
