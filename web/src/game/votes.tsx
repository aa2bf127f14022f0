/** Every team and every vote so far, in one table. */
import type { JSX } from "preact";
import { Icon } from "../parts/icons.tsx";
import type { Table } from "./fold.ts";
import { memo } from "./memo.ts";
import { nameOf, outcome } from "./words.ts";

export const VoteHistory = memo((table: Pick<Table, "names" | "tallies" | "quests">): JSX.Element | null => {
  if (!table.tallies.length) return null;
  const seats = table.names.map((_, i) => i + 1);
  return (
    <section class="panel" aria-labelledby="votes-title">
      <h2 id="votes-title">Teams and votes</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Teams and votes, to be scrolled">
        <table class="history">
          <thead>
            <tr>
              <th scope="col">Proposal</th>
              {seats.map((seat) => (
                <th scope="col" key={seat} class={`hue-${seat}`}>
                  <span class="chip" aria-hidden="true">
                    {seat}
                  </span>
                  <span class="hidden">{nameOf(table, seat)}</span>
                </th>
              ))}
              <th scope="col">Outcome</th>
            </tr>
          </thead>
          <tbody>
            {table.tallies.map((tally, i) => {
              const last = table.tallies[i + 1]?.round !== tally.round;
              const quest = last ? table.quests.find(({ round }) => round === tally.round) : undefined;
              return (
                <tr key={i}>
                  <th scope="row">
                    {tally.round}.{tally.attempt}
                  </th>
                  {seats.map((seat) => {
                    const vote = tally.votes[String(seat)];
                    return (
                      <td key={seat} class={tally.team.includes(seat) ? "member" : ""}>
                        {tally.leader === seat && <Icon name="crown" label="leads" />}
                        {tally.team.includes(seat) && <Icon name="shield" label="on the team" />}
                        {typeof vote === "boolean" && <Icon name={vote ? "check" : "cross"} label={vote ? "for" : "against"} />}
                      </td>
                    );
                  })}
                  <td>
                    {outcome(tally)}
                    {quest && <span class={quest.succeeded ? "won" : "lost"}>, quest {quest.succeeded ? "succeeds" : "fails"}</span>}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
});
