/** The form for what the seat is asked. Everything can be done with a keyboard, and nothing is sent by accident twice. */
import { type Action, Refused, type Request, type Seat, type Thought } from "@interintent/client";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { intentionLabel } from "../game/catalogue.ts";
import type { Table } from "../game/fold.ts";
import { nameOf, plural } from "../game/words.ts";
import type { SeatSource } from "./seat.ts";
import { type Draft, draftOf, keepDraft } from "./tokens.ts";

export const ASKED: Record<string, string> = {
  propose_team: "Choose a team",
  reconsider: "Keep the team, or change it",
  speak: "It is your turn to speak",
  vote: "Shall this team go?",
  card: "You are on the quest: play a card",
  summarise: "Sum up the round for yourself",
  assassinate: "Name Merlin",
};

const MAX_TEXT = 4000;

const Left = ({ until }: { until: number }): JSX.Element => {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [until]);
  const seconds = Math.max(0, Math.ceil((until - now) / 1000));
  return (
    <span class={`left ${seconds <= 15 ? "warning" : "muted"}`} role="timer" aria-label="Time left">
      {seconds < 3600
        ? `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`
        : `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`}{" "}
      left
    </span>
  );
};

interface Props {
  source: SeatSource;
  request: Request;
  table: Table;
}

type Send = (action: Action) => void;

const Words = ({ name, text, setText, rows = 4 }: { name: string; text: string; setText: (text: string) => void; rows?: number }): JSX.Element => (
  <label class="field">
    {name}
    <textarea dir="auto" rows={rows} maxLength={MAX_TEXT} value={text} onInput={(event) => setText(event.currentTarget.value)} />
  </label>
);

const Seats = ({
  table,
  seats,
  many,
  chosen,
  choose,
}: {
  table: Table;
  seats: readonly Seat[];
  many: boolean;
  chosen: readonly Seat[];
  choose: (seats: Seat[]) => void;
}): JSX.Element => (
  <ul class="choices">
    {seats.map((seat) => (
      <li key={seat}>
        <label class={`choice hue-${seat}`}>
          <input
            type={many ? "checkbox" : "radio"}
            name="seat"
            checked={chosen.includes(seat)}
            onChange={() =>
              choose(many ? (chosen.includes(seat) ? chosen.filter((one) => one !== seat) : [...chosen, seat]) : [seat])
            }
          />
          <span class="chip" aria-hidden="true">
            {seat}
          </span>
          <bdi>{nameOf(table, seat)}</bdi>
        </label>
      </li>
    ))}
  </ul>
);

interface QuestionProps extends Omit<Props, "source"> {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  send: Send;
  busy: boolean;
}

const Question = ({ request, table, draft: { text, team }, change, send, busy }: QuestionProps): JSX.Element => {
  const setText = (text: string): void => change({ text });
  const setTeam = (team: readonly Seat[]): void => change({ team });
  const all = table.names.map((_, i) => i + 1);
  const size = request.team_size ?? 0;
  const legal = (request.legal ?? []) as Action[];
  const go = (words: string, ready: boolean, action: () => Action): ComponentChildren => (
    <button type="button" class="primary" disabled={busy || !ready} onClick={() => send(action())}>
      {words}
    </button>
  );
  switch (request.kind) {
    case "propose_team":
    case "reconsider":
      return (
        <>
          <fieldset>
            <legend>
              {plural(size, "seat")}, {team.length} chosen
            </legend>
            <Seats table={table} seats={all} many chosen={team} choose={setTeam} />
          </fieldset>
          <Words name="What you say about it (if you like)" text={text} setText={setText} rows={3} />
          {go("Propose this team", team.length === size, () => ({
            team: [...team].sort((one, other) => one - other),
            ...(text.trim() ? { text: text.trim() } : {}),
          }))}
        </>
      );
    case "speak":
      return (
        <>
          <Words name="What you say to the table" text={text} setText={setText} />
          <p class="row">
            {go("Say it", text.trim() !== "", () => ({ text: text.trim() }))}
            <button type="button" disabled={busy} onClick={() => send({ text: "" })}>
              Say nothing
            </button>
          </p>
        </>
      );
    case "vote":
    case "card": {
      const field = request.kind === "vote" ? "approve" : "success";
      const words = request.kind === "vote" ? ["Approve", "Reject"] : ["Success", "Fail"];
      return (
        <p class="row">
          {[true, false].map(
            (value, i) =>
              legal.some((one) => one[field] === value) && (
                <button key={words[i]} type="button" class={value ? "primary" : ""} disabled={busy} onClick={() => send({ [field]: value })}>
                  {words[i]}
                </button>
              ),
          )}
        </p>
      );
    }
    case "assassinate": {
      const targets = legal.map(({ target }) => target).filter((target): target is Seat => typeof target === "number");
      return (
        <>
          <fieldset>
            <legend>Who is Merlin?</legend>
            <Seats table={table} seats={targets} many={false} chosen={team} choose={setTeam} />
          </fieldset>
          <p class="row">
            {go("Shoot", team.length === 1, () => ({ target: team[0]! }))}
            {legal.some(({ target }) => target === null) && (
              <button type="button" disabled={busy} onClick={() => send({ target: null })}>
                Hold fire
              </button>
            )}
          </p>
        </>
      );
    }
    default:
      return (
        <>
          <Words name="Your notes: only you will see them" text={text} setText={setText} />
          {go("Keep these notes", true, () => ({ answers: text.trim() ? { notes: text.trim() } : {} }))}
        </>
      );
  }
};

export const Answer = ({ source, request, table }: Props): JSX.Element => {
  const [busy, setBusy] = useState(false);
  const [refused, setRefused] = useState("");
  const [begun] = useState(() => draftOf(source.game, source.seat, request.request_id));
  const [draft, setDraft] = useState<Draft>(
    begun ?? { text: "", team: request.kind === "reconsider" ? table.team : [], meant: [], why: "" },
  );
  const { meant, why } = draft;
  const change = (part: Partial<Draft>): void => {
    const changed = { ...draft, ...part };
    setDraft(changed);
    keepDraft(source.game, source.seat, request.request_id, changed);
  };
  const heading = useRef<HTMLHeadingElement>(null);
  // Who uses a keyboard or a screen reader is brought to what is asked.
  useEffect(() => heading.current?.focus({ preventScroll: true }), [request.request_id]);
  const send = (action: Action): void => {
    const thoughts: Thought[] = [];
    if (meant.length) thoughts.push({ type: "intentions_selected", stage: "final", intentions: meant.map((id) => ({ id })) });
    if (why.trim()) thoughts.push({ type: "choice_explained", text: why.trim() });
    setBusy(true);
    setRefused("");
    source.act(request, action, thoughts).then(
      () => setBusy(false),
      (error: unknown) => {
        setBusy(false);
        setRefused(error instanceof Refused ? error.message : "It could not be sent. Try again.");
      },
    );
  };
  return (
    <section class="panel asked" aria-label="What is asked">
      <header class="row">
        <h2 ref={heading} tabIndex={-1}>
          {ASKED[request.kind] ?? request.kind}
        </h2>
        {source.until.value !== undefined && <Left until={source.until.value} />}
      </header>
      <Question request={request} table={table} draft={draft} change={change} send={send} busy={busy} />
      {refused && (
        <p class="warning" role="alert" dir="auto">
          {refused} {request.attempts_left > 0 && `You may try ${plural(request.attempts_left, "more time", "more times")}.`}
        </p>
      )}
      <details class="thoughts" open={begun && (begun.meant.length > 0 || begun.why !== "")}>
        <summary>Record what I think (only you and the researcher see it)</summary>
        {request.menu && (
          <fieldset>
            <legend>What I intend with this</legend>
            <ul class="choices">
              {request.menu.map((id) => (
                <li key={id}>
                  <label class="choice">
                    <input
                      type="checkbox"
                      checked={meant.includes(id)}
                      onChange={() => change({ meant: meant.includes(id) ? meant.filter((one) => one !== id) : [...meant, id] })}
                    />
                    {intentionLabel(id)}
                  </label>
                </li>
              ))}
            </ul>
          </fieldset>
        )}
        <Words name="Why I do this" text={why} setText={(why) => change({ why })} rows={2} />
      </details>
    </section>
  );
};
