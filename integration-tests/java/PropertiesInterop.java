import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintStream;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.TreeMap;

/**
 * java.util.Properties by lines of standard input and output, so that one virtual machine serves a whole test. Texts
 * and data are hexadecimal UTF-8.
 *
 * <pre>
 * load DATA            the entries as Java reads them: "KEY=VALUE KEY=VALUE …", or "refused"
 * store KEY=VALUE …    the data as Java writes it, characters as they are
 * escape KEY=VALUE …   the data as Java writes it, characters beyond Latin-1 escaped
 * </pre>
 */
public final class PropertiesInterop {
    public static void main(String[] arguments) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            out.println(words[0].equals("load") ? load(words) : store(words));
        }
        out.flush();
    }

    private static String load(String[] words) throws IOException {
        byte[] data = words.length > 1 ? bytes(words[1]) : new byte[0];
        Properties properties = new Properties();
        try {
            properties.load(new InputStreamReader(new ByteArrayInputStream(data), StandardCharsets.UTF_8));
        } catch (IllegalArgumentException malformedEscape) {
            return "refused";
        }
        TreeMap<String, String> sorted = new TreeMap<>();
        properties.stringPropertyNames().forEach(key -> sorted.put(key, properties.getProperty(key)));
        StringBuilder entries = new StringBuilder();
        sorted.forEach((key, value) -> entries.append(hex(key)).append('=').append(hex(value)).append(' '));
        return entries.toString().trim();
    }

    private static String store(String[] words) throws IOException {
        Properties properties = new Properties();
        for (int at = 1; at < words.length; at++) {
            String[] entry = words[at].split("=", -1);
            properties.setProperty(text(entry[0]), text(entry[1]));
        }
        ByteArrayOutputStream data = new ByteArrayOutputStream();
        if (words[0].equals("escape")) {
            properties.store(data, "C:\\users: a comment");
        } else {
            try (Writer writer = new OutputStreamWriter(data, StandardCharsets.UTF_8)) {
                properties.store(writer, null);
            }
        }
        return hex(data.toByteArray());
    }

    private static byte[] bytes(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int at = 0; at < bytes.length; at++) {
            bytes[at] = (byte) Integer.parseInt(hex.substring(2 * at, 2 * at + 2), 16);
        }
        return bytes;
    }

    private static String text(String hex) {
        return new String(bytes(hex), StandardCharsets.UTF_8);
    }

    /** Half of a surrogate pair, which UTF-8 cannot hold, becomes the replacement character. */
    private static String hex(String text) {
        StringBuilder whole = new StringBuilder();
        text.codePoints().forEach(point ->
            whole.appendCodePoint(point >= 0xD800 && point <= 0xDFFF ? 0xFFFD : point));
        return hex(whole.toString().getBytes(StandardCharsets.UTF_8));
    }

    private static String hex(byte[] bytes) {
        StringBuilder hex = new StringBuilder();
        for (byte b : bytes) {
            hex.append(String.format("%02x", b));
        }
        return hex.toString();
    }
}
