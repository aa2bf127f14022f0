/** Who takes whom for what: at the present moment, and over time, beside the truth where these eyes know it. */
import type { Belief, GameEvent, Role, Seat } from "@interintent/client";
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { Icon, type IconName } from "../parts/icons.tsx";
import { type Table, sideOf } from "./fold.ts";
import type { Player } from "./player.ts";
import { ROLE, nameOf, plural } from "./words.ts";

interface Held {
  at: number;
  seat: Seat;
  belief: Belief;
}

type Truth = "right" | "side" | "wrong" | "open";

const MARK: Record<Truth, { sign: IconName | undefined; words: string }> = {
  right: { sign: "check", words: "the role is right" },
  side: { sign: "half", words: "the side is right" },
  wrong: { sign: "cross", words: "wrong" },
  open: { sign: undefined, words: "" },
};

const Sign = ({ truth }: { truth: Truth }): JSX.Element | null => {
  const { sign } = MARK[truth];
  return sign ? <span class={`sign truth-${truth}`}><Icon name={sign} /></span> : null;
};

const SHORT: Record<Role, string> = {
  merlin: "Mer",
  percival: "Per",
  servant: "Ser",
  assassin: "Ass",
  morgana: "Mgn",
  mordred: "Mdr",
  oberon: "Obe",
  minion: "Min",
};

export const beliefsIn = (log: readonly GameEvent[]): Held[] =>
  log.flatMap((event, i) =>
    event.type === "beliefs_formed" ? event.beliefs.map((belief) => ({ at: i + 1, seat: event.seat, belief })) : [],
  );

export const truthOf = (belief: Belief, roles: Readonly<Record<Seat, Role>>): Truth => {
  const role = roles[belief.about];
  if (!belief.role || !role) return "open";
  if (belief.role === role) return "right";
  return sideOf(belief.role) === sideOf(role) ? "side" : "wrong";
};

/** The pair whose beliefs are shown in full. */
const looked = signal<{ by: Seat; about: Seat } | undefined>(undefined);

const Timeline = ({ held, at, length, truth }: { held: Held[]; at: number; length: number; truth: Readonly<Record<Seat, Role>> }): JSX.Element => (
  <svg class="strip" viewBox="0 0 200 14" preserveAspectRatio="none" aria-hidden="true">
    {held.map((one, i) => (
      <rect
        key={i}
        class={`truth-${truthOf(one.belief, truth)}${one.at > at ? " later" : ""}`}
        x={(199 * (one.at - 1)) / Math.max(1, length)}
        y={2}
        width={2.4}
        height={10}
      />
    ))}
    <line x1={(200 * at) / Math.max(1, length)} x2={(200 * at) / Math.max(1, length)} y1={0} y2={14} />
  </svg>
);

export const BeliefMap = ({ player, table }: { player: Player; table: Table }): JSX.Element | null => {
  const seen = player.seen.value;
  const at = player.at.value;
  const all = useMemo(() => beliefsIn(seen), [seen]);
  // Through a researcher's eyes the truth is known from the deal on, through others' when the roles are shown.
  const truth = table.roles;
  const latest = useMemo(() => {
    const found = new Map<string, Held>();
    for (const held of all) if (held.at <= at) found.set(`${held.seat}>${held.belief.about}`, held);
    return found;
  }, [all, at]);
  if (!all.length) return null;
  const believers = [...new Set(all.map(({ seat }) => seat))].sort((a, b) => a - b);
  const seats = table.names.map((_, i) => i + 1);
  const pair = looked.value;
  const history = pair ? all.filter(({ seat, belief }) => seat === pair.by && belief.about === pair.about) : [];
  return (
    <section class="panel beliefs" aria-labelledby="beliefs-title">
      <h2 id="beliefs-title">Who takes whom for what</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Beliefs, to be scrolled">
        <table>
          <thead>
            <tr>
              <th scope="col">Believes</th>
              {seats.map((seat) => (
                <th scope="col" key={seat} class={`hue-${seat}`}>
                  <span class="chip" aria-hidden="true">
                    {seat}
                  </span>
                  <span class="hidden">{nameOf(table, seat)}</span>
                  {truth[seat] && <span class={`truth role-${sideOf(truth[seat])}`}>{ROLE[truth[seat]]}</span>}
                </th>
              ))}
              <th scope="col">Over time</th>
            </tr>
          </thead>
          <tbody>
            {believers.map((by) => (
              <tr key={by}>
                <th scope="row" class={`hue-${by}`}>
                  <span class="chip" aria-hidden="true">
                    {by}
                  </span>
                  <bdi>{nameOf(table, by)}</bdi>
                </th>
                {seats.map((about) => {
                  const held = latest.get(`${by}>${about}`);
                  if (by === about) return <td key={about} class="self" aria-label="itself" />;
                  if (!held) return <td key={about} class="none"><span class="hidden">nothing yet</span></td>;
                  const mark = truthOf(held.belief, truth);
                  const { role, confidence } = held.belief;
                  return (
                    <td key={about} class={`truth-${mark}`}>
                      <button
                        type="button"
                        aria-pressed={pair?.by === by && pair.about === about}
                        onClick={() => (looked.value = pair?.by === by && pair.about === about ? undefined : { by, about })}
                      >
                        <span class="hidden">
                          {`${nameOf(table, by)} takes ${nameOf(table, about)} for ${role ? ROLE[role] : "nobody in particular"}${
                            confidence === null ? "" : `, confidence ${confidence} of 5`
                          }${mark === "open" ? "" : `: ${MARK[mark].words}`}`}
                        </span>
                        <span aria-hidden="true">{role ? SHORT[role] : "?"}</span>
                        <Sign truth={mark} />
                        <span class="confidence" style={{ "--c": String((confidence ?? 0) / 5) }} />
                      </button>
                    </td>
                  );
                })}
                <td class="over-time">
                  <Timeline held={all.filter(({ seat }) => seat === by)} at={at} length={seen.length} truth={truth} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="legend muted">
        <Sign truth="right" /> role right <Sign truth="side" /> side right <Sign truth="wrong" /> wrong · the bar is the confidence
      </p>
      {pair && (
        <div class="pair" role="status">
          <h3>
            <bdi>{nameOf(table, pair.by)}</bdi> on <bdi>{nameOf(table, pair.about)}</bdi>
          </h3>
          {history.length === 0 && <p>Nothing yet.</p>}
          <ol>
            {history.map((held) => (
              <li key={held.at} class={held.at > at ? "later" : ""}>
                <button type="button" class="link" onClick={() => player.seek(held.at)}>
                  Event {held.at}
                </button>{" "}
                {held.belief.role ? ROLE[held.belief.role] : "unsure"}
                {held.belief.confidence !== null && `, ${held.belief.confidence} of 5`} <Sign truth={truthOf(held.belief, truth)} />
                <span class="hidden"> {MARK[truthOf(held.belief, truth)].words}</span>
                {held.belief.reasoning && <span class="reason" dir="auto">{held.belief.reasoning}</span>}
              </li>
            ))}
          </ol>
          <p class="muted">{plural(history.length, "belief")} in the whole game</p>
        </div>
      )}
    </section>
  );
};
