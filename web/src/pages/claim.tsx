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

export const ClaimPage = ({ code }: { code: string }): JSX.Element => {
  const [fault, setFault] = useState<unknown>(undefined);
  useEffect(() => {
    history.replaceState(null, "", href("/claim"));
    server.post<Claimed>("/claims", { code }).then(
      ({ game_id: game, seat, token }) => {
        keepToken(game, { seat, token });
        go(`/play/${game}`);
      },
      (error: unknown) => setFault(error),
    );
  }, []);
  if (fault instanceof ApiError && [404, 410].includes(fault.status))
    return (
      <Empty title="This link is no longer good">
        <p>{fault.message}. Ask for a new link.</p>
      </Empty>
    );
  return fault === undefined ? <Loading what="your seat" /> : <Fault error={fault} />;
};

export const ClaimedPage = (): JSX.Element => (
  <Empty title="A link is needed">
    <p>Open the link that you were sent once more, or ask for a new one.</p>
  </Empty>
);
