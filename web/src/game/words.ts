/** A game in words: for the feed, for the reading mode and for screen readers. */
import type { Ending, GameEvent, Role, Seat, Side } from "@interintent/client";
import type { Phase, Table, Tally } from "./fold.ts";

export const ROLE: Record<Role, string> = {
  merlin: "Merlin",
  percival: "Percival",
  servant: "Servant",
  assassin: "Assassin",
  morgana: "Morgana",
  mordred: "Mordred",
  oberon: "Oberon",
  minion: "Minion",
};

export const SIDE: Record<Side, string> = { loyal: "Loyal", evil: "Evil" };

export const ENDING: Record<Ending, string> = {
  three_quests_failed: "three quests failed",
  three_quests_succeeded: "three quests succeeded",
  merlin_assassinated: "Merlin was assassinated",
  merlin_survived: "Merlin survived",
  max_rejections: "too many proposals were rejected",
};

export const PHASE: Record<Phase, string> = {
  propose: "The leader chooses a team",
  discuss: "The table talks",
  reconsider: "The leader may change the team",
  vote: "The table votes",
  quest: "The team is on its quest",
  summary: "The seats sum up the round",
  assassinate: "The assassin chooses a target",
  over: "The game is over",
};

export const plural = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`;

/** How long ago it was, in words. */
export const ago = (at: string): string => {
  const s = (Date.now() - Date.parse(at)) / 1000;
  if (s < 60) return "just now";
  if (s < 3600) return `${Math.round(s / 60)} min ago`;
  if (s < 86_400) return `${Math.round(s / 3600)} h ago`;
  return new Date(at).toLocaleDateString();
};

/** `a`, `a and b`, `a, b and c`. */
export const listed = (words: readonly string[], none = "nobody"): string =>
  words.length < 2 ? (words[0] ?? none) : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;

/** Words of another script, set apart: what is written from right to left turns nothing around it. */
export const apart = (words: string): string => (/^[\x20-\u024f]*$/.test(words) ? words : `\u2068${words}\u2069`);

export const nameOf = (table: Pick<Table, "names">, seat: Seat): string => apart(table.names[seat - 1] ?? `Seat ${seat}`);

export const namesOf = (table: Pick<Table, "names">, seats: readonly Seat[]): string =>
  listed(seats.map((seat) => nameOf(table, seat)));

export const ballots = (tally: Pick<Tally, "votes">): { yes: Seat[]; no: Seat[]; unknown: Seat[] } => {
  const by = { yes: [] as Seat[], no: [] as Seat[], unknown: [] as Seat[] };
  for (const [seat, vote] of Object.entries(tally.votes))
    by[vote === null ? "unknown" : vote ? "yes" : "no"].push(Number(seat));
  return by;
};

export const outcome = (tally: Pick<Tally, "approved" | "forced">): string =>
  tally.approved ? "approved" : tally.forced ? "rejected, but the team goes all the same" : "rejected";

export const fails = (count: number | null): string =>
  count === null ? "the number of fail cards is not recorded" : count === 0 ? "no fail card" : plural(count, "fail card");

/** What the table shows at its centre: one short sentence. */
export const standing = (table: Table): string => {
  if (table.cancelled) return "The game was cancelled";
  if (table.winner) return `${SIDE[table.winner]} wins: ${ENDING[table.ending!]}`;
  if (table.phase === "assassinate" && table.shot === null) return PHASE.assassinate;
  if (table.shot) return table.shot.hit ? "The shot hits Merlin" : "The shot misses Merlin";
  const quest = table.quests.at(-1);
  if (quest?.round === table.round) return `Quest ${quest.round} ${quest.succeeded ? "succeeds" : "fails"}`;
  if (table.vote) return `The team is ${outcome(table.vote)}`;
  if (table.phase === "propose" && table.leader) return `${nameOf(table, table.leader)} chooses a team`;
  if (table.round === 0) return "The cards are dealt";
  return PHASE[table.phase];
};

/** An event as a sentence, or several; what a seat says is quoted in full. Empty for private events. */
export const sentence = (event: GameEvent, table: Table): string => {
  const name = (seat: Seat): string => nameOf(table, seat);
  switch (event.type) {
    case "game_created":
      return `${plural(table.players, "seat")} at the table: ${namesOf(table, table.names.map((_, i) => i + 1))}.`;
    case "proposal_opened":
      return `${name(event.leader)} leads.`;
    case "team_proposed":
      return `${name(event.leader)} proposes ${namesOf(table, event.team)}.`;
    case "utterance_made":
      return event.text ? `${name(event.seat)}: “${event.text}”` : `${name(event.seat)} says nothing.`;
    case "team_confirmed":
      return `${name(event.leader)} ${event.changed ? "changes the team to" : "keeps"} ${namesOf(table, event.team)}.`;
    case "votes_revealed": {
      const { yes, no, unknown } = ballots(event);
      const more = unknown.length ? ` Not recorded: ${namesOf(table, unknown)}.` : "";
      return `The team is ${outcome(event)}. For: ${namesOf(table, yes)}. Against: ${namesOf(table, no)}.${more}`;
    }
    case "quest_resolved":
      return event.team.length
        ? `Quest ${event.round} ${event.succeeded ? "succeeds" : "fails"}: ${fails(event.fails)}.`
        : `Quest ${event.round} fails: nobody goes.`;
    case "assassination_opened":
      return "The assassin may name Merlin.";
    case "assassination_declined":
      return "The assassin holds fire.";
    case "assassination_made":
      return `${name(event.assassin)} shoots ${event.target === null ? "a seat that is not recorded" : name(event.target)}: ${
        event.hit ? "it was Merlin" : "not Merlin"
      }.`;
    case "game_ended":
      return `${SIDE[event.winner]} wins: ${ENDING[event.ending]}.`;
    case "game_cancelled":
      return `The game was cancelled: ${apart(event.reason)}`;
    default:
      return "";
  }
};
