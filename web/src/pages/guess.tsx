/** People guess what a speaker meant: the same items that models are asked, and how well both do. */
import type { AnswerTotals, Comparison, Evaluation, EvaluationSet, Item, ItemPage, Receipt, Role } from "@interintent/client";
import { batch, computed, signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ROLE, plural } from "../game/words.ts";
import { Begin } from "../judge/begin.tsx";
import { type Guess, type Guesses, NONE, answerOf, draftOf, handedIn, itemsOf, keepDraft } from "../judge/guesses.ts";
import { RecordView } from "../judge/record.tsx";
import { Speech } from "../parts/speech.tsx";
import { Empty, Fault, Loading } from "../parts/states.tsx";
import { fixed } from "../report/numbers.ts";
import { href, place } from "../router.ts";
import { key, server } from "../session.ts";

const SURE = ["a mere guess", "hardly sure", "rather unsure", "rather sure", "sure", "certain"];

const LETTERS = "abcdefghijklmnopqrstuvwxyz";

const share = (value: number | null): string => (value === null ? "–" : `${fixed(100 * value, 1)} %`);
const estimate = ({ value, low, high }: { value: number | null; low: number | null; high: number | null }): string =>
  value === null ? "not defined" : `${share(value)}${low === null || high === null ? "" : ` (${share(low)} to ${share(high)})`}`;

/** The figures of what was handed in just now. */
const Score = ({ found }: { found: Evaluation }): JSX.Element => {
  const totals = found.totals as AnswerTotals | null;
  return (
    <section class="panel" aria-label="What you handed in">
      <h2>What you handed in</h2>
      {totals ? (
        <dl class="figures">
          <div>
            <dt>F1 of intentions</dt>
            <dd>{estimate(totals.micro.f1)}</dd>
          </div>
          <div>
            <dt>By chance</dt>
            <dd>{share(totals.chance)}</dd>
          </div>
          <div>
            <dt>Counted</dt>
            <dd>
              {plural(totals.items, "item")} of {found.items}, {plural(totals.games, "game")}
            </dd>
          </div>
          {found.roles && found.roles.accuracy.den > 0 && (
            <div>
              <dt>Roles right</dt>
              <dd>
                {found.roles.accuracy.num} of {found.roles.accuracy.den}
              </dd>
            </div>
          )}
        </dl>
      ) : (
        <p>{plural(found.answers, "guess", "guesses")} stored. The server tells no figures for so few, or not to this key.</p>
      )}
    </section>
  );
};

/** What a leaderboard says of items whose speaker's role everybody could look up. */
const OpenBook = ({ set }: { set: EvaluationSet }): JSX.Element | null => {
  const totals = set.leaderboard?.find((entry) => entry.totals)?.totals;
  if (!totals?.roles_public) return null;
  return (
    <p class="muted">
      Everybody could look up the roles in the games of {totals.roles_public} of the {plural(totals.items, "item")} that count: raters who did guess better.
    </p>
  );
};

/** Everybody's last answers to an open set, the best first. */
const Leaderboard = ({ set }: { set: EvaluationSet }): JSX.Element => (
  <section class="panel wide" aria-label="Leaderboard">
    <h2>Leaderboard</h2>
    {!set.leaderboard?.length && <p>Nobody answered.</p>}
    {set.guessable_seeds && <p class="muted">The seeds of these games may be guessable: raters who played them again may have known the answers.</p>}
    <OpenBook set={set} />
    <div class="scroll" tabIndex={0} role="group" aria-label="Leaderboard, to be scrolled">
      <table class="history plain">
        <thead>
          <tr>
            {["Rater", "F1", "Items answered", "Roles right"].map((name) => (
              <th scope="col" key={name}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {set.leaderboard?.map(({ entry_id, rater, items, totals, roles }) => (
            <tr key={entry_id}>
              <th scope="row">
                <bdi>{rater.name}</bdi> <span class="muted">{rater.kind}</span>
              </th>
              <td>{totals ? estimate(totals.micro.f1) : "–"}</td>
              <td>
                {items} of {set.items}
              </td>
              <td>{roles ? `${roles.accuracy.num} of ${roles.accuracy.den}` : "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  </section>
);

type Beside = { name: string; kind: string; found?: Comparison; fault?: string };

/** Beside each of the others who guessed the same items. */
const Others = ({ rater, beside }: { rater: string; beside: readonly Beside[] }): JSX.Element | null =>
  beside.length === 0 ? null : (
    <section class="panel wide" aria-label="Beside the others">
      <h2>Beside the others, on what both guessed</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="The others, to be scrolled">
        <table class="history plain">
          <thead>
            <tr>
              {["Rater", "Shared", "Its F1", `F1 of ${rater}`, "Difference"].map((name) => (
                <th scope="col" key={name}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {beside.map(({ name, kind, found, fault }) => {
              const f1 = found?.totals?.["guessing"]?.measures["f1"];
              return (
                <tr key={name}>
                  <th scope="row">
                    <bdi>{name}</bdi> <span class="muted">{kind}</span>
                  </th>
                  {f1 ? (
                    <>
                      <td>{plural(found!.shared, "item")}</td>
                      <td>{share(f1.second.value)}</td>
                      <td>{share(f1.first.value)}</td>
                      <td>{estimate(f1.difference)}</td>
                    </>
                  ) : (
                    <td colSpan={4} class="muted" dir="auto">
                      {fault ?? `${plural(found?.shared ?? 0, "item")} shared: too few for figures`}
                    </td>
                  )}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );

/** So many guesses to a sealed set are handed in by themselves: what counts are the last ones before its date. */
const SOME = 10;

/** Milliseconds until a set is looked at again whose answers are being scored. */
const AGAIN_MS = 2000;

export const GuessPage = (): JSX.Element => {
  const { rater, of, limit } = place.value.query;
  return rater && of ? (
    <Guessing key={`${rater} ${of} ${limit}`} rater={rater} of={of} limit={Number(limit) || 20} />
  ) : (
    <Begin title="Guess" page="/guess" query={(id) => ({ of: id })} of={of ?? ""} label="A batch (b_…) or game (g_…) to practise on, or a sealed set (s_…)" usual={20} most={200} sets>
      You see what one seat saw up to a speech, and say what the speaker meant with it. Models are asked the same, so you can compare
      yourself with them.
    </Begin>
  );
};

const Guessing = ({ rater, of, limit }: { rater: string; of: string; limit: number }): JSX.Element => {
  const isSet = of.startsWith("s_");
  const among = { [of.startsWith("g_") ? "game" : "batch"]: of };
  const [page, setPage] = useState<ItemPage | undefined>(undefined);
  const [about, setAbout] = useState<EvaluationSet | undefined>(undefined);
  const [fault, setFault] = useState<unknown>(undefined);
  const [round, setRound] = useState(0);
  // Signals: a key that is pressed before the page has drawn the last one must find what that one did.
  const at = useMemo(() => signal(0), []);
  const guesses = useMemo(() => signal<Guesses>(new Map()), []);
  /** What the service holds; a guess that was changed since is another one. */
  const stored = useMemo(() => signal<Guesses>(new Map()), []);
  const unsent = useMemo(() => computed(() => new Map([...guesses.value].filter(([id, guess]) => stored.value.get(id) !== guess))), []);
  const sending = useMemo(() => signal(false), []);
  const [refused, setRefused] = useState<unknown>(undefined);
  const [score, setScore] = useState<Evaluation | Receipt | undefined>(undefined);
  const [beside, setBeside] = useState<readonly Beside[]>([]);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    const stop = new AbortController();
    setPage(undefined);
    setFault(undefined);
    const load = async (): Promise<void> => {
      const set = isSet ? await server.get<EvaluationSet>(`/evaluations/sets/${of}`, {}, { signal: stop.signal }) : undefined;
      const found = isSet ? await itemsOf(of, stop.signal) : await server.items({ dimension: "guessing", ...among, limit }, stop.signal);
      const given = set?.status === "sealed" ? await handedIn(of, rater, stop.signal) : new Map<string, Guess>();
      batch(() => {
        stored.value = given;
        guesses.value = new Map([...given, ...draftOf(of, rater)]);
      });
      const first = found.items.findIndex(({ id }) => !guesses.peek().has(id));
      at.value = first < 0 ? found.items.length : first;
      setAbout(set);
      setPage(found);
    };
    load().catch((error: unknown) => stop.signal.aborted || setFault(error));
    return () => stop.abort();
  }, [key.value, round]);
  useEffect(() => {
    if (about?.status !== "scoring") return undefined;
    const timer = setTimeout(() => server.get<EvaluationSet>(`/evaluations/sets/${of}`).then(setAbout, setFault), AGAIN_MS);
    return () => clearTimeout(timer);
  }, [about]);

  // When a set is open, its items can be practised on as others.
  const sealed = about?.status === "sealed";
  const items = page?.items ?? [];
  const open = unsent.value;
  useEffect(() => {
    if (page) keepDraft(of, rater, open);
  }, [open, page]);
  // What was not handed in is lost with the tab: the browser asks.
  useEffect(() => {
    if (!open.size) return undefined;
    const stay = (event: BeforeUnloadEvent): void => event.preventDefault();
    addEventListener("beforeunload", stay);
    return () => removeEventListener("beforeunload", stay);
  }, [open.size > 0]);

  const compare = async (): Promise<void> => {
    const { evaluations } = await server.get<{ evaluations: Evaluation[] }>("/evaluations", { dimension: "guessing", limit: 200 });
    const others = new Map(evaluations.filter((one) => one.rater.name !== rater).map((one) => [one.rater.name, one.rater.kind]));
    const found: Beside[] = [];
    for (const [name, kind] of others)
      try {
        const compared = await server.get<Comparison>("/evaluations/compare", { dimension: "guessing", first: rater, second: name, ...among });
        if (compared.shared) found.push({ name, kind, found: compared });
      } catch (error) {
        found.push({ name, kind, fault: error instanceof Error ? error.message : String(error) });
      }
    setBeside(found);
  };
  const handIn = async (): Promise<void> => {
    if (sending.value) return;
    sending.value = true;
    setRefused(undefined);
    try {
      const mine = unsent.value;
      // A set keeps a rater's last answers alone, so it is given all of them; some may come from another device.
      const given = sealed ? await handedIn(of, rater) : new Map<string, Guess>();
      const whole = sealed ? new Map([...given, ...mine]) : mine;
      const body = { rater: { name: rater, kind: "human" }, answers: [...whole].map(answerOf) };
      if (sealed) setScore(await server.once<Receipt>(`/evaluations/sets/${of}/answers`, body));
      else setScore(await server.once<Evaluation>("/evaluations", { ...body, dimension: "guessing", variant: page!.variant }));
      // In the meantime a guess may have been changed, or made.
      const changed = unsent.value;
      batch(() => {
        guesses.value = new Map([...guesses.value, ...[...given].filter(([id]) => !changed.has(id))]);
        stored.value = new Map([...stored.value, ...whole]);
      });
      if (!isSet) await compare();
    } catch (error) {
      setRefused(error);
    } finally {
      sending.value = false;
    }
  };

  const item = items[at.value];
  const guessOf = (one: Item): Guess => guesses.value.get(one.id) ?? NONE;
  const change = (changed: Partial<Guess>): void => {
    const now = items[at.value];
    if (now) guesses.value = new Map(guesses.value).set(now.id, { ...guessOf(now), ...changed });
  };
  const toggle = (id: string): void => {
    const now = items[at.value];
    if (!now) return;
    const { intentions } = guessOf(now);
    change({ intentions: intentions.includes(id) ? intentions.filter((one) => one !== id) : [...intentions, id] });
  };
  const next = (): void => {
    const now = items[at.value];
    if (now && !guesses.value.has(now.id)) guesses.value = new Map(guesses.value).set(now.id, { ...NONE });
    at.value = Math.min(at.value + 1, items.length);
    if (sealed && unsent.value.size >= SOME) void handIn();
  };
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      const now = items[at.value];
      if (event.ctrlKey || event.metaKey || event.altKey || !now) return;
      const target = event.target as HTMLElement;
      if (event.key === "Enter" && !target.closest("button, a, summary, select")) {
        event.preventDefault();
        return next();
      }
      const option = event.key.length === 1 ? now.options?.[LETTERS.indexOf(event.key.toLowerCase())] : undefined;
      if (!option || target.closest("select, dialog, input:not([type=checkbox])")) return;
      event.preventDefault();
      toggle(option.id);
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  });
  useEffect(() => heading.current?.focus({ preventScroll: true }), [item?.id]);

  if (fault !== undefined) return <Fault whole error={fault} again={() => setRound(round + 1)} />;
  if (!page) return <Loading what="the speeches" />;
  if (!items.length)
    return (
      <Empty whole title="There is nothing to guess here">
        <p>Games that are finished hold items if their seats recorded what they intended. Choose others.</p>
        <p>
          <a href={href("/guess", { rater })}>Choose others</a>
        </p>
      </Empty>
    );
  const missing = items.findIndex(({ id }) => !guesses.value.has(id));
  const done = items.filter(({ id }) => guesses.value.has(id)).length;
  return (
    <div class="annotate guess">
      <div class="row judged">
        <progress max={items.length} value={done} aria-label="Progress" />
        <span>{item ? `Speech ${at.value + 1} of ${items.length}` : `${done} of ${plural(items.length, "speech", "speeches")} guessed`}</span>
        <button type="button" disabled={at.value === 0} onClick={() => (at.value -= 1)}>
          Back
        </button>
        {(!item || guesses.value.has(item.id)) && missing >= 0 && missing !== at.value && (
          <button type="button" onClick={() => (at.value = missing)}>
            To the next without a guess
          </button>
        )}
        <button type="button" class={item ? "" : "primary"} disabled={sending.value || !open.size} onClick={() => void handIn()}>
          {sending.value ? "Handing in …" : open.size ? `Hand in ${plural(open.size, "guess", "guesses")}` : "Hand in"}
        </button>
      </div>
      {about && (
        <p class="muted wide">
          <bdi>{about.name}</bdi>: {ABOUT_SET[about.status](new Date(about.closes_at).toLocaleString())}
        </p>
      )}
      {refused !== undefined && <Fault beside error={refused} again={() => void handIn()} />}
      {item ? (
        <ItemView key={item.id} item={item} guess={guessOf(item)} toggle={toggle} change={change} next={next} heading={heading} last={at.value + 1 === items.length} />
      ) : (
        <section class="state">
          <h1>{missing >= 0 ? "You have come to the end." : open.size ? "That was all. Hand it in." : "That was all. Thank you."}</h1>
        </section>
      )}
      {score &&
        ("totals" in score ? (
          <Score found={score} />
        ) : (
          <section class="panel" role="status">
            {plural(score.answers, "guess", "guesses")} to {plural(score.items, "item")} are kept. You can come back any time before the date and go on.
          </section>
        ))}
      <Others rater={rater} beside={beside} />
      {about?.leaderboard && <Leaderboard set={about} />}
    </div>
  );
};

const ABOUT_SET: Record<EvaluationSet["status"], (date: string) => string> = {
  sealed: (date) =>
    `sealed until ${date}. Nothing is told before. What you hand in under this name is kept until then: come back with the same key and go on.`,
  scoring: () => "closed. All answers are being scored.",
  open: () => "open. Everybody's figures stand below; you may practise on its items.",
  withdrawn: () => "withdrawn by its owner. Nothing more is taken, and nothing is scored.",
};

interface ItemProps {
  item: Item;
  guess: Guess;
  toggle: (id: string) => void;
  change: (changed: Partial<Guess>) => void;
  next: () => void;
  heading: { current: HTMLHeadingElement | null };
  last: boolean;
}

const ItemView = ({ item, guess, toggle, change, next, heading, last }: ItemProps): JSX.Element => (
  <>
    <div class="material">
      <section class="panel" aria-label="What the reader saw">
        <h2>What seat {item.reader} saw</h2>
        <RecordView text={item.context} />
      </section>
    </div>
    <div class="mine">
      <section class="panel asked" aria-label="What is asked">
        <h1 ref={heading} tabIndex={-1}>
          What does seat {item.speaker} mean with this?
        </h1>
        <Speech text={item.speech || "It says nothing."} label="The speech" />
        <fieldset>
          <legend>Two or three of these, or none</legend>
          <ul class="choices options">
            {(item.options ?? []).map(({ id, label }, i) => (
              <li key={id}>
                <label class="choice">
                  <input type="checkbox" checked={guess.intentions.includes(id)} onChange={() => toggle(id)} />
                  <span>{label}</span> {LETTERS[i] && <kbd aria-hidden="true">{LETTERS[i]}</kbd>}
                </label>
              </li>
            ))}
          </ul>
        </fieldset>
        <p class="row">
          <label>
            Its role{" "}
            <select value={guess.role} onChange={(event) => change({ role: event.currentTarget.value as Role | "" })}>
              <option value="">I do not say</option>
              {(Object.keys(ROLE) as Role[]).map((role) => (
                <option key={role} value={role}>
                  {ROLE[role]}
                </option>
              ))}
            </select>
          </label>
          {guess.role && (
            <label>
              How sure{" "}
              <select
                value={guess.confidence ?? ""}
                onChange={(event) => change({ confidence: event.currentTarget.value === "" ? null : Number(event.currentTarget.value) })}
              >
                <option value="">I do not say</option>
                {SURE.map((words, i) => (
                  <option key={i} value={i}>
                    {i}: {words}
                  </option>
                ))}
              </select>
            </label>
          )}
        </p>
        <p class="row">
          <button type="button" class="primary" onClick={next}>
            {last ? "Done" : "Next"} <kbd>Enter</kbd>
          </button>
        </p>
      </section>
    </div>
  </>
);
