/** What was said and done, proposal by proposal, up to the present moment. */
import type { Seat } from "@interintent/client";
import type { JSX } from "preact";
import { requestOf } from "./judged.ts";
import { memo } from "./memo.ts";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Icon } from "../parts/icons.tsx";
import { Speech } from "../parts/speech.tsx";
import type { Table } from "./fold.ts";
import type { Player } from "./player.ts";
import type { Making } from "./source.ts";
import { type Chapter, type Entry, mind } from "./story.ts";
import { MindView } from "./turn.tsx";
import { ballots, nameOf, namesOf, outcome, plural, sentence } from "./words.ts";

const Votes = ({ entry, table }: { entry: Entry; table: Table }): JSX.Element | null => {
  if (entry.event?.type !== "votes_revealed") return null;
  const { yes, no, unknown } = ballots(entry.event);
  return (
    <div class={`votes ${entry.event.approved ? "approved" : "rejected"}`}>
      <p class="verdict">
        The team is {outcome(entry.event)}: {yes.length} to {no.length}
      </p>
      <p>
        <Icon name="check" label="For" /> <bdi>{namesOf(table, yes)}</bdi>
      </p>
      <p>
        <Icon name="cross" label="Against" /> <bdi>{namesOf(table, no)}</bdi>
      </p>
      {unknown.length > 0 && <p class="muted">Not recorded: {namesOf(table, unknown)}</p>}
    </div>
  );
};

const Hiddens = ({ entry, table }: { entry: Entry; table: Table }): JSX.Element | null => {
  const told = entry.hidden.filter(({ notes, event }) => notes.length || event.type === "card_played");
  if (!told.length) return null;
  return (
    <details class="private">
      <summary>{told[0]!.event.type === "card_played" ? "Who played which card, and why" : "Why they voted so"}</summary>
      <ul class="reasons">
        {told.map(({ seat, event, notes }) => (
          <li key={seat} class={`hue-${seat}`}>
            <strong>
              <bdi>{nameOf(table, seat)}</bdi>
            </strong>{" "}
            {event.type === "card_played" ? (event.success ? "plays success" : "plays fail") : event.approve ? "votes for" : "votes against"}
            {notes.length > 0 && <MindView mind={mind(notes)} table={table} said={null} />}
          </li>
        ))}
      </ul>
    </details>
  );
};

interface EntryProps {
  entry: Entry;
  table: Table;
  /** How much of the records of a seat that still thinks is known at this moment. */
  known: number;
  now: boolean;
  playing: boolean;
  open: boolean;
  /** Whether the game has ended, so that nobody thinks any more. */
  over: boolean;
}

export const EntryView = memo(({ entry, table, known, now, playing, open, over }: EntryProps): JSX.Element | null => {
  const { event, seat } = entry;
  const thinking = event === undefined || known < entry.notes.length;
  const notes = thinking ? entry.notes.slice(0, known) : entry.notes;
  const read = useMemo(() => mind(notes), [entry, known]);
  const current = now ? { "aria-current": "true" as const } : {};
  const who = seat === undefined ? null : (
    <span class={`who hue-${seat}`}>
      <span class="chip" aria-hidden="true">
        {seat}
      </span>
      <bdi>{nameOf(table, seat)}</bdi>
    </span>
  );
  if (thinking)
    return (
      <li class="entry thinking" {...current}>
        {who} <span class="muted">{over ? "had not answered" : "is thinking …"}</span>
        {notes.length > 0 && <MindView mind={read} table={table} said={null} />}
      </li>
    );
  const said = event.type === "utterance_made" ? event.text : null;
  const more = notes.length > 0 && (
    <details class="private" open={open}>
      <summary>
        <Icon name="thought" /> What {nameOf(table, seat ?? 0)} had in mind
      </summary>
      <MindView mind={read} table={table} said={said} request={requestOf(event)} />
    </details>
  );
  switch (event.type) {
    case "utterance_made":
      return (
        <li class={`entry said hue-${event.seat}`} {...current}>
          {who}
          {event.phase === "reconsider" && <span class="muted"> on the final team</span>}
          {event.text ? (
            <Speech text={event.text} playing={playing} label={`What ${nameOf(table, event.seat)} says`} />
          ) : (
            <p class="muted">says nothing</p>
          )}
          {more}
        </li>
      );
    case "votes_revealed":
      return (
        <li class="entry" {...current}>
          <Votes entry={entry} table={table} />
          <Hiddens entry={entry} table={table} />
        </li>
      );
    case "quest_resolved":
      return (
        <li class={`entry outcome ${event.succeeded ? "won" : "lost"}`} {...current}>
          <p>
            <Icon name={event.succeeded ? "check" : "cross"} /> {sentence(event, table)}
          </p>
          <Hiddens entry={entry} table={table} />
        </li>
      );
    case "round_summarised":
      return (
        <li class="entry" {...current}>
          <details class="private">
            <summary>
              <Icon name="book" /> {nameOf(table, event.seat)} sums up
            </summary>
            <dl class="readings">
              {Object.entries(event.answers).map(([question, answer]) => (
                <div key={question}>
                  <dt dir="auto">{question.replaceAll("_", " ")}</dt>
                  <dd dir="auto">{String(answer)}</dd>
                </div>
              ))}
            </dl>
          </details>
          {more}
        </li>
      );
    case "evil_conferred":
      return (
        <li class="entry said private-talk" {...current}>
          {who} <span class="muted">to the other evil seats</span>
          <Speech text={event.text} />
        </li>
      );
    case "roles_dealt":
    case "role_learned":
    case "agents_seated":
    case "proposal_opened":
      return null;
    case "game_ended":
      return (
        <li class={`entry outcome ended wins-${event.winner}`} {...current}>
          <p>
            <Icon name={event.winner} /> {sentence(event, table)}
          </p>
        </li>
      );
    case "game_created":
      return (
        <li class="entry" {...current}>
          <p>{plural(table.players, "seat")} sit down to a game by the rules “{table.profile.name}”.</p>
        </li>
      );
    default:
      return (
        <li class="entry deed" {...current}>
          <p>{sentence(event, table)}</p>
          {more}
        </li>
      );
  }
});

/** A proposal that lies behind, in one line. */
const Passed = memo(
  ({ chapter, tables, onOpen }: { chapter: Chapter; tables: readonly Table[]; onOpen: () => void }): JSX.Element => {
    const end = tables[chapter.to - 1];
    const quest = chapter.entries.find(({ event }) => event?.type === "quest_resolved")?.event;
    const vote = chapter.entries.find(({ event }) => event?.type === "votes_revealed")?.event;
    const parts = [
      chapter.leader && end ? `${nameOf(end, chapter.leader)} leads` : "",
      vote?.type === "votes_revealed" ? outcome(vote) : "",
      quest?.type === "quest_resolved" ? (quest.succeeded ? "quest succeeds" : "quest fails") : "",
    ].filter(Boolean);
    const mark = quest?.type === "quest_resolved" ? (quest.succeeded ? "won" : "lost") : "none";
    return (
      <li>
        <button type="button" class={`passed passed-${mark}`} onClick={onOpen}>
          <span class="passed-title">{chapter.title}</span>
          <span class="muted">
            {mark !== "none" && <Icon name={mark === "won" ? "check" : "cross"} />} <bdi>{parts.join(" · ")}</bdi>
          </span>
        </button>
      </li>
    );
  },
);

interface FeedProps {
  player: Player;
  chosen: Seat | undefined;
  live: boolean;
  /** What models are making at this moment. */
  making: readonly Making[];
}

export const Feed = ({ player, chosen, live, making }: FeedProps): JSX.Element => {
  const box = useRef<HTMLDivElement>(null);
  const at = player.at.value;
  const chapters = player.chapters.value;
  const tables = player.tables.value;
  const here = player.chapter.value;
  const chapter = chapters[here];
  const table = player.table.value;
  const shown = chapter?.entries.filter(({ from }) => from <= at) ?? [];
  const last = shown.at(-1)?.at;
  useEffect(() => {
    // The newest entry stays in view. Measuring costs as much as all drawing, so it waits until the moment rests.
    const timer = setTimeout(() => {
      const frame = box.current;
      const newest = frame?.querySelector<HTMLElement>("[aria-current]");
      if (!newest || !frame) return;
      const { offsetTop: top, offsetHeight: height } = newest;
      frame.scrollTop = Math.min(top - 12, Math.max(top + height - frame.clientHeight + 16, 0));
    }, 50);
    return () => clearTimeout(timer);
  }, [last, here, player.eyes.value, making.at(-1)?.text.length]);
  return (
    <div class="feed" ref={box} tabIndex={0} role="region" aria-label="What is said and done">
      {here > 0 && (
        <ol class="chapters" aria-label="Earlier proposals">
          {chapters.slice(0, here).map((passed) => (
            <Passed key={passed.key} chapter={passed} tables={tables} onOpen={() => player.seek(passed.to)} />
          ))}
        </ol>
      )}
      {chapter && table && (
        <section class="chapter" aria-labelledby="chapter-title">
          <h2 id="chapter-title">{chapter.title}</h2>
          {chapter.leader !== null && (
            <p class="muted">
              <Icon name="crown" /> <bdi>{nameOf(table, chapter.leader)}</bdi> leads
            </p>
          )}
          <div {...(live ? { role: "log" as const } : {})}>
          <ol class="entries">
            {shown.map((entry) => {
              // Records come in one piece before what they led to.
              const known = at >= entry.at ? entry.notes.length : Math.max(0, Math.min(entry.notes.length, at - entry.from + 1));
              return (
                <EntryView
                  key={entry.from}
                  entry={entry}
                  table={tables[entry.at - 1] ?? table}
                  known={known}
                  now={entry.at === last}
                  playing={player.voiced.value === entry.at && player.playing.value}
                  open={chosen !== undefined && entry.seat === chosen}
                  over={table.phase === "over"}
                />
              );
            })}
          </ol>
          </div>
          {making.map((one) => (
            <div key={one.seat} class={`entry said making hue-${one.seat}`}>
              <span class="who">
                <span class="chip" aria-hidden="true">
                  {one.seat}
                </span>
                <bdi>{nameOf(table, one.seat)}</bdi>
              </span>{" "}
              <span class="muted">{one.text ? "is saying" : `is thinking${one.step ? `: ${one.step.replaceAll("_", " ")}` : ""} …`}</span>
              {one.withdrawn && (
                <p class="muted withdrawn">
                  Taken back: <del dir="auto">{one.withdrawn}</del>
                </p>
              )}
              {one.text && <Speech text={one.text} />}
            </div>
          ))}
        </section>
      )}
    </div>
  );
};
