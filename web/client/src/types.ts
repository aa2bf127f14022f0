/** The service's own words as types, made from its contracts. */
import type { components as Http } from "./generated/http.ts";
import type { AnyEvent, components as Socket } from "./generated/socket.ts";

type H = Http["schemas"];
type S = Socket["schemas"];

/** A numbered place at the table, from 1. */
export type Seat = number;
export type Role = S["Role"];
export type Side = S["Side"];
export type Ending = S["Ending"];
export type Kind = S["Kind"];
export type Profile = S["Profile"];
export type Belief = S["Belief"];
/** `public`, `seat:3` or `full`: whose eyes a stream is seen through. */
export type Viewer = "public" | "full" | `seat:${number}`;

/** One event as a viewer gets it. `at`, the time of its commit, is missing in files of simulated games. */
export type GameEvent = AnyEvent extends infer E ? (E extends { at: string } ? Omit<E, "at"> & { at?: string } : E) : never;
export type EventType = GameEvent["type"];
export type EventOf<T extends EventType> = Extract<GameEvent, { type: T }>;

export type GameSummary = H["GameSummary"];
export type GamePage = H["GamePage"];
export type GameView = H["GameView"];
export type BatchView = H["BatchView"];
export type BatchCreated = H["BatchCreated"];
export type NewGames = H["NewGames"];
export type NewSeek = Partial<H["NewSeek"]>;
export type Seek = H["SeekView"];
export type Lobby = H["LobbyView"];
export type Intention = H["IntentionView"];
export type GameStatus = GameSummary["status"];
export type Problem = H["ProblemView"];

export type Request = S["Asked"];
export type Acknowledgement = S["ActAck"];
export type Refusal = S["Refusal"];
export type Welcome = S["Welcome"];
export type Action = Record<string, unknown>;
export type Thought = { type: string } & Record<string, unknown>;

export type BatchSummary = H["BatchSummary"];
export type BatchPage = H["BatchPage"];
export type ReportProgress = H["ReportProgress"];
export type Item = H["ItemView"];
export type ItemPage = H["ItemsPage"];
export type AnswerTotals = H["AnswerTotals"];
export type Evaluation = H["EvaluationView"];
export type Comparison = H["ComparisonView"];
export type EvaluationSet = H["SetView"];
export type Receipt = H["Receipt"];
export type OwnReceipts = H["OwnReceipts"];
export type Judgement = H["JudgementView"];
export type SeatUse = H["SeatModelUse"];

/** One figure of a report with what it rests on. */
export interface ReportFigure {
  /** Null: there is none, and `note` says why. */
  value: number | null;
  /** The 95 % interval. */
  low: number | null;
  high: number | null;
  num: number | null;
  den: number | null;
  games: number | null;
  items: number | null;
  method: string;
  note: string;
  design_effect: number | null;
  icc: number | null;
  /** The place of the set of its games in `sources.sets`. */
  from?: number;
  /** The same figure with the excluded games in, where they change it. */
  with_excluded?: ReportFigure;
}

export interface ReportRow {
  labels: string[];
  /** The sentences of intentions among the labels, by id. */
  words?: Record<string, string>;
  /** Which items the row counts: by field of an item, the values that it may have; `rater`: who answered. */
  items?: Record<string, unknown>;
  figures: Record<string, ReportFigure | undefined>;
}

export interface ReportTable {
  name: string;
  section: string;
  title: string;
  caption: string;
  heads: string[];
  /** `share`: from 0 to 1, shown as a percentage. */
  columns: { name: string; unit: "share" | "number" | "count" }[];
  /** Why there are no rows. */
  empty: string;
  items?: { dimension: string; followed: boolean };
  rows: ReportRow[];
}

/** `GET /reports` as JSON; docs/reports.md says what is in it. */
export interface Report {
  title: string;
  notes: string[];
  made_of: Record<string, unknown>;
  /** Counts of what was left out, by place and reason. */
  excluded: Record<string, Record<string, number>>;
  tables: ReportTable[];
  /** Sets are numbers in hexadecimal whose bit i, the lowest first, says whether game i is in it. */
  sources: { games: string[]; sets: string[] };
}

/** `GET /ratings`: everybody who played rated games. */
export type Ratings = H["RatingsView"];
export type RatedPlayer = H["RatedPlayer"];

/** The schemas of what passes over the socket, by their names in the contract. */
export type SocketFrames = S;

/** A frame of the socket. Ignore those of a `t` that you do not know. */
export type Frame = { t: string } & Record<string, unknown>;
