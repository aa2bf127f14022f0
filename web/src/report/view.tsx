/** A report as a page: what to read first, what failed, then its tables. */
import type { Report, ReportFigure, ReportTable } from "@interintent/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { plural } from "../game/words.ts";
import { Icon } from "../parts/icons.tsx";
import { ShortId } from "../parts/short-id.tsx";
import { href } from "../router.ts";
import { Behind, type Chosen } from "./behind.tsx";
import { Bar, Plot, failure } from "./figures.tsx";
import { type Column, counts, fixed, range, shown } from "./numbers.ts";

const number = new Intl.NumberFormat("en");
const percent = (part: number, all: number): string => `${fixed((100 * part) / Math.max(1, all), 1)} %`;

/** The sections that come first, and the tables that are drawn. */
const PAPER = "The paper's tables and figures";
const QUESTIONS = "The study's questions";
const GROUPS = "Groups side by side";
/** What models and programs judged: never pooled with people's word, and not to be looked for among the additions. */
const JUDGES = "Judged by models and programs";
const FIRST: readonly string[] = [QUESTIONS, GROUPS, PAPER, JUDGES];
const sectionOf = ({ name, section }: ReportTable): string => (name === "judges" || name === "judges_corrected" || name === "statement_judges" ? JUDGES : section);
const DRAWN: ReadonlySet<string> = new Set(["contrasts", "groups", "dimensions", "results", "play"]);

/** A longer table is opened by who wants it. */
const FEW = 12;

interface Decided {
  decisions: number;
  defaulted: Record<string, number>;
}

/** A cause of a default, in words. */
export const CAUSE: Record<string, string> = {
  model_error: "no usable answer of a model",
  deadline: "too late",
  attempts: "illegal answers",
  cancelled: "game cancelled",
};

/** What failed: it is told before any finding, and is none. */
const Failures = ({ report }: { report: Report }): JSX.Element | null => {
  const defaults = report.made_of["defaults"] as Record<string, Decided> | undefined;
  const excluded = (report.made_of["excluded"] ?? []) as readonly { game: string; reason: string }[];
  const unread = (report.made_of["left_out"] ?? []) as readonly { game: string; reason: string }[];
  const byReason = Object.entries((report.made_of["excluded_games"] ?? {}) as Record<string, number>);
  if (!defaults && !excluded.length && !byReason.length && !unread.length) return null;
  const agents = Object.entries(defaults ?? {});
  const decisions = agents.reduce((sum, [, one]) => sum + one.decisions, 0);
  const sum = (one: Decided): number => Object.values(one.defaulted).reduce((all, n) => all + n, 0);
  const defaulted = agents.reduce((all, [, one]) => all + sum(one), 0);
  return (
    <section class="panel failures" aria-labelledby="failures">
      <h2 id="failures">What failed, and is no finding</h2>
      {agents.length > 0 && (
        <p>
          {number.format(decisions)} decisions,{" "}
          {defaulted ? (
            <strong class="warning">
              {number.format(defaulted)} by default ({percent(defaulted, decisions)})
            </strong>
          ) : (
            "none by default"
          )}
          .
        </p>
      )}
      {defaulted > 0 && (
        <ul>
          {agents
            .filter(([, one]) => sum(one) > 0)
            .map(([agent, one]) => (
              <li key={agent}>
                <bdi>{agent}</bdi>:{" "}
                {Object.entries(one.defaulted)
                  .map(([cause, n]) => `${number.format(n)} ${CAUSE[cause] ?? cause}`)
                  .join(", ")}{" "}
                of {number.format(one.decisions)}
              </li>
            ))}
        </ul>
      )}
      {byReason.length > 0 && (
        <p class="warning">{byReason.map(([reason, n]) => `${plural(n, "game")} excluded: ${reason}`).join("; ")}</p>
      )}
      {excluded.length > 0 && (
        <ul class="behind-games">
          {excluded.map(({ game, reason }) => (
            <li key={game}>
              <a href={href(`/games/${game}`)}>
                <ShortId id={game} />
              </a>{" "}
              <span class="muted">{reason}</span>
            </li>
          ))}
        </ul>
      )}
      {!excluded.length && !byReason.length && <p>No game is excluded.</p>}
      {unread.length > 0 && (
        <>
          <p class="warning">Could not be read or measured, and is left out:</p>
          <ul class="behind-games">
            {unread.map(({ game, reason }) => (
              <li key={game}>
                {game} <span class="muted">{reason}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
};

const Cell = ({ table, column, figure, choose }: { table: ReportTable; column: Column; figure: ReportFigure; choose: () => void }): JSX.Element => {
  const two = figure.with_excluded;
  const inside = (
    <>
      <span class="value">{figure.value === null ? "–" : shown(figure.value, column)}</span>
      <Bar table={table} column={column} figure={figure} />
      {range(figure, column) && <small>{range(figure, column)}</small>}
      {counts(figure) && <small>{counts(figure)}</small>}
    </>
  );
  return (
    <td>
      {figure.from === undefined ? (
        <span class="cell">{inside}</span>
      ) : (
        <button type="button" class="cell" aria-haspopup="dialog" onClick={choose}>
          {inside}
        </button>
      )}
      {figure.note && <small class="why">{figure.note}</small>}
      {two && (
        <small class="why">
          with excluded games: {two.value === null ? "–" : shown(two.value, column)} {range(two, column) && `(${range(two, column)})`}
        </small>
      )}
    </td>
  );
};

const Table = ({ table, choose }: { table: ReportTable; choose: (chosen: Chosen) => void }): JSX.Element => {
  // A column without any number and any reason takes no room.
  const columns = table.columns.filter(({ name }) => table.rows.some((row) => row.figures[name]));
  const [shows, setShows] = useState(false);
  const figures = (
    <div class="scroll" tabIndex={0} role="region" aria-label={`${table.title}: figures`}>
      <table>
        <thead>
          <tr>
            {table.heads.map((head) => (
              <th scope="col" key={head}>
                {head}
              </th>
            ))}
            {columns.map(({ name, unit }) => (
              <th scope="col" key={name}>
                {name}
                {unit === "share" && " %"}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, i) => (
            <tr key={i}>
              {row.labels.map((label, j) => (
                <th scope="row" key={j}>
                  <bdi>{row.words?.[label] ?? label}</bdi>
                  {j === row.labels.length - 1 && failure(table, row) && <small class="why">a failure, no finding</small>}
                </th>
              ))}
              {columns.map((column) => {
                const figure = row.figures[column.name];
                return figure ? (
                  <Cell key={column.name} table={table} column={column} figure={figure} choose={() => choose({ table, row, column, figure })} />
                ) : (
                  <td key={column.name} />
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
  return (
    <article class="report-table" aria-labelledby={`t-${table.name}`}>
      <h3 id={`t-${table.name}`}>{table.title}</h3>
      {DRAWN.has(table.name) && <Plot table={table} />}
      {!table.rows.length ? (
        <p>No numbers: {table.empty}.</p>
      ) : table.rows.length <= FEW ? (
        figures
      ) : (
        <details class="all-figures" onToggle={(event) => setShows(event.currentTarget.open)}>
          <summary>
            All {table.rows.length} rows<span class="hidden">: {table.title}</span>
          </summary>
          {shows && figures}
        </details>
      )}
      {table.caption && (
        <details class="how">
          <summary>
            How it is counted<span class="hidden">: {table.title}</span>
          </summary>
          <p class="muted">{table.caption}</p>
        </details>
      )}
    </article>
  );
};

/** A section that is opened by who wants it; only then its tables are made. */
const Section = ({ name, tables, open, choose }: { name: string; tables: readonly ReportTable[]; open: boolean; choose: (chosen: Chosen) => void }): JSX.Element => {
  const [shows, setShows] = useState(open);
  return (
    <details class="report-section" open={open} onToggle={(event) => setShows(event.currentTarget.open)}>
      <summary>
        <h2>{name}</h2> <span class="muted">{plural(tables.length, "table")}</span>
      </summary>
      {shows && tables.map((table) => <Table key={table.name} table={table} choose={choose} />)}
    </details>
  );
};

const words = (value: unknown): string => {
  if (value === null || value === undefined) return "none";
  if (Array.isArray(value)) return value.map(words).join(", ") || "none";
  if (typeof value === "object")
    return (
      Object.entries(value)
        .map(([name, inner]) => `${name}: ${words(inner)}`)
        .join("; ") || "none"
    );
  return String(value);
};

/** `only`: these sections alone, as a study's page has them. */
export const ReportView = ({ report, only }: { report: Report; only?: readonly string[] }): JSX.Element => {
  const [chosen, setChosen] = useState<Chosen | undefined>(undefined);
  // Tables of the paper keep their places, since readers look for them there.
  const kept = report.tables.filter(({ rows, section }) => rows.length || section === PAPER);
  const names = [...new Set(kept.map(sectionOf))].filter((name) => !only || only.includes(name));
  const sections = [...FIRST.filter((name) => names.includes(name)), ...names.filter((name) => !FIRST.includes(name))];
  const empty = only ? [] : report.tables.filter((table) => !kept.includes(table));
  return (
    <div class="report">
      {report.notes.length > 0 && (
        <section class="panel first-read" aria-labelledby="first-read">
          <h2 id="first-read">
            <Icon name="book" /> Read this first
          </h2>
          <ul>
            {report.notes.map((note) => (
              <li key={note} dir="auto">
                {note}
              </li>
            ))}
          </ul>
        </section>
      )}
      <Failures report={report} />
      {sections.map((name, i) => (
        <Section key={name} name={name} tables={kept.filter((table) => sectionOf(table) === name)} open={i === 0 || FIRST.includes(name)} choose={setChosen} />
      ))}
      {!only && (
        <details class="report-section">
          <summary>
            <h2>How it was made</h2>
          </summary>
          <dl class="made-of">
            {Object.entries(report.made_of).map(([name, value]) => (
              <div key={name}>
                <dt>{name.replaceAll("_", " ")}</dt>
                <dd>{words(value)}</dd>
              </div>
            ))}
            {Object.entries(report.excluded).map(([about, reasons]) => (
              <div key={about}>
                <dt>left out of {about}</dt>
                <dd>{words(reasons)}</dd>
              </div>
            ))}
            {empty.map((table) => (
              <div key={table.name}>
                <dt>{table.title}</dt>
                <dd>no numbers: {table.empty}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
      {chosen && <Behind report={report} chosen={chosen} close={() => setChosen(undefined)} />}
    </div>
  );
};

export const STUDY_SECTIONS: readonly string[] = [QUESTIONS, GROUPS];
