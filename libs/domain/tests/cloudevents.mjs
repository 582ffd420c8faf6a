// Reads Kafka messages with the CloudEvents SDK for JavaScript and prints the events as JSON. The first argument is the
// directory of the SDK's package, the second a JSON list of {key, value (base64), headers}.
import { createRequire } from "node:module";

const [, , packages, messages] = process.argv;
const require = createRequire(`${packages}/`);
const { Kafka } = require("cloudevents");

const events = JSON.parse(messages).map(({ key, value, headers }) => {
  const bytes = Buffer.from(value, "base64");
  const structured = headers["content-type"].startsWith("application/cloudevents");
  const message = { key, headers, value: structured ? bytes.toString("utf8") : bytes };
  if (!Kafka.isEvent(message)) {
    throw new Error("no CloudEvent");
  }
  const event = Kafka.toEvent({ ...message, body: message.value });
  event.validate();
  const { data, data_base64: _, ...attributes } = event.toJSON();
  return { attributes, data: structured ? data : undefined };
});
console.log(JSON.stringify(events));
