/** The switch between the colours of the system, light and dark. */
import type { JSX } from "preact";
import { type Theme, setTheme, theme } from "../theme.ts";
import { Icon } from "./icons.tsx";

const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const SIGN = { system: "half", light: "sun", dark: "moon" } as const;

export const ThemeSwitch = (): JSX.Element => (
  <button
    type="button"
    class="round quiet"
    title={`Colours: ${theme.value}`}
    aria-label={`Colours: ${theme.value}. Change to ${NEXT[theme.value]}`}
    onClick={() => setTheme(NEXT[theme.value])}
  >
    <Icon name={SIGN[theme.value]} />
  </button>
);
