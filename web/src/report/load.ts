/** What reports and studies ask of the service. */
import type { BatchSummary, Query, Report, ReportProgress } from "@interintent/client";
import { useEffect, useState } from "preact/hooks";
import { type Looked, useLook } from "../parts/look.ts";
import { key, server } from "../session.ts";

export interface Asked<T> {
  found?: T;
  fault?: unknown;
  /** How far a report is that takes a while. */
  making?: ReportProgress;
}

export const useReport = (query: Query): Asked<Report> => {
  const [asked, setAsked] = useState<Asked<Report>>({});
  useEffect(() => {
    const stop = new AbortController();
    setAsked({});
    server.report(query, (making) => setAsked({ making }), stop.signal).then(
      (found) => setAsked({ found }),
      (fault: unknown) => stop.signal.aborted || setAsked({ fault }),
    );
    return () => stop.abort();
  }, [JSON.stringify(query), key.value]);
  return asked;
};

/** Every batch, or every one with a label (`name=value`), the newest first. */
export const allBatches = async (label: string | undefined, signal: AbortSignal): Promise<BatchSummary[]> => {
  const found: BatchSummary[] = [];
  let cursor: string | null | undefined;
  do {
    const page = await server.batches({ limit: 200, label, cursor }, signal);
    found.push(...page.batches);
    cursor = page.next;
  } while (cursor);
  return found;
};

export const useBatches = (): Looked<readonly BatchSummary[]> => useLook<readonly BatchSummary[]>((stop) => allBatches(undefined, stop));

/** The games of a set: see `Report.sources`. */
export const gamesOf = (report: Report, set: number): string[] => {
  const mask = BigInt(`0x${report.sources.sets[set] ?? "0"}`);
  return report.sources.games.filter((_, i) => (mask >> BigInt(i)) & 1n);
};
