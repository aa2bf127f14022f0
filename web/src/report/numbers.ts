/** Figures in digits, as every other form of a report has them. */
import type { ReportFigure, ReportTable } from "@interintent/client";

export type Column = ReportTable["columns"][number];

/** The number with so many decimals (at most 4), rounded as Python rounds for the other forms: of two that are exactly
 * as near, to the even one, and never to a negative zero. */
export const fixed = (value: number, decimals: number): string => {
  const size = Math.abs(value);
  const near = size.toFixed(decimals);
  // `toFixed` takes the upper one. No number this near to a half has more than a hundred decimals.
  const half = /^50*$/.test(size.toFixed(100).slice(decimals - 100));
  const text = half && Number(near.at(-1)) % 2 ? (2 * size - Number(near)).toFixed(decimals) : near;
  return value < 0 && Number(text) ? `-${text}` : text;
};

const whole = new Intl.NumberFormat("en");
const some = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const rounded = (value: number): string => whole.format(Number(fixed(value, 0)));
const number = (value: number): string => (Number.isInteger(value) ? rounded(value) : some.format(Number(fixed(value, 2))));

export const shown = (value: number, { name, unit }: Column): string => {
  if (value < 0.001 && /^(p|p, Holm|.*(: p|test p))$/.test(name)) return "< 0.001";
  if (unit === "count") return rounded(value);
  // A true minus, as the report's own sentences have it.
  return (unit === "share" ? fixed(100 * value, 1) : fixed(value, 3)).replace("-", "\u2212");
};

export const range = (figure: ReportFigure, column: Column): string | undefined =>
  figure.low === null || figure.high === null ? undefined : `${shown(figure.low, column)} to ${shown(figure.high, column)}`;

export const counts = (figure: ReportFigure): string => {
  const parts: string[] = [];
  if (figure.num !== null && figure.den !== null) parts.push(`${number(figure.num)}/${number(figure.den)}`);
  else if (figure.den !== null) parts.push(`n ${number(figure.den)}`);
  if (figure.games !== null) parts.push(`${whole.format(figure.games)} ${figure.games === 1 ? "game" : "games"}`);
  if (figure.items !== null) parts.push(`${whole.format(figure.items)} ${figure.items === 1 ? "item" : "items"}`);
  return parts.join(" · ");
};
