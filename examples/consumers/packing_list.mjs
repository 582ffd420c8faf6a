// The same reader in JavaScript, with two packages from npm: kafkajs, which reads Kafka, and avsc, which reads Avro.
//
//   npm install kafkajs@2.2.4 avsc@5.7.9
//   KAFKA=localhost:9092 REGISTRY=http://localhost:8080/apis/ccompat/v7 SEEN=seen.txt node packing_list.mjs
//
// COUNT ends it after so many records. What was handled is in the file SEEN, so that a repeat after a crash prints nothing.
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";

// Where the packages are: beside this file, or in the directory that PACKAGES names.
const load = createRequire(process.env.PACKAGES ? `${process.env.PACKAGES}/` : import.meta.url);
const { Kafka, logLevel } = load("kafkajs");
const avro = load("avsc");

const { KAFKA = "localhost:9092", REGISTRY, SEEN = "seen.txt", GROUP = "warehouse-js", COUNT } = process.env;

// The reader's own schema: the fields that it uses. It can be left with the publishers as
// schemas/consumers/warehouse/shop.order-placed.v2.avsc, where their CI checks it.
class DateType extends avro.types.LogicalType {
  _fromValue = (days) => new Date(days * 86_400_000).toISOString().slice(0, 10);
  _toValue = (text) => Date.parse(text) / 86_400_000;
  // The writer's date is a number of days like the reader's.
  _resolve = (type) => (avro.Type.isType(type, "logical:date", "int") ? this._fromValue : undefined);
}
const logicalTypes = { date: DateType };
const line = {
  type: "record",
  name: "Line",
  fields: [{ name: "product_id", type: "long" }, { name: "quantity", type: "int" }],
};
const wanted = avro.Type.forSchema(
  {
    type: "record",
    name: "OrderPlaced",
    fields: [
      { name: "order_id", type: "long" },
      { name: "required_on", type: ["null", { type: "int", logicalType: "date" }], default: null },
      { name: "lines", type: { type: "array", items: line } },
    ],
  },
  { logicalTypes, wrapUnions: false },
);

// A record's first five bytes are 0 and the id of the schema that wrote it.
const writers = new Map();
async function decode(value) {
  const id = value.readUInt32BE(1);
  if (!writers.has(id)) {
    const answer = await fetch(`${REGISTRY}/schemas/ids/${id}`);
    if (!answer.ok) throw new Error(`registry: schema ${id}: ${answer.status}`);
    const written = avro.Type.forSchema(JSON.parse((await answer.json()).schema), { logicalTypes, wrapUnions: false });
    writers.set(id, { written, resolver: wanted.createResolver(written) });
  }
  const { resolver } = writers.get(id);
  return wanted.decode(value, 5, resolver).value;
}

const seen = new Set(existsSync(SEEN) ? readFileSync(SEEN, "utf8").split("\n") : []);
const kafka = new Kafka({ clientId: "warehouse", brokers: KAFKA.split(","), logLevel: logLevel.ERROR });
// readUncommitted is kafkajs' default to be false: what an aborted transaction wrote is never seen.
const consumer = kafka.consumer({ groupId: GROUP, readUncommitted: false });
let records = 0;
await consumer.connect();
await consumer.subscribe({ topic: process.env.TOPIC ?? "shop.order-placed.v2", fromBeginning: true });
await consumer.run({
  autoCommitInterval: 1000,
  eachMessage: async ({ message }) => {
    const id = message.headers.ce_id.toString();
    if (!seen.has(id)) {
      const order = await decode(message.value);
      const goods = order.lines.map((one) => `${one.quantity} x ${one.product_id}`).join(", ");
      console.log(`pack ${order.order_id}: ${goods}; by ${order.required_on ?? "any day"}`);
      seen.add(id);
      appendFileSync(SEEN, `${id}\n`);
    }
    records += 1;
    if (COUNT !== undefined && records >= Number(COUNT)) setTimeout(() => consumer.disconnect(), 0);
  },
});
