import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's own tools, one after the other, in one JVM.
 *
 * A request is a line of base64 words: what the tool reads from standard input, its class, its arguments. The answer
 * is a line: exit code, base64 of standard output, base64 of standard error. The tools themselves are untouched.
 */
public final class Tools {
    private static final class Exited extends RuntimeException {
        Exited() {
            super("exit", null, false, false);
        }
    }

    public static void main(String[] unused) throws Exception {
        final PrintStream answers = System.out;
        final BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        Exit.setExitProcedure((code, message) -> exit(code));
        Exit.setHaltProcedure((code, message) -> exit(code));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = line.split(" ", -1);
            String[] arguments = new String[words.length - 2];
            for (int i = 0; i < arguments.length; i++) arguments[i] = text(words[i + 2]);
            ByteArrayOutputStream out = new ByteArrayOutputStream(), err = new ByteArrayOutputStream();
            int code = run(text(words[1]), arguments, Base64.getDecoder().decode(words[0]), out, err);
            answers.println(code + " " + encoded(out) + " " + encoded(err));
            answers.flush();
        }
    }

    /** Tools catch what ends them and exit a second time: the first code is the one a shell would see. */
    private static Integer firstCode;

    private static void exit(int code) {
        if (firstCode == null) firstCode = code;
        throw new Exited();
    }

    private static int run(String name, String[] arguments, byte[] input, ByteArrayOutputStream out,
                           ByteArrayOutputStream err) {
        final PrintStream oldOut = System.out, oldErr = System.err;
        final InputStream oldIn = System.in;
        firstCode = null;
        System.setOut(new PrintStream(out, true));
        System.setErr(new PrintStream(err, true));
        System.setIn(new ByteArrayInputStream(input));
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return firstCode == null ? 0 : firstCode;
        } catch (Throwable thrown) {
            if (firstCode != null) return firstCode;
            (thrown.getCause() == null ? thrown : thrown.getCause()).printStackTrace();
            return 99;
        } finally {
            System.out.flush();
            System.err.flush();
            System.setOut(oldOut);
            System.setErr(oldErr);
            System.setIn(oldIn);
        }
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    private static String encoded(ByteArrayOutputStream bytes) {
        return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
