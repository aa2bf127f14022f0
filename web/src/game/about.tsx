/** What a game is: its rules, its origin, and, for the researcher, who sits where. */
import type { GameEvent, GameView, SeatUse } from "@interintent/client";
import type { JSX } from "preact";
import { HowPlayed } from "../play/how-played.tsx";
import { fixed } from "../report/numbers.ts";
import { href } from "../router.ts";
import { ROLE, plural } from "./words.ts";

const when = (at: string | undefined): string => (at ? new Date(at).toLocaleString() : "");

const number = new Intl.NumberFormat("en");

/** Tokens and money by seat, with their sums over the game. */
const Uses = ({ uses }: { uses: readonly SeatUse[] }): JSX.Element => {
  const sum = (of: (use: SeatUse) => number): number => uses.reduce((all, use) => all + of(use), 0);
  const cells = (of: (value: (use: SeatUse) => number) => number): JSX.Element => (
    <>
      <td>{number.format(of(({ calls }) => calls))}</td>
      <td>{number.format(of(({ prompt_tokens }) => prompt_tokens))}</td>
      <td>{number.format(of(({ completion_tokens }) => completion_tokens))}</td>
      <td>{fixed(of(({ cost }) => cost), 4)}</td>
      <td>{number.format(Math.round(of(({ waiting_s }) => waiting_s)))} s</td>
    </>
  );
  const failed = sum((use) => use.failed);
  const estimated = sum((use) => use.estimated);
  return (
    <>
      <h3>What it took</h3>
      <div class="scroll" tabIndex={0} role="group" aria-label="Tokens and money by seat, to be scrolled">
        <table class="history uses">
          <thead>
            <tr>
              {["Seat", "Calls", "Tokens in", "Tokens out", "Cost", "Waiting"].map((name) => (
                <th scope="col" key={name}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {uses.map((use) => (
              <tr key={use.seat} class={`hue-${use.seat}`}>
                <th scope="row">
                  <span class="chip" aria-hidden="true">
                    {use.seat}
                  </span>
                  <span class="hidden">Seat {use.seat}</span>
                </th>
                {cells((of) => of(use))}
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr>
              <th scope="row">Game</th>
              {cells(sum)}
            </tr>
          </tfoot>
        </table>
      </div>
      {(failed > 0 || estimated > 0) && (
        <p class="muted">
          {failed > 0 && `${plural(failed, "call")} brought no answer. `}
          {estimated > 0 && `The provider did not count ${plural(estimated, "call")}: their tokens are our estimate.`}
        </p>
      )}
    </>
  );
};

export const AboutGame = ({ view, log }: { view?: GameView; log: readonly GameEvent[] }): JSX.Element | null => {
  const created = log[0];
  if (created?.type !== "game_created") return null;
  const { profile } = created;
  const seated = log.findLast((event) => event.type === "agents_seated");
  const dealt = log.find((event) => event.type === "roles_dealt");
  const defaulted = log.filter((event) => event.type === "action_defaulted").length;
  return (
    <>
    <section class="panel about" aria-labelledby="about-title">
      <h2 id="about-title">About this game</h2>
      <dl>
        <div>
          <dt>Rules</dt>
          <dd>
            {profile.name}, {plural(profile.players, "seat")}: {profile.roles.map((role) => ROLE[role]).join(", ")}
          </dd>
        </div>
        {view && (
          <div>
            <dt>Begun</dt>
            <dd>{when(view.created_at)}</dd>
          </div>
        )}
        {view && (
          <div>
            <dt>Batch</dt>
            <dd>
              <a href={href(`/batches/${view.batch_id}`)}>{view.batch_id}</a>
            </dd>
          </div>
        )}
        {dealt?.type === "roles_dealt" && dealt.seed && (
          <div>
            <dt>Seed</dt>
            <dd>{dealt.seed}</dd>
          </div>
        )}
        {view && (
          <div>
            <dt>Compare</dt>
            <dd>
              <a href={href("/compare", { a: view.game_id })}>Set another game beside this one</a>
            </dd>
          </div>
        )}
        {view?.forked_from && (
          <div>
            <dt>Fork of</dt>
            <dd>
              <a href={href(`/games/${view.forked_from.game_id}`)}>{view.forked_from.game_id}</a>{" "}
              <a href={href("/compare", { a: view.forked_from.game_id, b: view.game_id })}>side by side</a>
            </dd>
          </div>
        )}
        {defaulted > 0 && (
          <div>
            <dt>Defaults</dt>
            <dd>{plural(defaulted, "decision")} played by default: no decision of the seat</dd>
          </div>
        )}
        {view?.fault && (
          <div>
            <dt>Failed</dt>
            <dd dir="auto">{view.fault}</dd>
          </div>
        )}
        {view?.invalid && (
          <div>
            <dt>Excluded</dt>
            <dd dir="auto">{view.invalid.reason}</dd>
          </div>
        )}
      </dl>
      {view?.uses && view.uses.length > 0 && <Uses uses={view.uses} />}
      {seated?.type === "agents_seated" && (
        <>
          <h3>Who plays</h3>
          <ul class="agents">
            {Object.entries(seated.agents).map(([seat, agent]) => (
              <li key={seat} class={`hue-${seat}`}>
                <span class="chip" aria-hidden="true">
                  {seat}
                </span>
                <span>
                  <span class="hidden">Seat {seat}: </span>
                  {agent.agent}
                  {agent.model ? `, ${agent.model}` : ""}
                  {typeof agent.parameters["mechanism"] === "string" ? `, ${agent.parameters["mechanism"]}` : ""}
                </span>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
    <HowPlayed />
    </>
  );
};
