/** Hash routes: `#/games/g_1?at=12`. They need nothing of a server, so a page opened from a file has them, too. */
import { computed, signal } from "@preact/signals";

export interface Place {
  path: string;
  query: Readonly<Record<string, string>>;
}

const read = (): Place => {
  const [path = "", query = ""] = location.hash.replace(/^#/, "").split("?", 2);
  return { path: `/${path.replace(/^\/+|\/+$/g, "")}`, query: Object.fromEntries(new URLSearchParams(query)) };
};

export const place = signal<Place>(read());
export const path = computed(() => place.value.path);

addEventListener("hashchange", () => {
  place.value = read();
});

export const href = (path: string, query: Record<string, string | number | undefined> = {}): string => {
  const kept = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  // The colon of `seat:3` and the commas of lists are left as they are: people read and share these links.
  const text = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString().replaceAll("%3A", ":").replaceAll("%2C", ",");
  return `#${path}${text ? `?${text}` : ""}`;
};

export const go = (to: string): void => {
  location.hash = to;
};

/** Changes the query of the present place without a new entry in the history. */
export const amend = (query: Record<string, string | number | undefined>): void => {
  const next = href(place.value.path, { ...place.value.query, ...query });
  if (next === location.hash) return;
  history.replaceState(history.state, "", next);
  place.value = read();
};

/** The parts of `/games/:game/text` in a path, or undefined where it does not fit. */
export const match = (pattern: string, path: string): Record<string, string> | undefined => {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return undefined;
  const found: Record<string, string> = {};
  for (const [i, part] of wanted.entries()) {
    if (part.startsWith(":")) {
      try {
        found[part.slice(1)] = decodeURIComponent(given[i]!);
      } catch {
        return undefined;
      }
    } else if (part !== given[i]) return undefined;
  }
  return found;
};
