/** Who takes whom for what: at the present moment, and over time, beside the truth where these eyes know it. */
import type { Belief, GameEvent, Role, Seat } from "@interintent/client";
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { Icon, type IconName } from "../parts/icons.tsx";
import { type Hand, type Table, sideOf } from "./fold.ts";
import { memo } from "./memo.ts";
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
  assassin: "Asn",
  morgana: "Mgn",
  mordred: "Mdr",
  oberon: "Obe",
  minion: "Min",
};

/** The role that is believed; of a seat that Merlin was shown, the side, since Merlin names no roles; null if neither. */
const taken = (belief: Belief, hand: Hand | undefined): { short: string; words: string } | null =>
  belief.role
    ? { short: SHORT[belief.role], words: ROLE[belief.role] }
    : hand?.role === "merlin" && hand.sees.includes(belief.about)
      ? { short: "Evil", words: "evil" }
      : null;

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

const WIDTH = 200;
const HEIGHT = 14;

/** Every belief of one seat as a mark at its moment, a line of marks for each seat that it is about. */
const Marks = memo(({ held, length, truth, players }: { held: readonly Held[]; length: number; truth: Truths; players: number }): JSX.Element => {
  const paths: Record<Truth, string> = { right: "", side: "", wrong: "", open: "" };
  const step = HEIGHT / players;
  for (const { at, belief } of held) {
    const x = ((WIDTH - 2) * (at - 1)) / Math.max(1, length);
    paths[truthOf(belief, truth)] += `M${x.toFixed(1)} ${((belief.about - 1) * step).toFixed(1)}h2.6v${step.toFixed(1)}h-2.6z`;
  }
  return (
    <g>
      {(Object.keys(paths) as Truth[]).map((one) => (
        <path key={one} class={`truth-${one}`} d={paths[one]} />
      ))}
    </g>
  );
});

type Truths = Readonly<Record<Seat, Role>>;

interface RowProps {
  by: Seat;
  names: readonly string[];
  /** The beliefs of this seat, and how many of them it holds already. */
  held: readonly Held[];
  count: number;
  truth: Truths;
  /** What this seat was told in secret, where these eyes see it. */
  hand: Hand | undefined;
  /** The seat whose cell is chosen in this row. */
  chosen: Seat | undefined;
}

const Cells = memo(({ by, names, held, count, truth, hand, chosen }: RowProps): JSX.Element => {
  const latest = new Map<Seat, Belief>();
  for (const { belief } of held.slice(0, count)) latest.set(belief.about, belief);
  return (
    <>
      {names.map((name, i) => {
        const about = i + 1;
        const belief = latest.get(about);
        if (by === about) return <td key={about} class="self" aria-label="itself" />;
        if (!belief)
          return (
            <td key={about} class="none">
              <span class="hidden">nothing yet</span>
            </td>
          );
        const mark = truthOf(belief, truth);
        const { confidence } = belief;
        const role = taken(belief, hand);
        return (
          <td key={about} class={`truth-${mark}`}>
            <button
              type="button"
              aria-pressed={chosen === about}
              onClick={() => (looked.value = chosen === about ? undefined : { by, about })}
            >
              <span class="hidden">
                {`${names[by - 1]} takes ${name} for ${role?.words ?? "nobody in particular"}${
                  confidence === null ? "" : `, confidence ${confidence} of 5`
                }${mark === "open" ? "" : `: ${MARK[mark].words}`}`}
              </span>
              <span aria-hidden="true">{role?.short ?? "?"}</span>
              <Sign truth={mark} />
              <span class="confidence" style={{ "--c": String((confidence ?? 0) / 5) }} />
            </button>
          </td>
        );
      })}
    </>
  );
});

export const BeliefMap = ({ player, table }: { player: Player; table: Table }): JSX.Element | null => {
  const seen = player.seen.value;
  const at = player.at.value;
  const all = useMemo(() => beliefsIn(seen), [seen]);
  const bySeat = useMemo(() => Map.groupBy(all, ({ seat }) => seat), [all]);
  // Through a researcher's eyes the truth is known from the deal on, through others' when the roles are shown.
  const truth = table.roles;
  if (!all.length) return null;
  const believers = [...bySeat.keys()].sort((a, b) => a - b);
  const seats = table.names.map((_, i) => i + 1);
  const pair = looked.value;
  const history = pair ? all.filter(({ seat, belief }) => seat === pair.by && belief.about === pair.about) : [];
  const x = (WIDTH * at) / Math.max(1, seen.length);
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
            {believers.map((by) => {
              const held = bySeat.get(by)!;
              const later = held.findIndex((one) => one.at > at);
              return (
                <tr key={by}>
                  <th scope="row" class={`hue-${by}`}>
                    <span class="chip" aria-hidden="true">
                      {by}
                    </span>
                    <bdi>{nameOf(table, by)}</bdi>
                  </th>
                  <Cells
                    by={by}
                    names={table.names}
                    held={held}
                    count={later < 0 ? held.length : later}
                    truth={truth}
                    hand={table.hands[by]}
                    chosen={pair?.by === by ? pair.about : undefined}
                  />
                  <td class="over-time">
                    <svg class="strip" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
                      <Marks held={held} length={seen.length} truth={truth} players={table.players} />
                      <rect class="later" x={x} width={Math.max(0, WIDTH - x)} y={0} height={HEIGHT} />
                      <line x1={x} x2={x} y1={0} y2={HEIGHT} />
                    </svg>
                  </td>
                </tr>
              );
            })}
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
                {taken(held.belief, table.hands[pair.by])?.words ?? "unsure"}
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
