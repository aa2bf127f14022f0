/** What a seat recorded in private on the way to what it did. */
import type { EventOf, Judgement } from "@interintent/client";
import { diffWordsWithSpace } from "diff";
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { Icon } from "../parts/icons.tsx";
import { Speech } from "../parts/speech.tsx";
import { intentionLabel } from "./catalogue.ts";
import type { Table } from "./fold.ts";
import { isFollowed, judgementsOf } from "./judged.ts";
import type { Mind, Note } from "./story.ts";
import { ROLE, nameOf } from "./words.ts";

const FATE = { kept: "Kept", dropped: "Given up", added: "Taken up" } as const;
const SIGN = { kept: "=", dropped: "−", added: "+" } as const;

/** Two texts as one, with what was taken out and put in marked by the browser's own elements. */
export const Difference = ({ before, after }: { before: string; after: string }): JSX.Element => {
  const parts = useMemo(() => diffWordsWithSpace(before, after, { maxEditLength: 1500 }), [before, after]);
  // Two texts that share little are not one text with changes. Gaps are shared by chance.
  const length = (text: string): number => text.replace(/\s/g, "").length;
  const kept = parts?.reduce((sum, { added, removed, value }) => sum + (added || removed ? 0 : length(value)), 0) ?? 0;
  if (!parts || kept < 0.5 * Math.max(length(before), length(after))) return <Speech text={after} label="The speech" />;
  return (
    <p class="speech difference" dir="auto">
      {parts.map((part, i) =>
        part.added ? <ins key={i}>{part.value}</ins> : part.removed ? <del key={i}>{part.value}</del> : part.value,
      )}
    </p>
  );
};

const RESULT: Record<string, string> = {
  deadline: "the deadline passed",
  attempts: "no attempt was left",
  model_error: "the model gave no usable answer",
  cancelled: "the game was cancelled",
};

const FaultLine = ({ note }: { note: Note }): JSX.Element | null => {
  switch (note.type) {
    case "action_refused":
      return <li>An answer was refused: {note.cause}</li>;
    case "action_defaulted":
      return <li>The default was played: {RESULT[note.cause] ?? note.cause}. This is no decision of the seat.</li>;
    case "reply_unusable":
      return (
        <li>
          A reply could not be used ({note.step}):
          <Speech text={note.raw} label="The unusable reply" />
        </li>
      );
    default:
      return null;
  }
};

/** What raters found of an intention, each on a line. */
const JudgedView = ({ judgements }: { judgements: readonly Judgement[] }): JSX.Element | null =>
  judgements.length ? (
    <ul class="judgements">
      {judgements.map((one) => {
        const followed = isFollowed(one);
        const scores = [one.think === null ? "" : `thinking ${one.think}`, one.speak === null ? "" : `speech ${one.speak}`].filter(Boolean);
        return (
          <li key={one.rater}>
            {one.reasonable !== null && (
              <>
                <Icon name={one.reasonable ? "check" : "cross"} /> {one.reasonable ? "reasonable" : "not reasonable"}{" "}
              </>
            )}
            {followed !== undefined && (
              <>
                <Icon name={followed ? "check" : "cross"} /> {followed ? "followed" : "not followed"} ({scores.join(", ")} of 5){" "}
              </>
            )}
            <span class="muted">
              <bdi>{one.rater}</bdi>
              {one.comment && (
                <>
                  : <bdi>{one.comment}</bdi>
                </>
              )}
            </span>
          </li>
        );
      })}
    </ul>
  ) : null;

interface MindProps {
  mind: Mind;
  table: Table;
  said: string | null;
  /** The request that the seat answered, for what raters found of it. */
  request?: string;
}

export const MindView = ({ mind, table, said, request = "" }: MindProps): JSX.Element => {
  const final = said ?? mind.final;
  return (
    <div class="mind">
      {mind.faults.length > 0 && (
        <ul class="faults">
          {mind.faults.map((note, i) => (
            <FaultLine key={i} note={note} />
          ))}
        </ul>
      )}
      {mind.beliefs.length > 0 && <Beliefs beliefs={mind.beliefs} table={table} />}
      {mind.intended.length > 0 && (
        <section>
          <h3 class="small">Intends</h3>
          <ul class="intended">
            {mind.intended.map(({ id, reason, fate }) => (
              <li key={`${fate}-${id}`} class={`fate-${fate}`}>
                <span class="sign" aria-hidden="true">
                  {SIGN[fate]}
                </span>
                <span>
                  <span class="hidden">{FATE[fate]}: </span>
                  <span class="intention">{intentionLabel(id)}</span>
                  {fate !== "kept" && <span class="fate"> {FATE[fate].toLowerCase()}</span>}
                  {reason && <span class="reason" dir="auto">{reason}</span>}
                  <JudgedView judgements={judgementsOf(request, fate === "dropped" ? "first" : "final", id)} />
                </span>
              </li>
            ))}
          </ul>
          {mind.why && <Speech text={mind.why} label="Why these intentions" />}
        </section>
      )}
      {mind.think && (
        <section class="thinks">
          <h3 class="small">
            <Icon name="thought" /> Thinks
          </h3>
          <Speech text={mind.think} label="What the seat thinks" />
        </section>
      )}
      {mind.readings.length > 0 && (
        <section>
          <h3 class="small">Imagines how others read it</h3>
          <dl class="readings">
            {mind.readings.map(({ by, text }, i) => (
              <div key={i}>
                <dt>{readBy(by, table)}</dt>
                <dd dir="auto">{text}</dd>
              </div>
            ))}
          </dl>
          {mind.revealsRole !== null && (
            <p class="muted">{mind.revealsRole ? "Finds that it gives the role away." : "Finds that it keeps the role hidden."}</p>
          )}
        </section>
      )}
      {mind.revision && (
        <section class="thinks">
          <h3 class="small">Thinks again</h3>
          <Speech text={mind.revision} label="What the seat thinks again" />
        </section>
      )}
      {mind.draft !== null && final !== null && mind.draft !== final && (
        <section>
          <h3 class="small">From draft to speech</h3>
          <Difference before={mind.draft} after={final} />
        </section>
      )}
      {mind.draft !== null && mind.draft === final && <p class="muted">The draft was said as it was.</p>}
      {mind.explanations.map(({ about, text }, i) => (
        <section key={i}>
          <h3 class="small">Why: {ABOUT[about] ?? about}</h3>
          <Speech text={text} label="The reason given" />
        </section>
      ))}
    </div>
  );
};

const ABOUT: Record<string, string> = {
  propose_team: "the team",
  speak: "the speech",
  reconsider: "the team it stays with",
  vote: "the vote",
  card: "the card",
  summarise: "the summary",
  assassinate: "the target",
};

const readBy = (by: string, table: Table): string => {
  const seat = /^seat (\d+)$/.exec(by)?.[1];
  return seat ? nameOf(table, Number(seat)) : (ROLE[by as keyof typeof ROLE] ?? by);
};

const Beliefs = ({ beliefs, table }: { beliefs: EventOf<"beliefs_formed">["beliefs"]; table: Table }): JSX.Element => (
  <section>
    <h3 class="small">Believes</h3>
    <ul class="believed">
      {beliefs.map((belief, i) => (
        <li key={i}>
          <bdi>{nameOf(table, belief.about)}</bdi> {belief.role ? `is ${ROLE[belief.role]}` : "is hard to tell"}
          {belief.confidence !== null && belief.confidence !== undefined && (
            <span class="muted"> (confidence {belief.confidence} of 5)</span>
          )}
          {belief.intentions.length > 0 && (
            <span class="muted">, who wants: {belief.intentions.map(intentionLabel).join("; ")}</span>
          )}
          {belief.reasoning && <span class="reason" dir="auto">{belief.reasoning}</span>}
        </li>
      ))}
    </ul>
  </section>
);
