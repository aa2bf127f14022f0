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

/** The schemas of what passes over the socket, by their names in the contract. */
export type SocketFrames = S;

/** A frame of the socket. Ignore those of a `t` that you do not know. */
export type Frame = { t: string } & Record<string, unknown>;
