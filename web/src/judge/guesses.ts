/** What a person guesses of speeches, and what becomes of it until it is handed in. */
import type { ItemPage, OwnReceipts, Role } from "@interintent/client";
import { drop, keep, kept } from "../parts/tab.ts";
import { server } from "../session.ts";

export interface Guess {
  intentions: readonly string[];
  role: Role | "";
  confidence: number | null;
}

export const NONE: Guess = { intentions: [], role: "", confidence: null };

export type Guesses = ReadonlyMap<string, Guess>;

/** As it is handed in. */
export const answerOf = ([item_id, { intentions, role, confidence }]: [string, Guess]): object => ({
  item_id,
  intentions,
  ...(role ? { role, ...(confidence === null ? {} : { confidence }) } : {}),
});

/** What a rater has handed in to a sealed set: who comes back, from wherever, goes on from there. */
export const handedIn = async (set: string, rater: string, signal?: AbortSignal): Promise<Map<string, Guess>> => {
  const { receipts } = await server.get<OwnReceipts>(`/evaluations/sets/${set}/receipts`, { answers: true }, signal ? { signal } : {});
  const given = receipts.find((one) => one.rater.name === rater)?.given ?? [];
  return new Map(given.map(({ item_id, intentions, role, confidence }) => [item_id, { intentions, role: (role as Role) ?? "", confidence: confidence ?? null }]));
};

/** Items in one answer, at most. */
const A_PAGE = 200;

/** Every item of a set, in its order. */
export const itemsOf = async (set: string, signal: AbortSignal): Promise<ItemPage> => {
  const page = await server.get<ItemPage>(`/evaluations/sets/${set}/items`, { limit: A_PAGE }, { signal });
  const items = [...page.items];
  for (let next = page.next; next; ) {
    const more = await server.get<ItemPage>(`/evaluations/sets/${set}/items`, { limit: A_PAGE, cursor: next }, { signal });
    items.push(...more.items);
    next = more.next;
  }
  return { ...page, items };
};

const name = (of: string, rater: string): string => `guesses.${of}.${rater}`;

/** Keeps with the tab what was not handed in yet, so that a reload loses nothing. */
export const keepDraft = (of: string, rater: string, draft: Guesses): void =>
  draft.size ? keep(name(of, rater), [...draft]) : drop(name(of, rater));

export const draftOf = (of: string, rater: string): Map<string, Guess> => new Map(kept<[string, Guess][]>(name(of, rater)));
