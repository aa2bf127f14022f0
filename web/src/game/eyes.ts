/** Whose eyes a game is seen through. An event is seen whole or not at all, as in `engine/events.py`. */
import type { EventType, GameEvent, Seat, Viewer } from "@interintent/client";

const PUBLIC: ReadonlySet<EventType> = new Set<EventType>([
  "game_created",
  "proposal_opened",
  "team_proposed",
  "utterance_made",
  "team_confirmed",
  "votes_revealed",
  "quest_resolved",
  "assassination_opened",
  "assassination_declined",
  "assassination_made",
  "game_ended",
  "game_cancelled",
]);

const FULL_ONLY: ReadonlySet<EventType> = new Set<EventType>([
  "roles_dealt",
  "agents_seated",
  "evil_conferred",
  "reply_unusable",
]);

export const isPublic = (event: GameEvent): boolean => PUBLIC.has(event.type);

export const visible = (event: GameEvent, eyes: Viewer): boolean => {
  if (eyes === "full" || PUBLIC.has(event.type)) return true;
  if (eyes === "public" || FULL_ONLY.has(event.type)) return false;
  return "seat" in event && event.seat === seatOf(eyes);
};

/** The seat whose eyes these are; undefined for the public and for the researcher. */
export const seatOf = (eyes: Viewer): Seat | undefined =>
  eyes.startsWith("seat:") ? Number(eyes.slice(5)) : undefined;

/** The part of a log that these eyes see. Positions in it count its own events, as on the wire. */
export const project = (log: readonly GameEvent[], eyes: Viewer): readonly GameEvent[] =>
  eyes === "full" ? log : log.filter((event) => visible(event, eyes));

export const readEyes = (name: string | undefined): Viewer | undefined =>
  name === "public" || name === "full" || /^seat:([1-9]|10)$/.test(name ?? "") ? (name as Viewer) : undefined;

/** The eyes that a stream of this viewer can be seen through. */
export const eyesWithin = (viewer: Viewer, players: number): Viewer[] => {
  const seats = Array.from({ length: players }, (_, i) => `seat:${i + 1}` as Viewer);
  if (viewer === "full") return ["full", "public", ...seats];
  return viewer === "public" ? ["public"] : [viewer, "public"];
};
