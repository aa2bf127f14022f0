/** The tokens of the seats that are played in this tab, and what was noted there: kept with the tab, and gone with it. */
import type { Seat } from "@interintent/client";

interface Held {
  seat: Seat;
  token: string;
}

const name = (game: string): string => `interintent.seat.${game}`;

export const keepToken = (game: string, held: Held): void => sessionStorage.setItem(name(game), JSON.stringify(held));

export const tokenOf = (game: string): Held | undefined => {
  const text = sessionStorage.getItem(name(game));
  return text === null ? undefined : (JSON.parse(text) as Held);
};

const pad = (game: string): string => `interintent.pad.${game}`;

export const keepPad = (game: string, text: string): void => sessionStorage.setItem(pad(game), text);

export const padOf = (game: string): string => sessionStorage.getItem(pad(game)) ?? "";
