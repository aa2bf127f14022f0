/** Avalon in a minute, for who has never played it. */
import type { JSX } from "preact";
import { Icon } from "../parts/icons.tsx";

export const HowPlayed = (): JSX.Element => (
  <details class="panel how-played">
    <summary>How Avalon is played</summary>
    <p>
      Most seats are <Icon name="loyal" /> loyal, some are <Icon name="evil" /> evil. The evil ones know each other. Of the loyal
      ones Merlin alone knows who is evil, and has to hide it; Percival is shown who may be Merlin.
    </p>
    <p>
      In each round a <Icon name="crown" /> leader proposes a <Icon name="shield" /> team, the table talks about it, and all vote{" "}
      <Icon name="check" /> for it or <Icon name="cross" /> against it. If most are against it, the next seat leads. A
      team that is approved goes on the quest: each member plays a card in secret. Loyal seats play success; evil ones may play
      fail, and one fail is mostly enough. A filled disc in the middle is a quest that is over.
    </p>
    <p>
      Evil wins when three quests fail. When three succeed, evil may <Icon name="target" /> shoot one seat: if that is Merlin, evil
      wins after all, else loyal wins.
    </p>
  </details>
);
