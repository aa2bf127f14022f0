/** What the seat was told in secret. */
import type { Seat } from "@interintent/client";
import type { JSX } from "preact";
import { type Table, sideOf } from "../game/fold.ts";
import { RoleMark } from "../game/table-view.tsx";
import { namesOf } from "../game/words.ts";

const told = (table: Table, seat: Seat): string => {
  const { role, sees } = table.hands[seat]!;
  const seen = namesOf(table, sees);
  if (!sees.length) return "You were shown nobody. What you know is what is said and done at the table.";
  if (role === "percival")
    return sees.length > 1 ? `Merlin and Morgana are ${seen}; you cannot tell who is who.` : `${seen} is Merlin.`;
  if (sideOf(role) === "evil") return `With you against the table: ${seen}.`;
  return `Against the table: ${seen}. Keep hidden that you know: the assassin looks for you.`;
};

export const Knows = ({ table, seat }: { table: Table; seat: Seat }): JSX.Element | null => {
  const hand = table.hands[seat];
  if (!hand) return null;
  return (
    <section class="panel" aria-label="What I know">
      <h2>
        You are <RoleMark role={hand.role} />
      </h2>
      <p>
        <bdi>{told(table, seat)}</bdi>
      </p>
      <p class="muted">
        {sideOf(hand.role) === "evil" ? "You win when three quests fail, or when Merlin is shot." : "You win when three quests succeed and Merlin lives."}
        {hand.shoots && " You hold the shot."}
      </p>
    </section>
  );
};
