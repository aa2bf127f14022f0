/** A batch: how far it is, how it went, what it took. */
import type { JSX } from "preact";
import { ENDING, SIDE, plural } from "../game/words.ts";
import { useLook } from "../parts/look.ts";
import { ShortId } from "../parts/short-id.tsx";
import { Fault, Loading } from "../parts/states.tsx";
import { fixed } from "../report/numbers.ts";
import { href } from "../router.ts";
import { server } from "../session.ts";
import { Status } from "./game.tsx";

const number = new Intl.NumberFormat("en");
const EVERY_MS = 2000;
const OVER: ReadonlySet<string> = new Set(["done", "cancelled", "failed"]);

const Counts = ({ title, counts, names }: { title: string; counts: Record<string, number>; names: Record<string, string> }): JSX.Element | null => {
  const rows = Object.entries(counts).filter(([, count]) => count > 0);
  const all = rows.reduce((sum, [, count]) => sum + count, 0);
  if (!rows.length) return null;
  return (
    <section class="panel">
      <h2>{title}</h2>
      <ul class="bars">
        {rows.map(([name, count]) => (
          <li key={name}>
            <span>{names[name] ?? name.replaceAll("_", " ")}</span>
            <span class="figure">{number.format(count)}</span>
            <span class="bar" aria-hidden="true">
              <span style={{ inlineSize: `${(100 * count) / all}%` }} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
};

export const BatchPage = ({ batch }: { batch: string }): JSX.Element => {
  const { found: view, fault, again } = useLook(
    (stop) => server.batch(batch, stop),
    ({ status }) => (OVER.has(status) ? undefined : EVERY_MS),
  );
  if (fault !== undefined && !view) return <Fault whole error={fault} again={again} />;
  if (!view) return <Loading what="the batch" />;
  const done = (view.games as Record<string, number>)["finished"] ?? 0;
  return (
    <div class="batch">
      {fault !== undefined && <Fault beside error={fault} again={again} />}
      <div class="game-title">
        <h1>
          <span class="muted">Batch</span> <ShortId id={batch} />
        </h1>
        <Status status={view.status} />
      </div>
      {Object.keys(view.labels).length > 0 && (
        <ul class="labels" aria-label="Labels">
          {Object.entries(view.labels).map(([name, value]) => (
            <li key={name}>
              <span class="muted">
                <bdi>{name}</bdi>
              </span>{" "}
              <bdi>{value}</bdi>
            </li>
          ))}
        </ul>
      )}
      <p>
        {number.format(done)} of {plural(view.count, "game")} finished
        {view.eta_s !== null && view.eta_s !== undefined && view.status === "running" && <>, about {Math.ceil(view.eta_s)} s to go</>}.{" "}
        <a href={href("/", { batch })}>Its games</a>
        {done > 0 && (
          <>
            {" "}
            · <a href={href("/reports", { batch })}>Its report</a>
          </>
        )}
      </p>
      <progress value={done} max={view.count} aria-label="Games finished" />
      {view.suspended && (
        <p class="warning" dir="auto">
          Suspended: {view.suspended.cause}
        </p>
      )}
      <div class="panels">
        <Counts title="Games" counts={view.games as Record<string, number>} names={{}} />
        <Counts title="Winners" counts={view.winners as Record<string, number>} names={SIDE} />
        <Counts title="Endings" counts={view.endings as Record<string, number>} names={ENDING} />
        {view.models.length > 0 && (
          <section class="panel wide">
            <h2>Models</h2>
            <div class="scroll" tabIndex={0} role="group" aria-label="Models, to be scrolled">
              <table class="history uses">
                <thead>
                  <tr>
                    <th scope="col">Model</th>
                    <th scope="col">Calls</th>
                    <th scope="col">Failed</th>
                    <th scope="col">Tokens in</th>
                    <th scope="col">Tokens out</th>
                    <th scope="col">Cost</th>
                  </tr>
                </thead>
                <tbody>
                  {view.models.map((use, i) => (
                    <tr key={i}>
                      <th scope="row">{use.model}</th>
                      <td>{number.format(use.calls)}</td>
                      <td>{number.format(use.failed)}</td>
                      <td>{number.format(use.prompt_tokens)}</td>
                      <td>{number.format(use.completion_tokens)}</td>
                      <td>{fixed(use.cost, 4)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          </section>
        )}
      </div>
    </div>
  );
};
