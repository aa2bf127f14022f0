/** A link for each friend at a table that was made in this tab. They stay with the tab, so that they can be looked up
 * and made anew while the game goes on. */
import { ApiError, type Seat } from "@interintent/client";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { copy } from "../parts/copy.ts";
import { Empty, Fault } from "../parts/states.tsx";
import { invitedTo, keepInvited } from "../play/tokens.ts";
import { href } from "../router.ts";
import { key, server } from "../session.ts";

export const LinksPage = ({ game }: { game: string }): JSX.Element => {
  const [invited, setInvited] = useState(() => invitedTo(game));
  const [copied, setCopied] = useState<Seat>(0);
  const [fault, setFault] = useState<{ seat: Seat; error: unknown }>();
  const [busy, setBusy] = useState(false);
  const make = async (seats: readonly Seat[]): Promise<void> => {
    setBusy(true);
    setFault(undefined);
    for (const seat of seats) {
      try {
        // A code whose answer got lost is replaced by the next one.
        const { code } = await server.post<{ code: string }>(`/games/${game}/seats/${seat}/claim-code`, {}, { repeat: true });
        const link = `${location.href.split("#", 1)[0]}#/claim/${code}`;
        const now = invitedTo(game)!.map((one) => (one.seat === seat ? { ...one, link } : one));
        keepInvited(game, now);
        setInvited(now);
        if (seat === copied) setCopied(0);
      } catch (error) {
        setFault({ seat, error });
        break;
      }
    }
    setBusy(false);
  };
  const makeMissing = (): Promise<void> => make((invited ?? []).filter(({ link }) => !link).map(({ seat }) => seat));
  useEffect(() => void makeMissing(), [key.value]);
  if (!invited)
    return (
      <Empty whole title="No table of friends was made in this tab">
        <p>
          Links are shown in the tab that made the table. <a href={href("/play")}>Make a table</a>
        </p>
      </Empty>
    );
  return (
    <section class="begin" aria-label="Links for your friends">
      <h1>A link for each friend</h1>
      <p class="muted">
        Each link works once, in one browser. The game has begun and waits for everybody. A link that nobody has used can be
        made anew: the new one takes its place. Once it is used, the seat is your friend's, and only whoever runs this server
        can make another link to it.
      </p>
      {fault && (
        <Fault
          beside
          title={fault.error instanceof ApiError && fault.error.status === 403 ? `This key makes no link to seat ${fault.seat}` : undefined}
          error={fault.error}
          again={() => void makeMissing()}
        />
      )}
      <ul class="panel invitations">
        {invited.map(({ seat, name, link }) => (
          <li key={seat} class="row invited">
            <label>
              <span>
                Seat {seat}
                {name && (
                  <>
                    , <bdi>{name}</bdi>
                  </>
                )}
              </span>
              <input readOnly value={link ?? ""} placeholder={busy ? "is being made …" : ""} onFocus={(event) => event.currentTarget.select()} />
            </label>
            <button type="button" disabled={!link} aria-label={`Copy the link to seat ${seat}`} onClick={() => void copy(link!).then((done) => done && setCopied(seat))}>
              {copied === seat ? "Copied" : "Copy"}
            </button>
            <button type="button" disabled={busy} aria-label={`New link to seat ${seat}`} onClick={() => void make([seat])}>
              New
            </button>
          </li>
        ))}
      </ul>
      <p class="hidden" role="status">
        {copied ? `The link to seat ${copied} is copied.` : ""}
      </p>
      <p class="row">
        <a class="button primary" href={href(`/play/${game}`)}>
          Take my seat
        </a>
      </p>
    </section>
  );
};
