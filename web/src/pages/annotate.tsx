/** People judge speaking turns: the context, the thinking and the speech, and one key a score. */
import { newId } from "@interintent/client";
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Begin } from "../judge/begin.tsx";
import { type Judgement, type Part, type Question, type Task, judgementOf, questionsOf, whole } from "../judge/questions.ts";
import { RecordView } from "../judge/record.tsx";
import { Speech } from "../parts/speech.tsx";
import { Empty, Fault, Loading } from "../parts/states.tsx";
import { fixed } from "../report/numbers.ts";
import { href, place } from "../router.ts";
import { key, server } from "../session.ts";

interface Example {
  intention: string;
  text: string;
  score: number;
  why: string;
}

interface Guidelines {
  selection: string;
  following: string;
  examples: Record<Part, readonly Example[]>;
}

interface Progress {
  raters: readonly { rater: string; dealt: number; judged: number }[];
  agreement: readonly { judged: Part; raters: number; items: number; kappa: number | null; alpha: number | null }[];
}

const ASKS: Record<Part, string> = {
  reasonable: "Is this intention reasonable, in what the seat knew when it chose it?",
  think: "How well does the thinking act on it?",
  speak: "How well does the speech act on it?",
};

const PART: Record<Part, string> = { reasonable: "Reasonable", think: "Thinking", speak: "Speaking" };

const SCORES: Record<Part, readonly { score: number; key: string; name: string }[]> = {
  reasonable: [
    { score: 1, key: "y", name: "Yes" },
    { score: 0, key: "n", name: "No" },
  ],
  think: [5, 4, 3, 2, 1].map((score) => ({ score, key: String(score), name: "" })),
  speak: [5, 4, 3, 2, 1].map((score) => ({ score, key: String(score), name: "" })),
};

const MEANING: Record<number, string> = {
  5: "fully, concretely",
  4: "nearly",
  3: "on wrong facts",
  2: "only repeated",
  1: "absent or contrary",
};

const WITHOUT: Record<string, string> = {
  speech: "When it chose, the seat had not heard the last speech of the record yet.",
  summary: "When it chose, the seat had not written its summary of the attempt before yet.",
};

const Guide = ({ guidelines, part }: { guidelines: Guidelines; part: Part }): JSX.Element => (
  <details class="panel guide">
    <summary>Guidelines and examples</summary>
    <ul class="examples">
      {guidelines.examples[part].map(({ intention, text, score, why }) => (
        <li key={text}>
          <p>
            <strong>{part === "reasonable" ? (score ? "Yes" : "No") : score}</strong> <span class="muted">{intention}</span>
          </p>
          <p>{text}</p>
          <p class="muted">{why}</p>
        </li>
      ))}
    </ul>
    <div class="rubric">{part === "reasonable" ? guidelines.selection : guidelines.following}</div>
  </details>
);

const Figures = ({ progress }: { progress: Progress }): JSX.Element => (
  <section class="panel" aria-label="Everybody so far">
    <h2>Everybody so far</h2>
    <ul>
      {progress.raters.map(({ rater, dealt, judged }) => (
        <li key={rater}>
          <bdi>{rater}</bdi>: {judged} of {dealt} speeches
        </li>
      ))}
    </ul>
    <ul>
      {progress.agreement
        .filter(({ items }) => items > 0)
        .map(({ judged, items, kappa, alpha }) => (
          <li key={judged}>
            {PART[judged]}: {kappa === null && alpha === null ? "agreement is told" : ""}
            {kappa !== null && ` kappa ${fixed(kappa, 2)}`}
            {alpha !== null && `, alpha ${fixed(alpha, 2)}`}
            {kappa === null && alpha === null ? " when more is shared" : ""} ({items} shared)
          </li>
        ))}
    </ul>
  </section>
);

interface Saving {
  /** So that what is sent again counts once. */
  name: string;
  judgements: readonly (Judgement | undefined)[];
  revise: boolean;
}

export const AnnotatePage = (): JSX.Element => {
  const { rater, batch, game, limit } = place.value.query;
  const [tasks, setTasks] = useState<readonly Task[] | undefined>(undefined);
  const [guidelines, setGuidelines] = useState<Guidelines | undefined>(undefined);
  const [progress, setProgress] = useState<Progress | undefined>(undefined);
  const [fault, setFault] = useState<unknown>(undefined);
  // Signals: a key that is pressed before the page has drawn the last one must find the next question.
  const at = useMemo(() => signal(0), []);
  const scores = useMemo(() => signal<ReadonlyMap<Question, number>>(new Map()), []);
  const [notes, setNotes] = useState<ReadonlyMap<string, string>>(new Map());
  /** What is on its way to the service, the oldest first. */
  const unsaved = useMemo(() => signal<readonly Saving[]>([]), []);
  const [refused, setRefused] = useState<unknown>(undefined);
  const [round, setRound] = useState(0);
  const sending = useRef(false);
  const sent = useRef(new Set<string>());
  const heading = useRef<HTMLHeadingElement>(null);
  const questions = useMemo(() => questionsOf(tasks ?? []), [tasks]);
  const look = (): void => {
    server.get<Progress>("/annotations/progress", { batch, game }).then(setProgress, () => undefined);
  };
  useEffect(() => {
    setTasks(undefined);
    setFault(undefined);
    if (!rater || !(batch || game)) return undefined;
    const stop = new AbortController();
    const deal = async (): Promise<void> => {
      // What another key was refused for.
      if (unsaved.value.length) await send();
      const { tasks } = await server.get<{ tasks: Task[] }>("/annotations/tasks", { rater, batch, game, limit: limit ?? 10 }, { signal: stop.signal });
      at.value = 0;
      scores.value = new Map();
      sent.current = new Set();
      setNotes(new Map());
      setTasks(tasks);
    };
    deal().catch((error: unknown) => stop.signal.aborted || setFault(error));
    server.get<Guidelines>("/annotations/guidelines").then(setGuidelines, () => undefined);
    look();
    return () => stop.abort();
  }, [rater, batch, game, limit, key.value, round]);
  // What was not saved is lost with the page: the browser asks.
  const left = unsaved.value.length > 0;
  useEffect(() => {
    if (!left) return undefined;
    const stay = (event: BeforeUnloadEvent): void => event.preventDefault();
    addEventListener("beforeunload", stay);
    return () => removeEventListener("beforeunload", stay);
  }, [left]);
  const question = questions[at.value];
  // A speech is sent when all of it is judged: who leaves in the midst of one is dealt it again.
  const save = (of: Question, given: ReadonlyMap<Question, number>): void => {
    const asked = questions.filter(({ task }) => task === of.task);
    if (asked.some((one) => !given.has(one))) return;
    const name = `${of.task.game_id} ${of.task.request_id}`;
    const again = sent.current.has(name);
    const some = again ? [of] : asked.filter((one, i) => asked.findIndex((other) => judgementOf(other) === judgementOf(one)) === i);
    const judgements = some.map((one) => whole(questions, given, one, notes.get(judgementOf(one))?.trim() ?? ""));
    sent.current.add(name);
    unsaved.value = [...unsaved.value, { name: newId(), judgements, revise: again }];
    void send();
  };
  /** One after the other: a later score of the same item replaces the earlier one. What is refused stays, to be sent again. */
  const send = async (): Promise<void> => {
    if (sending.current) return;
    sending.current = true;
    setRefused(undefined);
    try {
      for (let first = unsaved.value[0]; first; first = unsaved.value[0]) {
        const { name, ...judged } = first;
        await server.once("/annotations", { rater: { name: rater, kind: "human" }, ...judged }, name);
        unsaved.value = unsaved.value.slice(1);
        look();
      }
    } catch (error) {
      setRefused(error);
    } finally {
      sending.current = false;
    }
  };
  const answer = (score: number): void => {
    const now = questions[at.value];
    if (!now) return;
    scores.value = new Map(scores.value).set(now, score);
    at.value += 1;
    save(now, scores.value);
  };
  const back = (): void => {
    at.value = Math.max(0, at.value - 1);
  };
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      if (event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement) return;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "u" || event.key === "Backspace") return back();
      const now = questions[at.value];
      const found = now && SCORES[now.part].find(({ key }) => key === event.key.toLowerCase());
      if (found) {
        event.preventDefault();
        answer(found.score);
      }
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  });
  useEffect(() => heading.current?.focus({ preventScroll: true }), [question?.task]);

  if (!rater || !(batch || game))
    return (
      <Begin
        title="Judge"
        page="/annotate"
        query={(id) => ({ [id.startsWith("g_") ? "game" : "batch"]: id })}
        of={batch ?? game ?? ""}
        label="The batch (b_…) or game (g_…) to judge"
        usual={10}
        most={50}
      >
        You get speeches of finished games, with what the seat knew, meant and thought, and say how well they fit.
      </Begin>
    );
  if (fault !== undefined) return <Fault whole error={fault} again={() => setRound(round + 1)} />;
  if (!tasks) return <Loading what="your tasks" />;
  if (!tasks.length)
    return (
      <Empty whole title="There is nothing to judge here">
        <p>These games hold no further speech for you. Judge others, or ask who gave you the address.</p>
        <p>
          <a href={href("/annotate", { rater })}>Judge others</a>
        </p>
      </Empty>
    );
  const done = tasks.indexOf(question?.task ?? tasks.at(-1)!) + (question ? 0 : 1);
  const bar = (
    <>
    <p class="row judged">
      <progress max={questions.length} value={at.value} aria-label="Progress" />
      <span>
        Speech {Math.min(done + 1, tasks.length)} of {tasks.length}
      </span>
      <span class="muted" role="status">
        {left ? (refused === undefined ? "Saving …" : "Not saved") : sent.current.size ? "Saved" : ""}
      </span>
      <button type="button" disabled={at.value === 0} onClick={back}>
        Undo <kbd>u</kbd>
      </button>
    </p>
    {refused !== undefined && <Fault beside error={refused} again={() => void send()} />}
    </>
  );
  if (!question)
    return (
      <div class="annotate">
        {bar}
        <Empty title="That was all. Thank you.">
          <p class="row">
            <button type="button" class="primary" disabled={left} onClick={() => setRound(round + 1)}>
              More speeches
            </button>
          </p>
        </Empty>
        {progress && <Figures progress={progress} />}
      </div>
    );
  const { task, stage, intention, part } = question;
  const name = judgementOf(question);
  return (
    <div class="annotate">
      {bar}
      <div class="material">
        <section class="panel" aria-label="What the seat knew">
          <h2>What seat {task.speaker} knew</h2>
          {part === "reasonable" && stage.without && <p class="warning">{WITHOUT[stage.without]}</p>}
          <RecordView text={task.context} />
        </section>
      </div>
      <div class="mine">
        <section class="panel asked" aria-label="What is asked">
          <h1 ref={heading} tabIndex={-1}>
            {stage.stage === "first" ? "First choice" : "Final choice"}: <q>{intention.label}</q>
          </h1>
          {part === "reasonable" && (intention.reason || stage.reason) && (
            <p dir="auto">
              <span class="muted">Why it chose so:</span> {intention.reason || stage.reason}
            </p>
          )}
          <p>{ASKS[part]}</p>
          <p class="row scores">
            {SCORES[part].map(({ score, key: sign, name: words }) => (
              <button key={score} type="button" class={scores.value.get(question) === score ? "primary" : ""} aria-keyshortcuts={sign} onClick={() => answer(score)}>
                {words || score} <span class="muted">{words ? "" : MEANING[score]}</span> {words && <kbd>{sign}</kbd>}
              </button>
            ))}
          </p>
          <label class="field">
            Note (if you like)
            <input
              dir="auto"
              maxLength={500}
              value={notes.get(name) ?? ""}
              onInput={(event) => setNotes(new Map(notes).set(name, event.currentTarget.value))}
            />
          </label>
        </section>
        <section class="panel" aria-label="What it thought and said">
          <h2>Its thinking</h2>
          <Speech text={stage.think || "—"} label="Its thinking" />
          <h2>{stage.stage === "first" ? "Its draft" : "Its speech"}</h2>
          <Speech text={stage.speech || "—"} label="Its speech" />
        </section>
        {guidelines && <Guide guidelines={guidelines} part={part} />}
        {progress && <Figures progress={progress} />}
      </div>
    </div>
  );
};
