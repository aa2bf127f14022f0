/** Light or dark: as the system says, or as the switch was set. */
import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const NAME = "interintent-theme";

const kept = (): Theme => {
  // A page opened from a file keeps nothing.
  if (import.meta.env.SITE) return "system";
  try {
    const value = localStorage.getItem(NAME);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
};

export const theme = signal<Theme>(kept());

effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
});

export const setTheme = (value: Theme): void => {
  theme.value = value;
  if (import.meta.env.SITE) return;
  try {
    localStorage.setItem(NAME, value);
  } catch {
    // Where nothing may be kept, the switch holds for this page.
  }
};

const still = matchMedia("(prefers-reduced-motion: reduce)");
export const calm = signal(still.matches);
still.addEventListener("change", () => {
  calm.value = still.matches;
});
