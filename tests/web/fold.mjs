// Folds logs with the pages' own reducer: lines of JSON in, for each log the table after every event out.
import { createInterface } from "node:readline";
import { project } from "../../web/src/game/eyes.ts";
import { fold } from "../../web/src/game/fold.ts";

for await (const line of createInterface({ input: process.stdin })) {
  const { log, eyes } = JSON.parse(line);
  const seen = project(log, eyes);
  console.log(JSON.stringify({ seen: seen.map((event) => event.type), tables: fold(seen) }));
}
