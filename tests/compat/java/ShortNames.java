import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;

/** Names principals as Kafka does. A line has the realm, a principal and the rules in base64; the answer is a name or !. */
public final class ShortNames {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            for (int i = 0; i < words.length; i++) {
                words[i] = new String(Base64.getDecoder().decode(words[i]), StandardCharsets.UTF_8);
            }
            System.out.println(name(words));
        }
    }

    private static String name(String[] words) {
        try {
            KerberosShortNamer namer =
                KerberosShortNamer.fromUnparsedRules(words[0], Arrays.asList(words).subList(2, words.length));
            byte[] name = namer.shortName(KerberosName.parse(words[1])).getBytes(StandardCharsets.UTF_8);
            return "=" + Base64.getEncoder().encodeToString(name);
        } catch (Exception refused) {
            return "!";
        }
    }
}
