/** What reports and studies ask of the service. */
import type { BatchSummary, Query, Report, ReportProgress } from "@interintent/client";
import { useState } from "preact/hooks";
import { type Looked, useLook } from "../parts/look.ts";
import { server } from "../session.ts";

export interface Asked {
  /** Undefined: it is being made, or could not be. */
  found: Report | undefined;
  fault: unknown;
  again: () => void;
  /** How far a report is that takes a while. */
  making: ReportProgress | undefined;
}

export const useReport = (query: Query): Asked => {
  const of = JSON.stringify(query);
  const [making, setMaking] = useState<ReportProgress | undefined>(undefined);
  const { found, fault, again } = useLook(
    async (stop) => {
      setMaking(undefined);
      return { of, report: await server.report(query, setMaking, stop) };
    },
    () => undefined,
    [of],
  );
  return { found: found?.of === of ? found.report : undefined, fault, again, making };
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
