/** Studies: batches that carry the labels `study` and `cell`. Until every planned game is there, a study's page shows
 * progress, cost and defaults, and no result: who looks early finds more than there is. */
import type { BatchSummary, BatchView } from "@interintent/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { plural } from "../game/words.ts";
import { Icon } from "../parts/icons.tsx";
import { type Looked, useLook } from "../parts/look.ts";
import { Empty, Fault, Loading } from "../parts/states.tsx";
import { allBatches, useBatches } from "../report/load.ts";
import { fixed } from "../report/numbers.ts";
import { CAUSE, STUDY_SECTIONS } from "../report/view.tsx";
import { href } from "../router.ts";
import { server } from "../session.ts";
import { Status } from "./game.tsx";
import { MOST, Made, columnOf, isColumn } from "./reports.tsx";

const number = new Intl.NumberFormat("en");
const OVER: ReadonlySet<string> = new Set(["done", "cancelled", "failed"]);

/** Games that a batch was to play: cancelled ones are planned anew in other batches. */
const planned = (batch: BatchSummary | BatchView): number => batch.count - (batch.games.cancelled ?? 0);
const sum = <T,>(list: readonly T[], count: (one: T) => number): number => list.reduce((all, one) => all + count(one), 0);

/** Games of the whole study, as the newest of its batches says in the label `planned`; without it, of its batches. */
const plannedOf = (batches: readonly (BatchSummary | BatchView)[]): number => {
  const newest = batches.reduce((one, other) => (other.created_at > one.created_at ? other : one));
  return Math.max(Number(newest.labels["planned"]) || 0, sum(batches, planned));
};

const grouped = <T extends { labels: Record<string, string> }>(batches: readonly T[], label: string): [string, T[]][] => {
  const found = new Map<string, T[]>();
  for (const batch of batches) {
    const name = batch.labels[label] ?? "";
    found.set(name, [...(found.get(name) ?? []), batch]);
  }
  return [...found];
};

export const StudiesPage = (): JSX.Element => {
  const { found, fault, again } = useBatches();
  if (fault !== undefined) return <Fault whole error={fault} again={again} />;
  if (!found) return <Loading what="the studies" />;
  const studies = grouped(
    found.filter(({ labels }) => labels["study"]),
    "study",
  );
  return (
    <div class="studies">
      <h1>Studies</h1>
      {studies.length === 0 ? (
        <Empty title="No study has been played here yet">
          <p>
            <code>interintent study run --server</code> plays one here; so does any batch with the labels <code>study</code> and <code>cell</code>.
          </p>
        </Empty>
      ) : (
        <ul class="panels">
          {studies.map(([study, batches]) => {
            const all = plannedOf(batches);
            const done = sum(batches, ({ games }) => games.finished ?? 0);
            return (
              <li class="panel" key={study}>
                <h2>
                  <a href={href(`/studies/${encodeURIComponent(study)}`)}>
                    <bdi>{study}</bdi>
                  </a>
                </h2>
                <progress value={done} max={Math.max(1, all)} aria-label={`Games finished of ${study}`} />
                <p>
                  {number.format(done)} of {plural(all, "game")} in {plural(grouped(batches, "cell").length, "cell")}
                </p>
                <Status status={batches.find(({ status }) => !OVER.has(status))?.status ?? (done >= all ? "done" : batches.some(({ games }) => games.failed) ? "failed" : "created")} />
              </li>
            );
          })}
        </ul>
      )}
    </div>
  );
};

/** Milliseconds from one look at a study to the next: while games run, and when all batches are over. */
const SOON = 2000;
const LATER = 15_000;

/** The batches of a study in full, looked at again and again: a study makes more of them as it goes on. */
const useStudy = (study: string): Looked<readonly BatchView[]> =>
  useLook<readonly BatchView[]>(
    async (stop, known) => {
      const views = new Map(known?.map((one) => [one.batch_id, one]));
      const listed = await allBatches(`study=${study}`, stop);
      // The oldest first: cells stand in the order in which they were begun.
      for (const { batch_id, status } of listed.toReversed())
        if (views.get(batch_id)?.status !== status || !OVER.has(status)) views.set(batch_id, await server.batch(batch_id, stop));
      return [...views.values()];
    },
    (found) => (found.some(({ status }) => !OVER.has(status)) ? SOON : LATER),
  );

const Cell = ({ cell, batches }: { cell: string; batches: readonly BatchView[] }): JSX.Element => {
  const all = sum(batches, planned);
  const done = sum(batches, ({ games }) => games.finished ?? 0);
  const failed = sum(batches, ({ games }) => games.failed ?? 0);
  const tokens = sum(batches, (one) => one.tokens ?? 0);
  const decisions = sum(batches, (one) => one.defaults?.decisions ?? 0);
  const causes = new Map<string, number>();
  for (const one of batches) for (const [cause, n] of Object.entries(one.defaults?.defaulted ?? {})) causes.set(cause, (causes.get(cause) ?? 0) + n);
  const defaulted = sum([...causes.values()], (n) => n);
  const costs = batches.map((one) => one.cost).filter((cost): cost is number => cost != null);
  return (
    <tr>
      <th scope="row">
        <bdi>{cell || "without a cell"}</bdi>
        <small class="cell-batches">
          {batches.map((one, i) => (
            <a key={one.batch_id} href={href(`/batches/${one.batch_id}`)}>
              batch {i + 1}
            </a>
          ))}
        </small>
      </th>
      <td>
        <progress value={done} max={Math.max(1, all)} aria-label={`Games finished of ${cell}`} />
        <small>
          {number.format(done)} of {number.format(all)}
          {done >= all && (
            <>
              {" "}
              <Icon name="check" label="all there" />
            </>
          )}
        </small>
        {failed > 0 && <small class="warning">{plural(failed, "game")} failed</small>}
      </td>
      <td>
        {!batches.some((one) => one.defaults) ? (
          <span class="muted">not shown to you</span>
        ) : decisions === 0 ? (
          <span class="muted">none counted before a game is finished</span>
        ) : (
          <>
            <span class={defaulted ? "warning" : ""}>{fixed((100 * defaulted) / decisions, 1)} %</span>
            <small>
              {number.format(defaulted)} of {number.format(decisions)} decisions
            </small>
            {[...causes].map(([cause, n]) => (
              <small key={cause}>
                {number.format(n)} {CAUSE[cause] ?? cause}
              </small>
            ))}
          </>
        )}
      </td>
      <td>
        {costs.length ? fixed(sum(costs, (cost) => cost), 4) : <span class="muted">not shown to you</span>}
        {costs.length > 0 && <small>{number.format(tokens)} tokens</small>}
      </td>
      <td>
        {[...new Set(batches.map((one) => one.status))].map((status) => (
          <Status key={status} status={status} />
        ))}
        {batches.map((one) =>
          one.suspended ? (
            <small class="warning" dir="auto" key={one.batch_id}>
              {one.suspended.cause}
            </small>
          ) : null,
        )}
      </td>
    </tr>
  );
};

/** The most levels of one contrast. */
const MOST_LEVELS = 6;
/** A level as a report is asked for it, whatever it is called. */
const quoted = (level: string): string => `"${level.replaceAll('"', '""')}"`;

const Results = ({ batches }: { batches: readonly BatchView[] }): JSX.Element => {
  const names = [...new Set(batches.flatMap(({ labels }) => Object.keys(labels)))].filter((name) => name !== "study" && name !== "planned" && isColumn(name));
  const levels = (name: string): string[] => [...new Set(batches.map(({ labels }) => labels[name]).filter((level): level is string => !!level))];
  // Factors first: a cell is a combination of them.
  const factors = names.filter((name) => name !== "cell" && name !== "title" && levels(name).length > 1);
  const choices = [...factors, ...(levels("cell").length > 1 ? ["cell"] : [])];
  const [picked, setPicked] = useState("");
  const [ticked, setTicked] = useState<readonly string[]>([]);
  const chosen = choices.includes(picked) ? picked : (choices[0] ?? "");
  const batch = batches.slice(0, MOST).map(({ batch_id }) => batch_id);
  const column = columnOf(chosen);
  const all = levels(chosen);
  const compared = all.length > MOST_LEVELS ? all.filter((level) => ticked.includes(level)) : all;
  return (
    <section>
      <div class="row results-head">
        <h2>Contrasts</h2>
        {choices.length > 1 && (
          <label>
            between the levels of{" "}
            <select
              value={chosen}
              onChange={(event) => {
                setPicked(event.currentTarget.value);
                setTicked([]);
              }}
            >
              {choices.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
        )}
      </div>
      {batches.length > MOST && (
        <p class="warning">
          The study has {batches.length} batches, and one report takes {MOST}: <code>interintent study report</code> counts them all.
        </p>
      )}
      {batches.length <= MOST &&
        (chosen ? (
          <>
            {all.length > MOST_LEVELS && (
              <fieldset class="panel row">
                <legend>Levels to contrast, two to {MOST_LEVELS}</legend>
                {all.map((level) => (
                  <label class="choice" key={level}>
                    <input
                      type="checkbox"
                      checked={compared.includes(level)}
                      disabled={!compared.includes(level) && compared.length >= MOST_LEVELS}
                      onChange={(event) => setTicked(event.currentTarget.checked ? [...compared, level] : compared.filter((one) => one !== level))}
                    />
                    <bdi>{level}</bdi>
                  </label>
                ))}
              </fieldset>
            )}
            <Made
              query={{ batch: batch.join(","), group_by: column, contrast: compared.length < 2 ? undefined : `${column}=${compared.map(quoted).join(",")}` }}
              only={STUDY_SECTIONS}
            />
          </>
        ) : (
          <p>The study has one cell: there is nothing to contrast.</p>
        ))}
      <p>
        <a href={href("/reports", { batch: batch.join(","), group_by: chosen ? column : undefined })}>The whole report</a>
      </p>
    </section>
  );
};

export const StudyPage = ({ study }: { study: string }): JSX.Element => {
  const { found, fault, again } = useStudy(study);
  if (fault !== undefined && !found) return <Fault whole error={fault} again={again} />;
  if (!found) return <Loading what="the study" />;
  if (!found.length)
    return (
      <Empty whole title="There is no such study here">
        <p>
          No batch has the label study={study}. <a href={href("/studies")}>To the studies</a>
        </p>
      </Empty>
    );
  const all = plannedOf(found);
  const done = sum(found, ({ games }) => games.finished ?? 0);
  const failed = sum(found, ({ games }) => games.failed ?? 0);
  return (
    <div class="study">
      <h1>
        <span class="muted">Study</span> <bdi>{study}</bdi>
      </h1>
      {fault !== undefined && <Fault beside error={fault} again={again} />}
      <p role="status">
        {number.format(done)} of {plural(all, "planned game")} finished
      </p>
      <progress value={done} max={Math.max(1, all)} aria-label="Games finished" />
      <div class="panel study-cells scroll" tabIndex={0} role="region" aria-label="Cells, to be scrolled">
        <table>
          <thead>
            <tr>
              <th scope="col">Cell</th>
              <th scope="col">Games</th>
              <th scope="col">Defaults</th>
              <th scope="col">Cost</th>
              <th scope="col">Status</th>
            </tr>
          </thead>
          <tbody>
            {grouped(found, "cell").map(([cell, batches]) => (
              <Cell key={cell} cell={cell} batches={batches} />
            ))}
          </tbody>
        </table>
      </div>
      {done >= all && done > 0 ? (
        <Results batches={found.filter((batch) => planned(batch) > 0)} />
      ) : (
        <section class="panel">
          <h2>No results yet</h2>
          <p>
            Contrasts appear when every planned game is there: who looks early finds differences that are none.
            {failed > 0 && (
              <span class="warning">
                {" "}
                {plural(failed, "game")} failed; <code>interintent batch retry</code> plays them on.
              </span>
            )}
          </p>
        </section>
      )}
    </div>
  );
};
