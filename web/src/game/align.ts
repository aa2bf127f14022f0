/** Two games side by side: the same request beside the same request. */
import type { GameEvent } from "@interintent/client";
import type { Table } from "./fold.ts";
import { isNote } from "./story.ts";
import { sentence } from "./words.ts";

export interface Pair {
  /** Where in a game this is: equal in both games when the same seat was asked the same. */
  key: string;
  left?: { at: number; text: string; event: GameEvent };
  right?: { at: number; text: string; event: GameEvent };
  same: boolean;
}

interface Step {
  key: string;
  at: number;
  text: string;
  event: GameEvent;
}

const steps = (log: readonly GameEvent[], tables: readonly Table[]): Step[] => {
  const counts = new Map<string, number>();
  return log.flatMap((event, i) => {
    const table = tables[i];
    if (!table || isNote(event) || ["roles_dealt", "role_learned", "agents_seated", "vote_cast", "card_played", "round_summarised"].includes(event.type))
      return [];
    const seat = "seat" in event ? event.seat : "leader" in event ? event.leader : 0;
    const stem = `${table.round}.${table.attempt} ${event.type} ${seat}`;
    const nth = counts.get(stem) ?? 0;
    counts.set(stem, nth + 1);
    return [{ key: `${stem} ${nth}`, at: i + 1, text: sentence(event, table), event }];
  });
};

/** Both games in order, row by row. What only one of them has stands alone in its row. */
export const align = (
  left: { log: readonly GameEvent[]; tables: readonly Table[] },
  right: { log: readonly GameEvent[]; tables: readonly Table[] },
): Pair[] => {
  const a = steps(left.log, left.tables);
  const b = steps(right.log, right.tables);
  const inA = new Set(a.map(({ key }) => key));
  const inB = new Set(b.map(({ key }) => key));
  const pairs: Pair[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    const l = a[i];
    const r = b[j];
    if (l && r && l.key === r.key) {
      pairs.push({ key: l.key, left: l, right: r, same: l.text === r.text });
      i++;
      j++;
    } else if (l && (!r || !inB.has(l.key) || inA.has(r.key))) {
      pairs.push({ key: `a ${l.key}`, left: l, same: false });
      i++;
    } else {
      pairs.push({ key: `b ${r!.key}`, right: r!, same: false });
      j++;
    }
  }
  return pairs;
};
