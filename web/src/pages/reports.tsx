/** A report on chosen batches; the choice is in the address, so a link leads to the same report. */
import type { BatchSummary, Query } from "@interintent/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { plural } from "../game/words.ts";
import { ShortId } from "../parts/short-id.tsx";
import { Empty, Fault, Loading } from "../parts/states.tsx";
import { useBatches, useReport } from "../report/load.ts";
import { ReportView } from "../report/view.tsx";
import { go, href, place } from "../router.ts";
import { server } from "../session.ts";

/** The most batches that one report takes. */
export const MOST = 20;
const COLUMNS = ["agent", "model", "served", "preset", "steps", "prompts", "memory", "timing", "role", "side", "profile", "players", "rules", "batch", "file", "agents", "seating", "seed"];
/** Whether reports can have a column of a label of batches: labels may be called anything. */
export const isColumn = (label: string): boolean => /^[a-z][a-z0-9_]*$/.test(label);
/** The column of a label of batches; `mechanism` is another name of `preset`. */
export const columnOf = (label: string): string => (label === "mechanism" || COLUMNS.includes(label) ? `label:${label}` : label);
const FORMS = { html: "Page", csv: "CSV", latex: "LaTeX", json: "JSON" } as const;

const Choose = ({ batches, chosen }: { batches: readonly BatchSummary[]; chosen: readonly string[] }): JSX.Element => {
  const { group_by = "", contrast = "", where = "", exclude_above = "" } = place.value.query;
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set(chosen));
  const [words, setWords] = useState("");
  const usable = batches.filter(({ batch_id, games }) => (games["finished"] ?? 0) > 0 || picked.has(batch_id));
  const wanted = words.trim().toLowerCase();
  const listed = usable.filter((batch) => `${batch.batch_id} ${batch.title} ${Object.values(batch.labels).join(" ")}`.toLowerCase().includes(wanted));
  const labels = [...new Set(usable.filter(({ batch_id }) => picked.has(batch_id)).flatMap((batch) => Object.keys(batch.labels)))];
  const columns = [...labels.filter(isColumn).map(columnOf), ...COLUMNS];
  if (!usable.length)
    return (
      <Empty title="No batch has a finished game yet">
        <p>
          A report sums up finished games. <a href={href("/")}>Play some</a>
        </p>
      </Empty>
    );
  return (
    <form
      class="panel choose-report"
      onSubmit={(event) => {
        event.preventDefault();
        const form = new FormData(event.currentTarget);
        const text = (name: string): string => String(form.get(name) ?? "").trim();
        go(
          href("/reports", {
            batch: [...picked].join(","),
            group_by: text("group_by"),
            contrast: text("contrast"),
            where: text("where"),
            exclude_above: text("exclude_above"),
          }),
        );
      }}
    >
      <fieldset>
        <legend>Batches, at most {MOST}</legend>
        {usable.length > 8 && (
          <label class="field">
            Find
            <input type="search" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
          </label>
        )}
        <ul class="batch-choice" tabIndex={0} aria-label="Batches with finished games">
          {listed.map((batch) => (
            <li key={batch.batch_id}>
              <label class="choice">
                <input
                  type="checkbox"
                  checked={picked.has(batch.batch_id)}
                  disabled={!picked.has(batch.batch_id) && picked.size >= MOST}
                  onChange={(event) => {
                    const next = new Set(picked);
                    if (event.currentTarget.checked) next.add(batch.batch_id);
                    else next.delete(batch.batch_id);
                    setPicked(next);
                  }}
                />
                <span>
                  <bdi>{batch.title || "Without a title"}</bdi>
                  <br />
                  <small class="muted">
                    <ShortId id={batch.batch_id} /> · {batch.games["finished"] ?? 0} of {plural(batch.count, "game")} finished
                  </small>
                </span>
              </label>
            </li>
          ))}
        </ul>
        {listed.length === 0 && <p>No batch has “{words}” in its title, labels or name.</p>}
      </fieldset>
      <div class="report-options">
        <label class="field">
          Groups side by side
          <select name="group_by" value={group_by}>
            <option value="">None</option>
            {[...new Set(group_by ? [group_by, ...columns] : columns)].map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          Contrast
          <input name="contrast" value={contrast} placeholder="mood=calm,wild" autocapitalize="off" spellcheck={false} />
        </label>
        <label class="field">
          Only where
          <input name="where" value={where} placeholder="role=merlin" autocapitalize="off" spellcheck={false} />
        </label>
        <label class="field">
          Exclude above (defaults)
          <input name="exclude_above" type="number" min="0" max="1" step="0.01" value={exclude_above} placeholder="0.05" />
        </label>
      </div>
      <p class="row">
        <button type="submit" class="primary" disabled={!picked.size}>
          Make the report
        </button>
        <span class="muted" role="status">
          {picked.size ? `${plural(picked.size, "batch", "batches")} chosen` : "Choose a batch"}
        </span>
      </p>
    </form>
  );
};

/** A form of the report as a file; a link could not carry the key. */
const Download = ({ query, form }: { query: Query; form: keyof typeof FORMS }): JSX.Element => {
  const [fault, setFault] = useState<unknown>(undefined);
  const save = async (): Promise<void> => {
    setFault(undefined);
    try {
      const answer = await server.response("GET", "/reports", { query: { ...query, format: form, wait_s: 300 } });
      const address = URL.createObjectURL(await answer.blob());
      const link = document.createElement("a");
      link.href = address;
      link.download = `report.${form === "latex" ? "tex" : form}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
    } catch (error) {
      setFault(error);
    }
  };
  return (
    <>
      <button type="button" onClick={() => void save()}>
        {FORMS[form]}
      </button>
      {fault !== undefined && <Fault error={fault} again={() => void save()} />}
    </>
  );
};

export const Made = ({ query, only }: { query: Query; only?: readonly string[] }): JSX.Element => {
  const { found, fault, again, making } = useReport(query);
  if (fault !== undefined && !found) return <Fault error={fault} again={again} />;
  if (!found)
    return making ? (
      <div class="state" role="status">
        <p>
          The report is being made: {making.games_done} of {plural(making.games, "game")}
          {making.eta_s != null && <>, about {Math.ceil(making.eta_s)} s to go</>}
        </p>
        <progress value={making.games_done} max={making.games} aria-label="Games counted" />
      </div>
    ) : (
      <Loading what="the report" />
    );
  if (!found.made_of["games"] && !only)
    return (
      <Empty title="There is nothing to report yet">
        <p>None of these batches has a finished game that counts.</p>
      </Empty>
    );
  return (
    <>
      <p class="muted">
        {plural(Number(found.made_of["games"] ?? 0), "finished game")} · intervals are 95 %
        {typeof found.made_of["intervals"] === "string" && `: ${found.made_of["intervals"]}`}. Every figure that can be opened leads to its games.
      </p>
      {!only && (
        <div class="row downloads" role="group" aria-label="Save the report as">
          <span>Save as</span>
          {(Object.keys(FORMS) as (keyof typeof FORMS)[]).map((form) => (
            <Download key={form} query={query} form={form} />
          ))}
        </div>
      )}
      <ReportView report={found} {...(only ? { only } : {})} />
    </>
  );
};

export const ReportsPage = (): JSX.Element => {
  const { batch = "", group_by, contrast, where, exclude_above } = place.value.query;
  const { found, fault, again } = useBatches();
  const chosen = batch.split(",").filter(Boolean);
  const here = JSON.stringify(place.value.query);
  return (
    <div class="reports">
      <h1>{chosen.length ? "Report" : "Reports"}</h1>
      {!chosen.length && <p class="muted">The paper's tables and our own, over finished games of one or several batches.</p>}
      {fault !== undefined ? (
        // A chosen report tells its own faults.
        chosen.length === 0 && <Fault error={fault} again={again} />
      ) : !found ? (
        <Loading what="the batches" />
      ) : chosen.length ? (
        <details class="change">
          <summary>
            Of {plural(chosen.length, "batch", "batches")}
            {group_by && `, by ${group_by}`}
            {contrast && `, ${contrast}`}: change
          </summary>
          <Choose key={here} batches={found} chosen={chosen} />
        </details>
      ) : (
        <Choose batches={found} chosen={[]} />
      )}
      {chosen.length > 0 && <Made key={here} query={{ batch, group_by, contrast, where, exclude_above }} />}
    </div>
  );
};
