/** A game on the screen: table, talk, replay, and what these eyes see of minds. Live, from the server or from a file. */
import type { GameEvent, Role, Seat, Viewer } from "@interintent/client";
import type { ReadonlySignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Icon } from "../parts/icons.tsx";
import { amend, href, path, place } from "../router.ts";
import { BeliefMap } from "./beliefs.tsx";
import { eyesWithin, readEyes, seatOf } from "./eyes.ts";
import { Feed } from "./feed.tsx";
import { Player } from "./player.ts";
import type { Making, Turn } from "./source.ts";
import { TableView } from "./table-view.tsx";
import { Transport, onKey } from "./transport.tsx";
import { VoteHistory } from "./votes.tsx";
import { ROLE, nameOf } from "./words.ts";

interface Props {
  log: ReadonlySignal<readonly GameEvent[]>;
  running: ReadonlySignal<boolean>;
  /** Who may be looked through at most. */
  viewer: Viewer;
  /** Where this game lies, e.g. `/games/g_1`. */
  base: string;
  title: ComponentChildren;
  about?: ComponentChildren;
  /** What happens beside the log of a running game. */
  now?: { turn: Turn | undefined; making: readonly Making[] };
}

const NOTHING: readonly Making[] = [];

const TABS = ["talk", "minds", "votes", "about"] as const;
type Tab = (typeof TABS)[number];
const TAB: Record<Tab, string> = { talk: "Talk", minds: "Minds", votes: "Votes", about: "About" };

export const eyesName = (eyes: Viewer, names: readonly string[], roles: Readonly<Record<Seat, Role>>): string => {
  if (eyes === "full") return "Everything";
  if (eyes === "public") return "The public";
  const seat = seatOf(eyes)!;
  const role = roles[seat];
  return `${nameOf({ names }, seat)}${role ? ` (${ROLE[role]})` : ""}`;
};

export const GameScreen = ({ log, running, viewer, base, title, about, now }: Props): JSX.Element => {
  const [tab, setTab] = useState<Tab>("talk");
  const [chosen, setChosen] = useState<Seat | undefined>(undefined);
  const player = useMemo(() => {
    const { at, eyes, play } = place.peek().query;
    const asked = readEyes(eyes);
    const players = log.peek()[0]?.type === "game_created" ? (log.peek()[0] as { profile: { players: number } }).profile.players : 5;
    const allowed = asked && eyesWithin(viewer, players).includes(asked) ? asked : viewer;
    const made = new Player(log, running, allowed, at ? Number(at) || 1 : undefined);
    made.playing.value = play === "1" || (running.peek() && !at);
    return made;
  }, [log]);
  useEffect(() => () => player.dispose(), [player]);
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => onKey(player, event);
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, [player]);

  const at = player.at.value;
  const eyes = player.eyes.value;
  const live = running.value;
  const follows = live && player.playing.value;
  // The address follows the moment a little later: browsers refuse to be told a hundred times a second.
  const told = useRef("");
  useEffect(() => {
    const timer = setTimeout(() => {
      if (path.value !== base) return;
      amend({ at: follows || at === player.head.peek() ? undefined : at, eyes: eyes === viewer ? undefined : eyes, play: undefined });
      told.current = location.hash;
    }, 300);
    return () => clearTimeout(timer);
  }, [at, eyes, follows]);
  // A link to another moment of the same game, or to other eyes.
  const { at: askedAt, eyes: askedEyes } = place.value.query;
  useEffect(() => {
    // Not the moment that the address was just told: whoever looks may have gone on since.
    if (location.hash === told.current) return;
    told.current = "";
    const asked = readEyes(askedEyes) ?? viewer;
    if (asked !== player.eyes.peek() && eyesWithin(viewer, player.table.peek()?.players ?? 5).includes(asked)) player.look(asked);
    if (Number(askedAt) && Number(askedAt) !== player.at.peek() && !player.playing.peek()) player.seek(Number(askedAt));
  }, [askedAt, askedEyes]);

  const table = player.table.value;
  // What is going on now belongs to the newest moment alone, and a model's making to a researcher's eyes.
  const newest = live && at >= (player.beats.value.at(-1) ?? 0);
  const turn = newest ? now?.turn : undefined;
  const making = (newest && eyes === "full" && now?.making) || NOTHING;
  if (!table) return <p class="state">This game has no readable beginning.</p>;
  const roles = player.tables.value.at(-1)?.roles ?? {};
  const allowed = eyesWithin(viewer, table.players);
  const link = (): string =>
    `${location.href.split("#", 1)[0]}${href(base, { at, eyes: eyes === "full" || allowed.length > 1 ? eyes : undefined })}`;
  const hasMinds = eyes !== "public" && player.seen.value.some(({ type }) => type === "beliefs_formed");
  const tabs = TABS.filter((one) => (one !== "minds" || hasMinds) && (one !== "about" || about));
  const shown = tabs.includes(tab) ? tab : "talk";
  const choose = (seat: Seat): void => setChosen(chosen === seat ? undefined : seat);
  return (
    <div class="game" data-tab={shown}>
      <header class="game-head">
        {title}
        <div class="row">
          {allowed.length > 1 && (
            <label class="eyes">
              <Icon name="eye" /> <span>Seen by</span>
              <select value={eyes} onChange={(change) => player.look(change.currentTarget.value as Viewer)}>
                {allowed.map((one) => (
                  <option key={one} value={one}>
                    {eyesName(one, table.names, viewer === "full" ? roles : table.roles)}
                  </option>
                ))}
              </select>
            </label>
          )}
          <a class="button" href={href(`${base}/text`, { eyes: eyes === viewer ? undefined : eyes })}>
            <Icon name="book" /> <span>Read as text</span>
          </a>
        </div>
      </header>
      <div class="stage">
        <TableView table={table} turn={turn} chosen={chosen} onChoose={eyes === "public" ? undefined : choose} />
      </div>
      <Transport player={player} live={live} link={link} />
      <div class="tabs" role="group" aria-label="What is shown below the table">
        {tabs.map((one) => (
          <button key={one} type="button" aria-pressed={shown === one} onClick={() => setTab(one)}>
            {TAB[one]}
          </button>
        ))}
      </div>
      <div class="pane pane-talk">
        <Feed player={player} chosen={chosen} live={follows} making={making} />
      </div>
      {hasMinds && (
        <div class="pane pane-minds">
          <BeliefMap player={player} table={table} />
        </div>
      )}
      <div class="pane pane-votes">
        <VoteHistory names={table.names} tallies={table.tallies} quests={table.quests} />
        {!table.tallies.length && <p class="muted only-narrow">No vote yet.</p>}
      </div>
      {about && <div class="pane pane-about">{about}</div>}
    </div>
  );
};
