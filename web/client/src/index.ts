/** A typed client of InterIntent servers, for browsers and Node 22 or newer. */
export * from "./errors.ts";
export { pause, sleep } from "./retry.ts";
export { SeatPlayer, type SeatHandlers } from "./seat.ts";
export { Server, newId, type CallOptions, type Query } from "./server.ts";
export { Stream, type StreamOptions } from "./stream.ts";
export type * from "./types.ts";
