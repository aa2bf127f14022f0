/** The tokens of the seats that are played in this tab, who was invited from there, what was noted, and what was begun. */
import type { Seat } from "@interintent/client";
import { drop, keep, kept } from "../parts/tab.ts";

interface Held {
  seat: Seat;
  token: string;
}

export const keepToken = (game: string, held: Held): void => keep(`seat.${game}`, held);

export const tokenOf = (game: string): Held | undefined => kept(`seat.${game}`);

/** Somebody who is to get a link to a seat. */
export interface Invited {
  seat: Seat;
  /** Empty: without a name. */
  name: string;
  /** Undefined: it is not made yet. */
  link?: string;
}

export const keepInvited = (game: string, invited: readonly Invited[]): void => keep(`invited.${game}`, invited);

/** Who was invited to a table that was made in this tab; undefined: it was made elsewhere, or has no friends. */
export const invitedTo = (game: string): readonly Invited[] | undefined => kept(`invited.${game}`);

export const keepPad = (game: string, text: string): void => keep(`notes.${game}`, text);

export const padOf = (game: string): string => kept(`notes.${game}`) ?? "";

/** What a person has begun to answer. */
export interface Draft {
  text: string;
  /** The ticked seats. */
  team: readonly Seat[];
  /** The ticked intentions. */
  meant: readonly string[];
  why: string;
}

interface KeptDraft {
  seat: Seat;
  request: string;
  draft: Draft;
}

export const keepDraft = (game: string, seat: Seat, request: string, draft: Draft): void =>
  keep(`draft.${game}`, { seat, request, draft } satisfies KeptDraft);

export const dropDraft = (game: string): void => drop(`draft.${game}`);

/** What was begun at this seat for this request; undefined: nothing, or it was for another seat or request. */
export const draftOf = (game: string, seat: Seat, request: string): Draft | undefined => {
  const found = kept<KeptDraft>(`draft.${game}`);
  return found?.seat === seat && found.request === request ? found.draft : undefined;
};
