/** What raters and judges found of the intentions in a game: whether each was reasonable, and whether it was followed. */
import type { GameEvent, Judgement } from "@interintent/client";
import { signal } from "@preact/signals";

/** The least score with which an intention counts as followed, as in `evaluators/ground/judgements.py`. */
const SUFFICIENT = 3;

const kept = signal<ReadonlyMap<string, readonly Judgement[]>>(new Map());

const name = (request: string, stage: string, intention: string): string => `${request} ${stage} ${intention}`;

export const keepJudgements = (judgements: readonly Judgement[]): void => {
  const found = new Map<string, Judgement[]>();
  for (const one of judgements) {
    const key = name(one.request_id, one.stage, one.intention);
    found.set(key, [...(found.get(key) ?? []), one]);
  }
  kept.value = found;
};

/** The judgements of an intention that was chosen at a stage of a speaking turn. */
export const judgementsOf = (request: string, stage: string, intention: string): readonly Judgement[] =>
  kept.value.get(name(request, stage, intention)) ?? [];

/** Whether the scores say that the intention was followed; undefined: there is no score. */
export const isFollowed = ({ think, speak }: Judgement): boolean | undefined => {
  const scores = [think, speak].filter((score) => score !== null);
  return scores.length ? scores.every((score) => score >= SUFFICIENT) : undefined;
};

/** The request that a speech answered. */
export const requestOf = (event: GameEvent | undefined): string =>
  event?.type !== "utterance_made"
    ? ""
    : `${event.round}.${event.attempt}.${event.phase === "reconsider" ? "reconsider" : event.turn === 0 ? "propose_team" : "speak"}.${event.seat}`;
