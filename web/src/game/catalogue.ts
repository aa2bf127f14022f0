/** The sentences behind the ids of intentions. */
import type { Intention } from "@interintent/client";
import { signal } from "@preact/signals";

/** From the server, or from the page of a static site. */
export const catalogue = signal<ReadonlyMap<string, string>>(new Map());

export const keepCatalogue = (intentions: readonly Pick<Intention, "id" | "label">[]): void => {
  catalogue.value = new Map(intentions.map(({ id, label }) => [id, label]));
};

export const intentionLabel = (id: string): string => catalogue.value.get(id) ?? id.replaceAll("_", " ");
