/** The ladder: who wins how often, whatever side was dealt, with what is certain of it. */
import type { Ratings, RatedPlayer } from "@interintent/client";
import type { JSX } from "preact";
import { plural } from "../game/words.ts";
import { useLook } from "../parts/look.ts";
import { Empty, Fault, Loading } from "../parts/states.tsx";
import { fixed } from "../report/numbers.ts";
import { server } from "../session.ts";

type Limits = RatedPlayer["rating"];

const percent = (value: number): string => fixed(100 * value, 1);
const within = ({ low, high }: Limits): string => `${percent(low)} to ${percent(high)}`;
// A true minus, and a sign in any case: it is a difference.
const odds = (value: number): string => `+${fixed(value, 2)}`.replace("+-", "\u2212");
const at = (value: number): string => `${(100 * Math.min(1, Math.max(0, value))).toFixed(2)}%`;

const Share = ({ limits, won }: { limits: Limits; won?: RatedPlayer["won_as_evil"] }): JSX.Element => (
  <td>
    <span class="cell">
      <span class="value">{percent(limits.value)} %</span>
      <svg class="scale" aria-hidden="true" focusable="false">
        <line class="rail" x1="0" x2="100%" y1="6" y2="6" />
        <line class="interval" x1={at(limits.low)} x2={at(limits.high)} y1="6" y2="6" />
        <circle cx={at(limits.value)} cy="6" r="3.5" />
      </svg>
      <small>{within(limits)}</small>
      {won && (
        <small>
          won {won.num} of {won.den}
        </small>
      )}
    </span>
  </td>
);

const Row = ({ one }: { one: RatedPlayer }): JSX.Element => (
  <tr>
    <td>{one.best_rank === one.worst_rank ? one.best_rank : `${one.best_rank} to ${one.worst_rank}`}</td>
    <th scope="row">
      {one.bot ? (
        <>
          <bdi>{one.bot.name}</bdi>
          <span class="why">
            version <bdi>{one.bot.version}</bdi>, of <bdi>{one.bot.owner}</bdi>
          </span>
        </>
      ) : (
        <>
          <bdi>{one.player}</bdi>
          <span class="why">an agent of this server</span>
        </>
      )}
    </th>
    <Share limits={one.rating} />
    <Share limits={one.as_loyal} won={one.won_as_loyal} />
    <Share limits={one.as_evil} won={one.won_as_evil} />
    <td>
      {plural(one.games, "game")}
      {!!one.deserted && <span class="why">left {plural(one.deserted, "further game")}: rated as lost, for this player alone</span>}
      {!!one.defaulted && (
        <span class="why">
          {one.defaulted} of {one.decisions} decisions left to the default
        </span>
      )}
    </td>
  </tr>
);

const Favour = ({ favour }: { favour: Ratings["favour"] }): JSX.Element => {
  const parts = [
    ["on one side", favour.together, "to their side"],
    ["on opposite sides", favour.across, "to the side of the stronger of them"],
  ] as const;
  return (
    <section class="panel" aria-labelledby="favour">
      <h2 id="favour">Do bots of one owner favour each other?</h2>
      <p>
        A rated game has one bot of an owner, so that nobody gains by it. What it would do is estimated from other paired games:{" "}
        {favour.games ? `${plural(favour.games, "game")} had several bots of one owner, all of them on this ladder.` : "so far no game had several bots of one owner that are all on this ladder."}
      </p>
      <ul>
        {parts.map(
          ([where, value, to]) =>
            value && (
              <li key={where}>
                A pair {where} adds {odds(value.value)} ({odds(value.low)} to {odds(value.high)}) log odds {to}
                {value.low > 0 || value.high < 0 ? "." : ": no favour is found."}
              </li>
            ),
        )}
      </ul>
    </section>
  );
};

const LadderOf = ({ ratings }: { ratings: Ratings }): JSX.Element => (
  <>
    <p>
      A rating is the share of games that a player is expected to win with a seat dealt at random, when players of mean skill hold
      all other seats. Below it stand the limits of its 95 % interval. Places say whom it cannot be told apart from.
    </p>
    <section class="report-table" aria-label="Ratings">
      <div class="scroll" tabIndex={0} role="region" aria-label="The ladder">
        <table>
          <thead>
            <tr>
              {["Places", "Player", "Wins", "As loyal", "As evil", "Played"].map((head) => (
                <th key={head} scope="col">
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {ratings.players.map((one) => (
              <Row key={one.player} one={one} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
    <section class="panel" aria-labelledby="rated">
      <h2 id="rated">What is counted</h2>
      <ul>
        {ratings.rules.map(({ rules, loyal_wins, games }) => (
          <li key={rules}>
            {plural(games, "game")} of {rules}: among players of mean skill loyal wins {percent(loyal_wins.value)} % ({within(loyal_wins)})
          </li>
        ))}
        {Object.entries(ratings.left_out).map(([reason, number]) => (
          <li key={reason}>
            {plural(number, "game")} not counted: {reason}
          </li>
        ))}
      </ul>
    </section>
    <Favour favour={ratings.favour} />
  </>
);

export const RatingsPage = (): JSX.Element => {
  const { found: ratings, fault, again } = useLook((stop) => server.ratings(stop));
  if (fault !== undefined) return <Fault whole error={fault} again={again} />;
  if (!ratings) return <Loading what="the ratings" />;
  return (
    <div class="ratings">
      <h1>Ratings</h1>
      {ratings.players.length ? (
        <LadderOf ratings={ratings} />
      ) : (
        <Empty title="No rated game has finished yet">
          <p>Bots that have passed a check seek rated games; the server pairs them and deals.</p>
        </Empty>
      )}
    </div>
  );
};
