import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Kafka's StandardAuthorizer, by commands on standard input: one a line, fields separated by tabs.
 *
 * new superUsers allowWithoutEntries
 * add id type name pattern principal host operation permission
 * remove id
 * may principalType principalName address operation type name
 * any principalType principalName address operation type
 *
 * The last two print 1 or 0.
 */
public final class Authorize {
    private record Context(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "CLIENTS";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }

    public static void main(String[] unused) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        StringBuilder results = new StringBuilder();
        StandardAuthorizer authorizer = null;
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "new" -> {
                    authorizer = new StandardAuthorizer();
                    authorizer.configure(
                        Map.of("super.users", words[1], "allow.everyone.if.no.acl.found", words[2]));
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                    authorizer.completeInitialLoad();
                }
                case "add" -> authorizer.addAcl(id(words[1]), new StandardAcl(
                    ResourceType.fromCode(Byte.parseByte(words[2])), words[3],
                    PatternType.fromCode(Byte.parseByte(words[4])), words[5], words[6],
                    AclOperation.fromCode(Byte.parseByte(words[7])),
                    AclPermissionType.fromCode(Byte.parseByte(words[8]))));
                case "remove" -> authorizer.removeAcl(id(words[1]));
                default -> {
                    Context context = new Context(
                        new KafkaPrincipal(words[1], words[2]), InetAddress.getByName(words[3]));
                    AclOperation operation = AclOperation.fromCode(Byte.parseByte(words[4]));
                    ResourceType type = ResourceType.fromCode(Byte.parseByte(words[5]));
                    AuthorizationResult result = words[0].equals("any")
                        ? authorizer.authorizeByResourceType(context, operation, type)
                        : authorizer.authorize(context, List.of(new Action(
                            operation, new ResourcePattern(type, words[6], PatternType.LITERAL), 1, false, false)))
                            .get(0);
                    results.append(result == AuthorizationResult.ALLOWED ? "1\n" : "0\n");
                }
            }
        }
        System.out.print(results);
    }

    private static Uuid id(String number) {
        return new Uuid(7, Long.parseLong(number));
    }
}
