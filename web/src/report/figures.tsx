/** Figures: as a bar with its interval, and rows of them side by side. */
import type { ReportFigure, ReportRow, ReportTable } from "@interintent/client";
import type { JSX } from "preact";
import type { Column } from "./numbers.ts";

/** A difference runs from −1 to 1, any other share from 0 to 1. */
const signed = (table: ReportTable, column: Column): boolean =>
  (table.name.startsWith("contrast") && column.name !== "first" && column.name !== "second") || column.name.includes("minus");

const place = (value: number, both: boolean): string => `${(Math.min(1, Math.max(0, both ? (value + 1) / 2 : value)) * 100).toFixed(2)}%`;

/** The figure on its scale: a line for the interval, a mark for the value, a line at 0 for differences. */
export const Bar = ({ table, column, figure }: { table: ReportTable; column: Column; figure: ReportFigure }): JSX.Element | null => {
  if (column.unit !== "share" || figure.value === null) return null;
  const both = signed(table, column);
  if (!both && (figure.value < 0 || figure.value > 1)) return null;
  return (
    <svg class="scale" aria-hidden="true" focusable="false">
      <line class="rail" x1="0" x2="100%" y1="6" y2="6" />
      {both && <line class="zero" x1="50%" x2="50%" y1="0" y2="12" />}
      {figure.low !== null && figure.high !== null && (
        <line class="interval" x1={place(figure.low, both)} x2={place(figure.high, both)} y1="6" y2="6" />
      )}
      <circle cx={place(figure.value, both)} cy="6" r="3.5" />
    </svg>
  );
};

const SHAPES = [
  <circle key="0" r="5" />,
  <path key="1" d="M0-6.500 6.500 0 0 6.500-6.500 0z" />,
  <path key="2" d="M-4.500-4.500h9v9h-9z" />,
  <path key="3" d="M0-5.500 5.500 4.500h-11z" />,
  <path key="4" d="M0 5.500 5.500-4.500h-11z" />,
  <path key="5" class="hollow" d="M-4.500-4.500 4.500 4.500M4.500-4.500-4.500 4.500" />,
];
const TICKS = new Set(["chance", "ceiling"]);

const Mark = ({ index }: { index: number }): JSX.Element => <g class={`mark hue-${(index % 10) + 1}`}>{SHAPES[index % SHAPES.length]}</g>;

export const labelOf = (row: ReportRow): string => row.labels.map((label) => row.words?.[label] ?? label).join(" · ");

/** Whether a row contrasts failures: games excluded, decisions played by default. */
export const failure = (table: ReportTable, row: ReportRow): boolean =>
  table.name.startsWith("contrast") && row.labels.some((label) => /^(games excluded|decisions played by default)/.test(label));

/** The rows of a table above one another on one scale. What it shows stands as numbers in the table, too. */
export const Plot = ({ table }: { table: ReportTable }): JSX.Element | null => {
  const wanted = table.name === "contrasts" ? table.columns.filter(({ name }) => name === "difference") : table.columns;
  const columns = wanted.filter(({ unit, name }) => unit === "share" && !TICKS.has(name));
  const value = (row: ReportRow, column: Column): ReportFigure | undefined => {
    const figure = row.figures[column.name];
    return figure && figure.value !== null ? figure : undefined;
  };
  const rows = table.rows.filter((row) => columns.some((column) => value(row, column)));
  const used = columns.filter((column) => rows.some((row) => value(row, column)));
  if (!rows.length || !used.length) return null;
  const both = table.name === "contrasts";
  // One part for each contrast; what failed comes last, apart from the findings.
  const parts = new Map<string, ReportRow[]>();
  if (both) {
    const several = new Set(rows.map(({ labels }) => labels[0])).size > 1;
    for (const row of [...rows.filter((one) => !failure(table, one)), ...rows.filter((one) => failure(table, one))]) {
      const name = [several ? row.labels[0] : "", failure(table, row) ? "What failed: no finding" : ""].filter(Boolean).join(" · ");
      parts.set(name, [...(parts.get(name) ?? []), row]);
    }
  } else parts.set("", rows);
  const ticks = [...TICKS].filter((name) => rows.some((row) => row.figures[name]?.value != null));
  return (
    <figure class="plot" aria-hidden="true">
      {(used.length > 1 || ticks.length > 0) && (
        <figcaption class="row">
          {used.map(({ name }) => (
            <span key={name} class="key">
              <svg viewBox="-8 -8 16 16" width="16" height="16">
                <Mark index={columns.findIndex((column) => column.name === name)} />
              </svg>
              {name}
            </span>
          ))}
          {ticks.map((name) => (
            <span key={name} class="key">
              <svg viewBox="-8 -8 16 16" width="16" height="16">
                <line class={`tick tick-${name}`} y1="-7" y2="7" />
              </svg>
              {name}
            </span>
          ))}
        </figcaption>
      )}
      {both && (
        <figcaption>
          {parts.size <= 2 && <strong>{rows[0]!.labels[0]}</strong>} Difference in percentage points; right of 0 the first level has more.
        </figcaption>
      )}
      <div class="plot-rows">
        {[...parts].map(([part, its]) => (
          <div class={part.includes("What failed") ? "plot-part failed" : "plot-part"} key={part}>
            {part && <p>{part}</p>}
            {its.map((row, i) => {
          const lanes = used.filter((column) => value(row, column));
          const height = 16 * lanes.length + 6;
          return (
            <div class="plot-row" key={i}>
              <span>{(both ? row.labels.slice(1) : row.labels).map((label) => row.words?.[label] ?? label).join(" · ")}</span>
              <svg height={height}>
                {[0, 25, 50, 75, 100].map((x) => (
                  <line key={x} class={both && x === 50 ? "zero" : "grid"} x1={`${x}%`} x2={`${x}%`} y1="0" y2={height} />
                ))}
                {ticks.map((name) => {
                  const at = row.figures[name]?.value;
                  return at == null ? null : <line key={name} class={`tick tick-${name}`} x1={place(at, both)} x2={place(at, both)} y1="2" y2={height - 2} />;
                })}
                {lanes.map((column, lane) => {
                  const figure = value(row, column)!;
                  const y = 11 + 16 * lane;
                  const index = columns.indexOf(column);
                  return (
                    <g key={column.name} class={`hue-${(index % 10) + 1}`}>
                      {figure.low !== null && figure.high !== null && (
                        <line class="interval" x1={place(figure.low, both)} x2={place(figure.high, both)} y1={y} y2={y} />
                      )}
                      <svg x={place(figure.value!, both)} y={y} class="at">
                        <Mark index={index} />
                      </svg>
                    </g>
                  );
                })}
              </svg>
            </div>
          );
        })}
          </div>
        ))}
        <div class="plot-row axis">
          <span />
          <svg height="18">
            {(both ? ["−100", "−50", "0", "+50", "+100"] : ["0", "25", "50", "75", "100 %"]).map((text, i) => (
              <text key={text} x={`${25 * i}%`} y="13" text-anchor="middle">
                {text}
              </text>
            ))}
          </svg>
        </div>
      </div>
    </figure>
  );
};
