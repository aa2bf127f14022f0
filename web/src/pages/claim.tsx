/** Where a friend's link arrives. The code is taken out of the address before anything else happens. */
import { ApiError } from "@interintent/client";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Empty, Fault, Loading } from "../parts/states.tsx";
import { keepToken } from "../play/tokens.ts";
import { go, href } from "../router.ts";
import { server } from "../session.ts";

interface Claimed {
  game_id: string;
  seat: number;
  token: string;
}

/** What to do without a good link. */
const Ways = (): JSX.Element => (
  <p>
    Who made the table may be able to make you a new link. Or begin a game of your own: <a href={href("/play")}>Play</a>
  </p>
);

export const ClaimPage = ({ code }: { code: string }): JSX.Element => {
  const [fault, setFault] = useState<unknown>(undefined);
  const [round, setRound] = useState(0);
  useEffect(() => {
    history.replaceState(null, "", href("/claim"));
    server.post<Claimed>("/claims", { code }).then(
      ({ game_id: game, seat, token }) => {
        keepToken(game, { seat, token });
        go(`/play/${game}`);
      },
      (error: unknown) => setFault(error),
    );
  }, [round]);
  if (fault instanceof ApiError && [404, 410].includes(fault.status))
    return (
      <Empty whole title="This link is no longer good">
        <p>
          {fault.status === 410 ? `The server says: ${fault.message}. If you opened it yourself, your seat is in that tab.` : "No seat has this link. It may be incomplete, or a newer one has taken its place."}
        </p>
        <Ways />
      </Empty>
    );
  if (fault === undefined) return <Loading what="your seat" />;
  const again = (): void => {
    setFault(undefined);
    setRound(round + 1);
  };
  return <Fault whole error={fault} again={again} />;
};

export const ClaimedPage = (): JSX.Element => (
  <Empty whole title="A link is needed">
    <p>Open the link that you were sent once more.</p>
    <Ways />
  </Empty>
);
