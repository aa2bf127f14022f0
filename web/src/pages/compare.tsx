/** Two games side by side, aligned by what was asked, with the first difference marked. */
import type { Viewer } from "@interintent/client";
import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { align } from "../game/align.ts";
import { project } from "../game/eyes.ts";
import { fold } from "../game/fold.ts";
import type { GameSource } from "../game/source.ts";
import { Difference } from "../game/turn.tsx";
import { SIDE, ago, plural } from "../game/words.ts";
import { useLook } from "../parts/look.ts";
import { Fault, Loading } from "../parts/states.tsx";
import { go, href, place } from "../router.ts";
import { server } from "../session.ts";
import { useGame } from "./game.tsx";

export const ComparePage = (): JSX.Element => {
  const { a, b } = place.value.query;
  return (
    <div class="compare">
      <h1>Two games side by side</h1>
      <p class="muted">The same moments of two games beside each other: a game and its fork, say, or one deal played by other models.</p>
      <Choose key={`${a} ${b}`} a={a ?? ""} b={b ?? ""} />
      {a && b && <Both key={`${a} ${b}`} a={a} b={b} />}
    </div>
  );
};

const Choose = ({ a, b }: { a: string; b: string }): JSX.Element => {
  const [left, setLeft] = useState(a);
  const [right, setRight] = useState(b);
  const { found } = useLook((stop) => server.games({ limit: 100 }, stop));
  return (
    <form
      class="filters"
      onSubmit={(event) => {
        event.preventDefault();
        go(href("/compare", { a: left.trim(), b: right.trim() }));
      }}
    >
      <label>
        One game <input value={left} list="games" placeholder="g_…" required onInput={(input) => setLeft(input.currentTarget.value)} />
      </label>
      <label>
        Another <input value={right} list="games" placeholder="g_…" required onInput={(input) => setRight(input.currentTarget.value)} />
      </label>
      <button type="submit" class="primary">
        Compare
      </button>
      <datalist id="games">
        {found?.games.map((game) => (
          <option key={game.game_id} value={game.game_id}>
            {[game.title, plural(game.players, "seat"), game.agents?.join(", "), game.winner && `${SIDE[game.winner]} wins`, ago(game.created_at)].filter(Boolean).join(" · ")}
          </option>
        ))}
      </datalist>
    </form>
  );
};

const useSeen = (source: GameSource): { log: ReturnType<typeof project>; tables: ReturnType<typeof fold> } => {
  const log = source.log.value;
  return useMemo(() => {
    const seen = project(log, (source.view.peek()?.viewer as Viewer) === "full" ? "full" : "public");
    return { log: seen, tables: fold(seen) };
  }, [log]);
};

const seedOf = (log: ReturnType<typeof project>): string | undefined => {
  const dealt = log.find((event) => event.type === "roles_dealt");
  return dealt?.type === "roles_dealt" ? (dealt.seed ?? undefined) : undefined;
};

const Both = ({ a, b }: { a: string; b: string }): JSX.Element => {
  const [round, setRound] = useState(0);
  const one = useGame(a, round);
  const other = useGame(b, round);
  const left = useSeen(one);
  const right = useSeen(other);
  const pairs = useMemo(() => align(left, right), [left, right]);
  const mark = useRef<HTMLTableRowElement>(null);
  for (const [id, { fault }] of [[a, one], [b, other]] as const)
    if (fault.value)
      return (
        <section aria-label={`Game ${id}`}>
          <p class="state">Game {id}:</p>
          <Fault error={fault.value} again={() => setRound(round + 1)} />
        </section>
      );
  if (!left.log.length || !right.log.length) return <Loading what="both games" />;
  const first = pairs.findIndex(({ same }) => !same);
  const seeds = [seedOf(left.log), seedOf(right.log)];
  return (
    <>
      <p role="status">
        {first < 0
          ? "The two games are the same, word for word."
          : `The first ${first} of ${pairs.length} steps are the same.`}{" "}
        {seeds[0] !== undefined && seeds[0] === seeds[1] && `Both were dealt from seed ${seeds[0]}. `}
        {seeds[0] !== undefined && seeds[1] !== undefined && seeds[0] !== seeds[1] && "They were dealt from different seeds. "}
        {first >= 0 && (
          <button type="button" class="link" onClick={() => mark.current?.scrollIntoView({ block: "center" })}>
            To the first difference
          </button>
        )}
      </p>
      <div class="scroll" tabIndex={0} role="group" aria-label="The two games, to be scrolled">
        <table class="pairs">
          <thead>
            <tr>
              <th scope="col">
                <a href={href(`/games/${a}`)}>{a}</a>
              </th>
              <th scope="col">
                <a href={href(`/games/${b}`)}>{b}</a>
              </th>
            </tr>
          </thead>
          <tbody>
            {pairs.map(({ key, left: l, right: r, same }, i) => (
              <tr key={key} ref={i === first ? mark : null} class={`${same ? "same" : "differs"} ${i === first ? "first" : ""}`}>
                <td dir="auto">
                  {i === first && <strong class="first-mark">First difference</strong>}
                  {l?.text}
                </td>
                <td dir="auto">{r && (l && !same ? <Difference before={l.text} after={r.text} /> : r.text)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
};
