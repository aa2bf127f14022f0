/** The round table at one moment. */
import type { Kind, Role, Seat } from "@interintent/client";
import type { JSX } from "preact";
import { Icon } from "../parts/icons.tsx";
import { type Table, sideOf } from "./fold.ts";
import type { Turn } from "./source.ts";
import { ROLE, SIDE, nameOf, namesOf, plural, standing } from "./words.ts";

interface Props {
  table: Table;
  /** The seat whose mind is looked into. */
  chosen: Seat | undefined;
  onChoose?: ((seat: Seat) => void) | undefined;
  /** Whom a running game waits for. */
  turn?: Turn | undefined;
}

export const RoleMark = ({ role }: { role: Role }): JSX.Element => {
  const side = sideOf(role);
  return (
    <span class={`role role-${side}`}>
      <Icon name={side} label={SIDE[side]} /> <span class="role-name">{ROLE[role]}</span>
    </span>
  );
};

/** What the signs at a seat say. */
const describe = (table: Table, seat: Seat): string => {
  const vote = table.vote?.votes[String(seat)];
  return [
    seat === table.leader && table.phase !== "over" ? "leads" : "",
    table.team.includes(seat) ? "on the team" : "",
    vote === true ? "voted for" : vote === false ? "voted against" : "",
    seat === table.spoke ? "spoke last" : "",
    seat === table.shot?.target ? "was shot at" : "",
  ]
    .filter(Boolean)
    .join(", ");
};

const SeatView = ({ table, seat, chosen, onChoose, turn }: Props & { seat: Seat }): JSX.Element => {
  const turned = ((seat - 1) / table.players) * 2 * Math.PI;
  // The table is wider than high: seats would crowd at its sides.
  const angle = turned - 0.12 * Math.sin(2 * turned) - Math.PI / 2;
  const role = table.roles[seat];
  const vote = table.vote ? table.vote.votes[String(seat)] : table.ballots[seat];
  const secret = !table.vote && vote !== undefined;
  const card = table.quests.at(-1)?.round === table.round || table.phase === "quest" ? table.cards[seat] : undefined;
  const classes = [
    "seat",
    `hue-${seat}`,
    table.team.includes(seat) && "on-team",
    table.spoke === seat && "speaks",
    chosen === seat && "chosen",
    turn?.seats.includes(seat) && "awaited",
    table.shot?.target === seat && "shot",
    role && `side-${sideOf(role)}`,
  ];
  return (
    <li
      class={classes.filter(Boolean).join(" ")}
      style={{ "--x": Math.cos(angle).toFixed(4), "--y": Math.sin(angle).toFixed(4) }}
    >
      <button
        type="button"
        aria-pressed={chosen === seat}
        title={nameOf(table, seat)}
        onClick={() => onChoose?.(seat)}
        disabled={!onChoose}
      >
        <span class="token">
          <span class="hidden">Seat </span>
          <span class="number">{seat}</span>
          {table.leader === seat && table.phase !== "over" && (
            <span class="mark mark-leader">
              <Icon name="crown" />
            </span>
          )}
          {table.team.includes(seat) && (
            <span class="mark mark-team">
              <Icon name="shield" />
            </span>
          )}
          {typeof vote === "boolean" && (
            <span class={`mark mark-vote ${vote ? "yes" : "no"}${secret ? " secret" : ""}`}>
              <Icon name={vote ? "check" : "cross"} />
            </span>
          )}
          {card === false && (
            <span class="mark mark-card">
              <Icon name="evil" />
            </span>
          )}
          {table.shot?.target === seat && (
            <span class="mark mark-shot">
              <Icon name="target" />
            </span>
          )}
        </span>
        <bdi class="name">{nameOf(table, seat)}</bdi>
        {role && <RoleMark role={role} />}
        <span class="hidden">{describe(table, seat)}</span>
        {turn?.seats.includes(seat) && <span class="hidden">, is awaited</span>}
      </button>
    </li>
  );
};

const DOES: Record<Kind, string> = {
  propose_team: "choose a team",
  speak: "speak",
  reconsider: "settle the team",
  vote: "vote",
  card: "play a card",
  summarise: "sum up",
  assassinate: "name a target",
};

const awaiting = ({ kind, seats }: Turn, table: Table): string => {
  const who = seats.length === 1 ? nameOf(table, seats[0]!) : seats.length ? plural(seats.length, "seat") : "the assassin";
  return `Waiting for ${who} to ${kind ? DOES[kind] : "answer"} …`;
};

export const QuestTrack = ({ table }: { table: Table }): JSX.Element => (
  <ol class="quests" aria-label="Quests">
    {table.profile.team_sizes.map((size, i) => {
      const quest = table.quests[i];
      const state = quest ? (quest.succeeded ? "won" : "lost") : i + 1 === table.round && table.phase !== "over" ? "now" : "ahead";
      const needed = table.profile.fails_needed[i] ?? 1;
      const label = `Quest ${i + 1}: ${plural(size, "seat")}${needed > 1 ? `, ${needed} fails needed` : ""}, ${
        quest ? (quest.succeeded ? "succeeded" : "failed") : state === "now" ? "now" : "to come"
      }${quest?.fails ? ` with ${plural(quest.fails, "fail card")}` : ""}`;
      return (
        <li key={i} class={`quest quest-${state}`} title={label}>
          <span class="disc" aria-hidden="true">
            {quest ? <Icon name={quest.succeeded ? "check" : "cross"} /> : size}
            {needed > 1 && <span class="needed">{needed}</span>}
          </span>
          <span class="hidden">{label}</span>
        </li>
      );
    })}
  </ol>
);

export const TableView = (props: Props): JSX.Element => {
  const { table, turn } = props;
  const tried = table.round > 0 && table.phase !== "over" && table.phase !== "assassinate";
  return (
    <section class={`table seats-${table.players}`} aria-label="The table">
      <div class="felt" aria-hidden="true" />
      <div class="centre">
        <QuestTrack table={table} />
        <p class={`standing ${table.winner ? `wins-${table.winner}` : ""}`}>
          {table.winner && <Icon name={table.winner} />} <bdi>{standing(table)}</bdi>
        </p>
        {turn && <p class="awaiting">{awaiting(turn, table)}</p>}
        {tried && (
          <p class="where">
            Quest {table.round} · proposal {table.attempt} of {table.profile.max_rejections}
          </p>
        )}
        {tried && table.team.length > 0 && (
          <p class="team">
            <Icon name="shield" /> <bdi>{namesOf(table, table.team)}</bdi>
          </p>
        )}
      </div>
      <ol class="seats" aria-label="Seats">
        {table.names.map((_, i) => (
          <SeatView key={i} {...props} seat={i + 1} />
        ))}
      </ol>
    </section>
  );
};
