// Prints what the public AsyncAPI parser says of the document on standard input, as JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(`${process.argv[2]}/`);
const { Parser } = require("@asyncapi/parser");

const { document, diagnostics } = await new Parser().parse(readFileSync(0, "utf8"));
const operations = document ? document.operations().all().map((one) => one.id()) : [];
const messages = document ? document.messages().all().map((one) => one.id()) : [];
console.log(JSON.stringify({ read: Boolean(document), diagnostics, operations, messages }));
