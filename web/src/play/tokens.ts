/** The tokens of the seats that are played in this tab, and what was noted there. */
import type { Seat } from "@interintent/client";
import { keep, kept } from "../parts/tab.ts";

interface Held {
  seat: Seat;
  token: string;
}

export const keepToken = (game: string, held: Held): void => keep(`seat.${game}`, held);

export const tokenOf = (game: string): Held | undefined => kept(`seat.${game}`);

export const keepPad = (game: string, text: string): void => keep(`notes.${game}`, text);

export const padOf = (game: string): string => kept(`notes.${game}`) ?? "";
