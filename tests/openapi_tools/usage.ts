// Compiles only where the types made of openapi.json say what a client has to know.
import type { components, operations } from "./api";

type Schemas = components["schemas"];
type Any<T> = 0 extends 1 & T ? true : false;
/** `false` for any, unknown and never. */
type Known<T> = Any<T> extends true ? false : unknown extends T ? false : [T] extends [never] ? false : true;
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;
type Answer<Name extends keyof operations, Status extends number> = operations[Name]["responses"] extends {
    [key in Status]: { content: { "application/json": infer Body } };
}
    ? Body
    : never;

/** The fields of every schema that are any, unknown or never. */
type Unknown<T> = T extends string | number | boolean | unknown[]
    ? never
    : { [K in keyof T]-?: Known<NonNullable<T[K]>> extends true ? never : K }[keyof T];

export const known: [
    Known<Answer<"create_games", 201>>,
    Known<Answer<"show_game", 200>>,
    Known<Answer<"show_evaluation", 200>>,
    Known<Answer<"list_items", 200>>,
    Known<Answer<"list_open_requests", 200>>,
    Same<Schemas["ProblemView"]["errors"], Schemas["ProblemField"][] | undefined>,
    Same<operations["list_game_events"]["responses"][200]["content"]["application/x-ndjson"], string>,
] = [true, true, true, true, true, true, true];

export const nothing: { [Name in keyof Schemas]: Unknown<Schemas[Name]> }[keyof Schemas][] = [];
const none: never[] = nothing;

export function submitted(body: operations["create_evaluation"]["requestBody"]["content"]["application/json"]): string {
    if ("judge" in body) {
        return body.judge.kind === "model" ? body.judge.model : body.judge.kind;
    }
    return body.answers[0]?.item_id ?? none.length.toString();
}

export function refused(problem: Schemas["ProblemView"]): string[] {
    return (problem.errors ?? []).map((one) => `${one.pointer}: ${one.message}`);
}
