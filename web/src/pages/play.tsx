/** Where people begin to play: alone against scripts, or at a table of friends with a link for each. */
import type { NewGames } from "@interintent/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Select, counts } from "../parts/select.tsx";
import { Fault } from "../parts/states.tsx";
import { HowPlayed } from "../play/how-played.tsx";
import { keepInvited, keepToken } from "../play/tokens.ts";
import { go } from "../router.ts";
import { server } from "../session.ts";

const KINDS = ["propose_team", "speak", "reconsider", "vote", "card", "summarise", "assassinate"];

export const PlayPage = (): JSX.Element => {
  const [players, setPlayers] = useState(5);
  const [people, setPeople] = useState(1);
  const [minutes, setMinutes] = useState(5);
  const [names, setNames] = useState<readonly string[]>([]);
  const [fault, setFault] = useState<unknown>(undefined);
  const [busy, setBusy] = useState(false);
  const begin = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setFault(undefined);
    try {
      const order = Array.from({ length: players }, (_, i) => i + 1);
      // Seat 1 leads first: nobody should always be there.
      for (let i = order.length - 1; i > 0; i--) {
        const j = Math.floor(Math.random() * (i + 1));
        [order[i], order[j]] = [order[j]!, order[i]!];
      }
      const remote = order.slice(0, people);
      const created = await server.createGames({
        seats: Array.from({ length: players }, (_, i) => ({ agent: remote.includes(i + 1) ? "remote" : "scripted" })),
        deadlines_s: Object.fromEntries(KINDS.map((kind) => [kind, minutes * 60])),
        names: Object.fromEntries(remote.flatMap((seat, i) => (names[i]?.trim() ? [[seat, names[i].trim()]] : []))),
        labels: { title: people === 1 ? "A person and scripts" : `A table of ${people}` },
      } as Partial<NewGames>);
      const { game_id: game, seats } = created.games[0]!;
      const mine = remote[0]!;
      keepToken(game, { seat: mine, token: seats.find(({ seat }) => seat === mine)!.token! });
      if (people === 1) return go(`/play/${game}`);
      const friends = remote.slice(1).sort((one, other) => one - other);
      keepInvited(game, friends.map((seat) => ({ seat, name: names[remote.indexOf(seat)]?.trim() ?? "" })));
      go(`/play/${game}/links`);
    } catch (error) {
      setFault(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <section class="begin">
      <h1>Play</h1>
      <p class="muted">Take a seat at a table of Avalon. Scripts play the seats that no person takes.</p>
      <form class="panel" onSubmit={(event) => void begin(event)}>
        <Select
          label="Seats"
          value={players}
          choices={counts(5, 10)}
          choose={(count) => {
            setPlayers(count);
            setPeople(Math.min(people, count));
          }}
        />
        <Select label="People, you included" value={people} choices={counts(1, players)} choose={setPeople} />
        <fieldset class="names">
          <legend>Names, if you like</legend>
          {Array.from({ length: people }, (_, i) => (
            <input
              key={i}
              dir="auto"
              maxLength={40}
              autocomplete="off"
              aria-label={i ? `Name of person ${i + 1}` : "Your name"}
              placeholder={i ? `Person ${i + 1}` : "You"}
              value={names[i] ?? ""}
              onInput={(event) => {
                const changed = [...names];
                changed[i] = event.currentTarget.value;
                setNames(Array.from(changed, (name) => name ?? ""));
              }}
            />
          ))}
        </fieldset>
        <Select
          label="Time for each decision"
          value={minutes}
          choices={[1, 2, 5, 15, 60, 1440].map((count) => [count, count < 60 ? `${count} min` : count === 60 ? "an hour" : "a day"])}
          choose={setMinutes}
        />
        <button type="submit" class="primary" disabled={busy}>
          {people === 1 ? "Take a seat" : "Make the table"}
        </button>
      </form>
      {fault !== undefined && <Fault beside error={fault} />}
      <HowPlayed />
    </section>
  );
};
