// Types from the contracts in openapi/: what HTTP answers, and what passes over the socket.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

const contract = (name) => new URL(`../../openapi/${name}.json`, import.meta.url);
const target = new URL("../client/src/generated/", import.meta.url);
const read = async (name) => JSON.parse(await readFile(contract(name), "utf8"));

const HEAD = "// Made from openapi/ by scripts/types.mjs; not kept in git.\n\n";

const write = async (name, document, more = "") => {
  const text = astToString(await openapiTS(document, { defaultNonNullable: false }));
  await writeFile(new URL(`${name}.ts`, target), HEAD + text + more);
};

await mkdir(target, { recursive: true });
await write("http", await read("openapi"));

// The schemas of AsyncAPI are those of OpenAPI 3.1, so one generator writes both.
const { components } = await read("asyncapi");
const frames = Object.fromEntries(
  Object.entries(components.messages).map(([name, message]) => [`frame_${name}`, message.payload]),
);
const events = Object.entries(components.schemas)
  .filter(([, schema]) => schema.properties?.seq && schema.properties.type?.const)
  .map(([name]) => `components["schemas"]["${name}"]`);
await write(
  "socket",
  {
    openapi: "3.1.0",
    info: { title: "socket", version: "1" },
    paths: {},
    components: { schemas: { ...components.schemas, ...frames } },
  },
  `\n/** Every event of a game, told apart by its \`type\`. */\nexport type AnyEvent =\n  | ${events.join("\n  | ")};\n`,
);
