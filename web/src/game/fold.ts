/**
 * The table as one viewer knows it at one moment: the fold of that viewer's events, as `engine/state.py` folds
 * them. `tests/web/test_fold.py` compares the two after every event of many games.
 */
import type { Ending, EventOf, GameEvent, Profile, Role, Seat, Side } from "@interintent/client";

export type Phase = "propose" | "discuss" | "reconsider" | "vote" | "quest" | "summary" | "assassinate" | "over";

export interface Quest {
  round: number;
  team: readonly Seat[];
  fails: number | null;
  succeeded: boolean;
}

export interface Tally {
  round: number;
  attempt: number;
  leader: Seat;
  proposed: readonly Seat[];
  team: readonly Seat[];
  /** Empty for a team that went without a vote; null for a ballot that a foreign record leaves out. */
  votes: Readonly<Record<string, boolean | null>>;
  approved: boolean;
  forced: boolean;
}

/** What a seat knows of itself, as far as these eyes see it. */
export interface Hand {
  role: Role;
  sees: readonly Seat[];
  shoots: boolean;
}

export interface Table {
  profile: Profile;
  names: readonly string[];
  players: number;
  phase: Phase;
  /** 1 to 5; 0 before the first proposal. */
  round: number;
  attempt: number;
  leader: Seat;
  proposed: readonly Seat[];
  team: readonly Seat[];
  /** Utterances made in this attempt. */
  turn: number;
  succeeded: number;
  failed: number;
  missed: boolean;
  quests: readonly Quest[];
  tallies: readonly Tally[];
  winner: Side | null;
  ending: Ending | null;
  cancelled: boolean;

  // --- what only some eyes see ---
  /** Roles by seat, as far as they are known. */
  roles: Readonly<Record<Seat, Role>>;
  hands: Readonly<Record<Seat, Hand>>;
  /** Ballots of this attempt that are known before they are revealed. */
  ballots: Readonly<Record<Seat, boolean>>;
  /** Cards of this quest. */
  cards: Readonly<Record<Seat, boolean>>;

  // --- what this moment shows ---
  /** The seat that spoke last in this attempt. */
  spoke: Seat | null;
  /** The vote of this attempt, once it is revealed. */
  vote: Tally | null;
  shot: { assassin: Seat; target: Seat | null; hit: boolean } | null;
}

const sitDown = (event: EventOf<"game_created">): Table => ({
  profile: event.profile,
  names: Array.from({ length: event.profile.players }, (_, i) => event.names[String(i + 1)] ?? `Player ${i + 1}`),
  players: event.profile.players,
  phase: "propose",
  round: 0,
  attempt: 0,
  leader: 0,
  proposed: [],
  team: [],
  turn: 0,
  succeeded: 0,
  failed: 0,
  missed: false,
  quests: [],
  tallies: [],
  winner: null,
  ending: null,
  cancelled: false,
  roles: {},
  hands: {},
  ballots: {},
  cards: {},
  spoke: null,
  vote: null,
  shot: null,
});

/** The attempt whose team goes without a vote; 0 if there is none. */
const unvoted = (profile: Profile): number => (profile.on_max_rejections === "forced_team" ? profile.max_rejections : 0);

const teamStands = (table: Table): Phase => (table.attempt === unvoted(table.profile) ? "quest" : "vote");

/** The table after this event; the very same table after an event that changes nothing, such as a thought. */
export const apply = (table: Table, event: GameEvent): Table => {
  const { profile } = table;
  switch (event.type) {
    case "proposal_opened":
      return {
        ...table,
        round: event.round,
        attempt: event.attempt,
        leader: event.leader,
        proposed: [],
        team: [],
        turn: 0,
        ballots: {},
        cards: {},
        spoke: null,
        vote: null,
        phase: profile.discussion === "before_proposal" ? "discuss" : "propose",
      };
    case "team_proposed":
      return {
        ...table,
        proposed: event.team,
        team: event.team,
        phase:
          profile.discussion === "after_proposal" ? "discuss" : profile.reconsideration ? "reconsider" : teamStands(table),
      };
    case "utterance_made": {
      const turn = table.turn + 1;
      const next: Table = { ...table, turn, spoke: event.seat };
      if (table.phase === "discuss" && turn === table.players)
        next.phase =
          profile.discussion === "before_proposal" ? "propose" : profile.reconsideration ? "reconsider" : teamStands(table);
      return next;
    }
    case "team_confirmed":
      return { ...table, team: event.team, phase: table.phase === "reconsider" ? teamStands(table) : table.phase };
    case "vote_cast":
      return { ...table, ballots: { ...table.ballots, [event.seat]: event.approve } };
    case "votes_revealed": {
      const vote: Tally = {
        round: table.round,
        attempt: table.attempt,
        leader: table.leader,
        proposed: table.proposed,
        team: table.team,
        votes: event.votes,
        approved: event.approved,
        forced: event.forced,
      };
      const goes = event.approved || event.forced;
      const sums = !goes && profile.summaries && table.attempt < profile.max_rejections;
      return {
        ...table,
        vote,
        tallies: [...table.tallies, vote],
        spoke: null,
        phase: goes ? "quest" : sums ? "summary" : table.phase,
      };
    }
    case "card_played":
      return { ...table, cards: { ...table.cards, [event.seat]: event.success } };
    case "quest_resolved": {
      const { round, team, fails, succeeded } = event;
      const next: Table = {
        ...table,
        spoke: null,
        quests: [...table.quests, { round, team, fails, succeeded }],
        succeeded: table.succeeded + (succeeded ? 1 : 0),
        failed: table.failed + (succeeded ? 0 : 1),
      };
      if (team.length && table.attempt === unvoted(profile)) {
        const { attempt, leader, proposed } = table;
        const tally = { round: table.round, attempt, leader, proposed, team, votes: {}, approved: false, forced: true };
        next.tallies = [...table.tallies, tally];
      }
      const shot = profile.assassination === "after_any_quest" && !table.missed;
      if (profile.summaries && next.failed < 3 && next.succeeded < 3 && !shot) next.phase = "summary";
      return next;
    }
    case "assassination_opened":
      return { ...table, phase: "assassinate", spoke: null };
    case "assassination_declined":
      return profile.summaries && table.succeeded < 3 ? { ...table, phase: "summary" } : table;
    case "assassination_made": {
      const { assassin, target, hit } = event;
      const next: Table = { ...table, shot: { assassin, target, hit } };
      if (hit) return next;
      next.missed = true;
      if (profile.summaries && table.succeeded < 3 && profile.missed_shot === "play_on") next.phase = "summary";
      return next;
    }
    case "game_ended":
      return {
        ...table,
        winner: event.winner,
        ending: event.ending,
        phase: "over",
        spoke: null,
        roles: event.roles ? bySeat(event.roles) : table.roles,
      };
    case "game_cancelled":
      return { ...table, cancelled: true, phase: "over", spoke: null };
    case "roles_dealt":
      return { ...table, roles: bySeat(event.roles) };
    case "role_learned": {
      const { seat, role, sees, shoots } = event;
      return {
        ...table,
        roles: { ...table.roles, [seat]: role },
        hands: { ...table.hands, [seat]: { role, sees, shoots } },
      };
    }
    default:
      return table;
  }
};

const bySeat = (roles: Readonly<Record<string, Role>>): Record<Seat, Role> =>
  Object.fromEntries(Object.entries(roles).map(([seat, role]) => [Number(seat), role]));

/** The table after each event; the table after `log[i]` is at `i`. Empty for a log that does not begin a game. */
export const fold = (log: readonly GameEvent[], known: readonly Table[] = []): Table[] => {
  const first = log[0];
  if (first?.type !== "game_created") return [];
  const tables = known.slice(0, log.length);
  if (!tables.length) tables.push(sitDown(first));
  for (let i = tables.length; i < log.length; i++) tables.push(apply(tables[i - 1]!, log[i]!));
  return tables;
};

const EVIL: ReadonlySet<Role> = new Set<Role>(["assassin", "morgana", "mordred", "oberon", "minion"]);

export const sideOf = (role: Role): Side => (EVIL.has(role) ? "evil" : "loyal");
