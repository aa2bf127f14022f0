/** What is behind a figure: how it was counted, its games, and its items. */
import type { Item, Report, ReportFigure, ReportRow, ReportTable } from "@interintent/client";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { plural } from "../game/words.ts";
import { ShortId } from "../parts/short-id.tsx";
import { Fault } from "../parts/states.tsx";
import { href } from "../router.ts";
import { server } from "../session.ts";
import { Bar, labelOf } from "./figures.tsx";
import { gamesOf } from "./load.ts";
import { type Column, counts, fixed, range, shown } from "./numbers.ts";

export interface Chosen {
  table: ReportTable;
  row: ReportRow;
  column: Column;
  figure: ReportFigure;
}

const VARIANT = ["reader", "seed", "history", "options", "context"] as const;

/** Whether an item is one of the row's, as far as an item says so. */
const fits = (item: Item, wants: Record<string, unknown>): boolean =>
  Object.entries(wants).every(([field, values]) => !(field in item) || !Array.isArray(values) || values.includes(item[field as keyof Item]));

const SAMPLE: Record<string, keyof Item> = { round: "round", stage: "stage", speaker: "speaker", reader: "reader" };

const Items = ({ report, chosen, games }: { report: Report; chosen: Chosen; games: readonly string[] }): JSX.Element => {
  const [items, setItems] = useState<readonly Item[] | undefined>(undefined);
  const [next, setNext] = useState<string | null | undefined>(undefined);
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState<unknown>(undefined);
  const wants = chosen.row.items ?? {};
  const variant = (report.made_of["variant"] ?? {}) as Record<string, string>;
  const loose = Object.entries(wants).filter(([field]) => field !== "rater" && !(field in SAMPLE));
  const load = async (): Promise<void> => {
    setBusy(true);
    setFault(undefined);
    try {
      const page = await server.items({
        dimension: chosen.table.items!.dimension,
        followed: chosen.table.items!.followed || undefined,
        game: games.slice(0, 20).join(","),
        ...Object.fromEntries(VARIANT.map((name) => [name, variant[name]])),
        limit: 50,
        cursor: next,
      });
      setItems([...(items ?? []), ...page.items.filter((item) => fits(item, wants))]);
      setNext(page.next);
    } catch (error) {
      setFault(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <section>
      <h3>Its items</h3>
      {"rater" in wants && <p>Answered or judged by {String(wants["rater"])}.</p>}
      {loose.length > 0 && (
        <p class="muted">
          Of these, the figure counts those with {loose.map(([field, values]) => `${field.replaceAll("_", " ")} ${[values].flat().join(" or ")}`).join(", ")}.
        </p>
      )}
      {items && (
        <ul class="behind-items">
          {items.map((item) => (
            <li key={item.id}>
              <a href={href(`/games/${item.game_id}`, { at: item.position, eyes: `seat:${item.reader || item.speaker}` })}>
                Game <ShortId id={item.game_id} />, round {item.round}, seat {item.speaker}, {item.stage}
              </a>
            </li>
          ))}
        </ul>
      )}
      {items?.length === 0 && !next && <p>None of these games has such an item.</p>}
      {fault !== undefined && <Fault error={fault} />}
      {(items === undefined || next) && (
        <button type="button" disabled={busy} onClick={() => void load()}>
          {items === undefined ? "Show items" : "More items"}
          {games.length > 20 ? " of the first 20 games" : ""}
        </button>
      )}
    </section>
  );
};

export const Behind = ({ report, chosen, close }: { report: Report; chosen: Chosen; close: () => void }): JSX.Element => {
  const box = useRef<HTMLDialogElement>(null);
  const { table, row, column, figure } = chosen;
  const games = figure.from === undefined ? [] : gamesOf(report, figure.from);
  useEffect(() => box.current?.showModal(), []);
  const two = figure.with_excluded;
  return (
    <dialog class="dialog behind" ref={box} aria-labelledby="behind-title" onClose={close}>
      <header class="row">
        <h2 id="behind-title">Behind this figure</h2>
        <button type="button" onClick={() => box.current?.close()}>
          Close
        </button>
      </header>
      <p>
        <bdi>{labelOf(row)}</bdi> · {column.name}
      </p>
      <p class="big">
        {figure.value === null ? "–" : shown(figure.value, column)}
        {column.unit === "share" && figure.value !== null && <small> %</small>}
      </p>
      <Bar table={table} column={column} figure={figure} />
      <dl class="about-figure">
        {range(figure, column) && (
          <div>
            <dt>95 % interval</dt>
            <dd>
              {range(figure, column)} ({figure.method})
            </dd>
          </div>
        )}
        {counts(figure) && (
          <div>
            <dt>Rests on</dt>
            <dd>{counts(figure)}</dd>
          </div>
        )}
        {figure.design_effect !== null && (
          <div>
            <dt>Design effect</dt>
            <dd>{fixed(figure.design_effect, 2)}: how much wider for what hangs together within a game</dd>
          </div>
        )}
        {figure.note && (
          <div>
            <dt>Note</dt>
            <dd>{figure.note}</dd>
          </div>
        )}
        {two && (
          <div>
            <dt>With excluded games</dt>
            <dd>
              {two.value === null ? "–" : shown(two.value, column)}
              {range(two, column) && ` (${range(two, column)})`} {counts(two)}
            </dd>
          </div>
        )}
      </dl>
      {games.length > 0 && (
        <section>
          <h3>Its {plural(games.length, "game")}</h3>
          <ul class="behind-games">
            {games.map((game) => (
              <li key={game}>
                <a href={href(`/games/${game}`)}>
                  <ShortId id={game} />
                </a>
              </li>
            ))}
          </ul>
        </section>
      )}
      {table.items && games.length > 0 && <Items report={report} chosen={chosen} games={games} />}
    </dialog>
  );
};
