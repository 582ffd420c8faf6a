// The same reader in Java, with Kafka's client and Avro:
//
//   org.apache.kafka:kafka-clients:4.3.1, org.apache.avro:avro:1.12.0
//   KAFKA=localhost:9092 REGISTRY=http://localhost:8080/apis/ccompat/v7 SEEN=seen.txt java -cp ... PackingList
//
// IDLE ends it when nothing has come for so many seconds. What was handled is in the file SEEN, so that a repeat after a crash prints
// nothing.
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public final class PackingList {
    // The reader's own schema: the fields that it uses. It can be left with the publishers as
    // schemas/consumers/warehouse/shop.order-placed.v2.avsc, where their CI checks it.
    private static final Schema WANTED = new Schema.Parser().parse("""
        {"type": "record", "name": "OrderPlaced", "fields": [
          {"name": "order_id", "type": "long"},
          {"name": "required_on", "type": ["null", {"type": "int", "logicalType": "date"}], "default": null},
          {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "product_id", "type": "long"}, {"name": "quantity", "type": "int"}]}}}]}
        """);

    private final String registry;
    private final HttpClient http = HttpClient.newHttpClient();
    private final Map<Integer, GenericDatumReader<GenericRecord>> readers = new HashMap<>();

    private PackingList(String registry) {
        this.registry = registry;
    }

    // A record's first five bytes are 0 and the id of the schema that wrote it.
    private GenericRecord decode(byte[] value) throws IOException, InterruptedException {
        int id = ByteBuffer.wrap(value, 1, 4).getInt();
        if (!readers.containsKey(id)) {
            var request = HttpRequest.newBuilder(URI.create(registry + "/schemas/ids/" + id)).build();
            var answer = http.send(request, HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() != 200) {
                throw new IOException("registry: schema " + id + ": " + answer.statusCode());
            }
            String written = new ObjectMapper().readTree(answer.body()).get("schema").asText();
            readers.put(id, new GenericDatumReader<>(new Schema.Parser().parse(written), WANTED));
        }
        return readers.get(id).read(null, DecoderFactory.get().binaryDecoder(value, 5, value.length - 5, null));
    }

    private static String told(GenericRecord order) {
        String goods = ((List<?>) order.get("lines")).stream()
            .map(GenericRecord.class::cast)
            .map(line -> line.get("quantity") + " x " + line.get("product_id"))
            .collect(Collectors.joining(", "));
        Object day = order.get("required_on");
        return "pack " + order.get("order_id") + ": " + goods + "; by "
            + (day == null ? "any day" : LocalDate.ofEpochDay((Integer) day));
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = System.getenv();
        Path file = Path.of(given.getOrDefault("SEEN", "seen.txt"));
        Set<String> seen = new HashSet<>(Files.exists(file) ? Files.readAllLines(file) : List.of());
        var list = new PackingList(given.get("REGISTRY"));
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", given.getOrDefault("KAFKA", "localhost:9092"),
            "group.id", given.getOrDefault("GROUP", "warehouse-java"),
            "auto.offset.reset", "earliest",
            "enable.auto.commit", false,
            // What an aborted transaction wrote is never seen.
            "isolation.level", "read_committed");
        Duration idle = given.containsKey("IDLE") ? Duration.ofSeconds(Long.parseLong(given.get("IDLE"))) : null;
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(given.getOrDefault("TOPIC", "shop.order-placed.v2")));
            Instant last = Instant.now();
            while (idle == null || last.plus(idle).isAfter(Instant.now())) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    last = Instant.now();
                    String id = new String(record.headers().lastHeader("ce_id").value(), StandardCharsets.UTF_8);
                    if (seen.add(id)) {
                        System.out.println(told(list.decode(record.value())));
                        Files.writeString(file, id + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
                    }
                }
                consumer.commitSync();
                if (consumer.assignment().isEmpty()) {
                    last = Instant.now(); // not a member of the group yet
                }
            }
        }
    }
}
