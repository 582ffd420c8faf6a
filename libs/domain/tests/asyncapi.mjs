// Parses the AsyncAPI document in the second argument's file with the official parser; prints what it found as JSON.
// The first argument is the directory of the parser's packages.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [, , packages, file] = process.argv;
const require = createRequire(`${packages}/`);
const { Parser } = require("@asyncapi/parser");
const { AvroSchemaParser } = require("@asyncapi/avro-schema-parser");

const parser = new Parser();
parser.registerSchemaParser(AvroSchemaParser());
const { document, diagnostics } = await parser.parse(readFileSync(file, "utf8"));
const problems = diagnostics.filter((one) => one.severity < 2).map((one) => `${one.path.join(".")}: ${one.message}`);
const channels = document?.allChannels().all().map((channel) => ({
  address: channel.address(),
  messages: channel.messages().all().map((message) => ({
    id: message.id(),
    required: message.headers().json().required,
    fields: Object.keys(message.payload().json().schema.properties),
  })),
}));
console.log(JSON.stringify({ problems, channels }));
