/** One choice of a few, under its name. */
import type { JSX } from "preact";

interface Props<T extends string | number> {
  label: string;
  value: T;
  /** Each with the words that stand for it. */
  choices: readonly (readonly [T, string])[];
  choose: (value: T) => void;
  /** Where the choices say what they are about, the name is told to screen readers alone. */
  bare?: boolean;
}

export const Select = <T extends string | number>({ label, value, choices, choose, bare = false }: Props<T>): JSX.Element => (
  <label class="field">
    <span class={bare ? "hidden" : ""}>{label}</span>
    <select value={value} onChange={(event) => choose(choices[event.currentTarget.selectedIndex]![0])}>
      {choices.map(([one, words]) => (
        <option key={one} value={one}>
          {words}
        </option>
      ))}
    </select>
  </label>
);

export const counts = (from: number, to: number): [number, string][] => Array.from({ length: to - from + 1 }, (_, i) => [from + i, String(from + i)]);
