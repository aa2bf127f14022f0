/** Every batch of the server, the newest first. */
import type { BatchSummary } from "@interintent/client";
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { SIDE, ago, plural } from "../game/words.ts";
import { Icon } from "../parts/icons.tsx";
import { useLook } from "../parts/look.ts";
import { ShortId } from "../parts/short-id.tsx";
import { Empty, Fault, Loading } from "../parts/states.tsx";
import { VirtualTable } from "../parts/virtual.tsx";
import { href } from "../router.ts";
import { server } from "../session.ts";
import { Status } from "./game.tsx";

const PAGE = 200;

const Row = ({ batch }: { batch: BatchSummary }): JSX.Element => {
  const done = batch.games["finished"] ?? 0;
  return (
    <>
      <span role="cell" class="c-game">
        <a href={href(`/batches/${batch.batch_id}`)}>
          <ShortId id={batch.batch_id} />
        </a>
      </span>
      <span role="cell" class="c-status">
        <Status status={batch.status} />
      </span>
      <span role="cell" class="c-won">
        {batch.title ? <bdi title={batch.title}>{batch.title}</bdi> : <span class="muted">Without a title</span>}
      </span>
      <span role="cell" class="c-rules">
        {done} of {plural(batch.count, "game")}
      </span>
      <span role="cell" class="c-batch">
        {(["loyal", "evil"] as const).map((side) => (
          <span key={side} class="tally">
            <Icon name={side} label={`${SIDE[side]} wins`} /> {batch.winners[side] ?? 0}
          </span>
        ))}
      </span>
      <span role="cell" class="c-when">
        <time dateTime={batch.created_at} title={new Date(batch.created_at).toLocaleString()}>
          {ago(batch.created_at)}
        </time>
      </span>
    </>
  );
};

export const BatchesPage = (): JSX.Element => {
  const [refused, setRefused] = useState<unknown>(undefined);
  const busy = useRef(false);
  const { found, fault, again, change } = useLook((stop) => server.batches({ limit: PAGE }, stop));
  const more = async (): Promise<void> => {
    if (!found?.next || busy.current) return;
    busy.current = true;
    try {
      const page = await server.batches({ limit: PAGE, cursor: found.next });
      change((known) => ({ ...page, batches: [...known.batches, ...page.batches] }));
    } catch (error) {
      setRefused(error);
    } finally {
      busy.current = false;
    }
  };
  if (fault !== undefined) return <Fault whole error={fault} again={again} />;
  if (!found) return <Loading what="the batches" />;
  const { batches } = found;
  return (
    <div class="watch">
      <h1>Batches</h1>
      {refused !== undefined && <Fault beside error={refused} />}
      {batches.length === 0 ? (
        <Empty title="No batch has been made here yet">
          <p>POST /games makes one, and so does “Show me a game”.</p>
        </Empty>
      ) : (
        <VirtualTable
          count={batches.length}
          rowHeight={56}
          label="Batches"
          columns={
            <>
              <span role="columnheader" class="c-game">Batch</span>
              <span role="columnheader" class="c-status">Status</span>
              <span role="columnheader" class="c-won">Title</span>
              <span role="columnheader" class="c-rules">Finished</span>
              <span role="columnheader" class="c-batch">Winners</span>
              <span role="columnheader" class="c-when">Begun</span>
            </>
          }
          row={(index) => <Row batch={batches[index]!} />}
          onEnd={() => void more()}
        />
      )}
    </div>
  );
};
