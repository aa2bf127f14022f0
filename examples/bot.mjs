// Plays one seat at random. Needs Node 22 or newer, which has WebSocket built in:
// node bot.mjs ws://localhost:8000/ws GAME TOKEN
if (typeof WebSocket === "undefined") {
  console.error(`bot.mjs needs Node 22 or newer, which has WebSocket built in; this is ${process.version}`);
  process.exit(2);
}
const [url, game, token] = process.argv.slice(2);
const COME_BACK = new Set([1001, 1005, 1006, 1011, 1012, 1013, 4408, 4413, 4429]);
const events = []; // all that this seat has seen
const given = new Map(); // our answers, by request
let failures = 0;
let isTold; // whether it was said that there is no connection
let ids = 0;

const any = (list) => list[Math.floor(Math.random() * list.length)];
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// What to answer: any legal action, or a sentence.
function choose(request) {
  if (request.legal) {
    const action = any(request.legal);
    return action.team ? { ...action, text: "This is my team." } : action;
  }
  if (request.kind === "speak") {
    return { text: `I have seen ${events.length} things happen, and I trust nobody yet.` };
  }
  return request.default;
}

// One connection; resolves to how it ended.
function talk() {
  return new Promise((resolve) => {
    const socket = new WebSocket(url, ["avalon.v1"]);
    const send = (message) => socket.send(JSON.stringify(message));
    const answer = (request) => {
      const name = request.request_id;
      if (!given.has(name)) {
        given.set(name, { t: "act", id: `a${++ids}`, request_id: name, action: choose(request) });
      }
      send(given.get(name)); // asked again after a break: the same answer
    };

    socket.onopen = () => {
      isTold = false;
      send({ t: "identify", v: 1, game, token, after: events.length, client: "example-js/1.0" });
    };
    socket.onmessage = ({ data }) => {
      const frame = JSON.parse(data);
      if (frame.t === "events") {
        events.push(...frame.items);
        failures = 0;
      } else if (frame.t === "request") {
        answer(frame);
      } else if (frame.t === "error") {
        console.error(frame.code, frame.detail);
        if (frame.request && /^(illegal|invalid)-action$/.test(frame.code)) {
          given.delete(frame.request.request_id); // refused, but still open
          answer(frame.request);
        }
      }
    };
    socket.onerror = ({ message }) => {
      if (!isTold) console.error("trying again:", message || `no connection to ${url}`);
      isTold = true; // a close follows
    };
    socket.onclose = ({ code, reason }) => resolve({ code, reason });
  });
}

for (;;) {
  const { code, reason } = await talk();
  if (code === 1000) break; // the game is over
  if (!COME_BACK.has(code)) {
    console.error(`closed with ${code}: ${reason}`);
    process.exit(1);
  }
  const asked = Number(/retry_after_ms=(\d+)/.exec(reason)?.[1] ?? 0);
  await sleep(asked + Math.random() * Math.min(30_000, 500 * 2 ** failures++));
}
console.log(JSON.stringify(events.at(-1)));
