/** Every batch of the server, the newest first. */
import type { BatchSummary } from "@interintent/client";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { SIDE, plural } from "../game/words.ts";
import { Icon } from "../parts/icons.tsx";
import { ShortId } from "../parts/short-id.tsx";
import { Empty, Fault, Loading } from "../parts/states.tsx";
import { VirtualTable } from "../parts/virtual.tsx";
import { href } from "../router.ts";
import { key, server } from "../session.ts";
import { Status } from "./game.tsx";

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
        <bdi>{batch.title}</bdi>
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
        <time dateTime={batch.created_at}>{new Date(batch.created_at).toLocaleDateString()}</time>
      </span>
    </>
  );
};

export const BatchesPage = (): JSX.Element => {
  const [batches, setBatches] = useState<readonly BatchSummary[] | undefined>(undefined);
  const [next, setNext] = useState<string | null>(null);
  const [fault, setFault] = useState<unknown>(undefined);
  useEffect(() => {
    const stop = new AbortController();
    setFault(undefined);
    server.batches({ limit: 200 }, stop.signal).then(
      (page) => {
        setBatches(page.batches);
        setNext(page.next);
      },
      (error: unknown) => stop.signal.aborted || setFault(error),
    );
    return () => stop.abort();
  }, [key.value]);
  const more = (): void => {
    if (!next) return;
    setNext(null);
    server.batches({ limit: 200, cursor: next }).then((page) => {
      setBatches((known) => [...(known ?? []), ...page.batches]);
      setNext(page.next);
    }, setFault);
  };
  if (fault !== undefined) return <Fault whole error={fault} />;
  if (!batches) return <Loading what="the batches" />;
  return (
    <div class="watch">
      <h1>Batches</h1>
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
          onEnd={more}
        />
      )}
    </div>
  );
};
