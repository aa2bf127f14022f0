/** Where raters begin: who they are, and what they want to look at. */
import type { BatchSummary, EvaluationSet } from "@interintent/client";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { plural } from "../game/words.ts";
import { ShortId } from "../parts/short-id.tsx";
import { go, href, place } from "../router.ts";
import { key, server } from "../session.ts";

interface Props {
  title: string;
  /** What is asked of people here. */
  children: ComponentChildren;
  /** The page, and the query that it has for an id. */
  page: string;
  query: (of: string) => Record<string, string>;
  of: string;
  label: string;
  /** Speeches: by default, and at most. */
  usual: number;
  most: number;
  /** Whether sealed sets may be chosen, too. */
  sets?: boolean;
}

interface Offer {
  id: string;
  /** Empty: it has none. */
  name: string;
  about: string;
}

/** The newest batches and sets that one may choose from. */
const FEW = 6;

const ofBatch = ({ batch_id: id, title, games }: BatchSummary): Offer => ({
  id,
  name: title,
  about: plural(games["finished"] ?? 0, "finished game"),
});

const ofSet = ({ set_id: id, name, items, closes_at: date, status }: EvaluationSet): Offer => ({
  id,
  name,
  about: `${plural(items, "item")}, ${status === "sealed" ? "sealed until" : "open since"} ${new Date(date).toLocaleDateString()}`,
});

const useOffers = (sets: boolean): readonly Offer[] => {
  const [offers, setOffers] = useState<readonly Offer[]>([]);
  useEffect(() => {
    const stop = new AbortController();
    // Who may not list them enters an id.
    const listed = sets ? server.get<{ sets: EvaluationSet[] }>("/evaluations/sets", { limit: FEW }, { signal: stop.signal }) : undefined;
    void Promise.all([
      listed?.then(
        (page) => page.sets.filter(({ dimension }) => dimension === "guessing").map(ofSet),
        () => [],
      ) ?? [],
      server.batches({ limit: 50 }, stop.signal).then(
        (page) =>
          page.batches
            .filter(({ games }) => games["finished"])
            .slice(0, FEW)
            .map(ofBatch),
        () => [],
      ),
    ]).then((found) => stop.signal.aborted || setOffers(found.flat()));
    return () => stop.abort();
  }, [sets, key.value]);
  return offers;
};

export const Begin = ({ title, children, page, query, of: given, label, usual, most, sets = false }: Props): JSX.Element => {
  const [of, setOf] = useState(given);
  const offers = useOffers(sets);
  const begin = (event: SubmitEvent): void => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    go(href(page, { rater: String(form.get("rater")).trim(), ...query(of.trim()), limit: String(form.get("limit") ?? "") }));
  };
  const isSet = of.trim().startsWith("s_");
  return (
    <section class="begin">
      <h1>{title}</h1>
      <p class="muted">{children}</p>
      <form class="panel" onSubmit={begin}>
        <label class="field">
          Your name as a rater
          <input name="rater" required maxLength={80} pattern="[A-Za-z0-9][A-Za-z0-9 ._:@\/+\-]*" defaultValue={place.value.query["rater"] ?? ""} autocomplete="off" />
        </label>
        {offers.length > 0 && (
          <fieldset>
            <legend>Choose one</legend>
            <ul class="choices offers">
              {offers.map((offer) => (
                <li key={offer.id}>
                  <label class="choice">
                    <input type="radio" name="offer" checked={of === offer.id} onChange={() => setOf(offer.id)} />
                    <span>
                      {offer.name ? (
                        <bdi>{offer.name}</bdi>
                      ) : (
                        <>
                          Batch <ShortId id={offer.id} />
                        </>
                      )}
                      <br />
                      <small class="muted">{offer.about}</small>
                    </span>
                  </label>
                </li>
              ))}
            </ul>
          </fieldset>
        )}
        <label class="field">
          {label}
          <input
            required
            pattern={sets ? "[bgs]_[a-z0-9]+" : "[bg]_[a-z0-9]+"}
            value={of}
            onInput={(event) => setOf(event.currentTarget.value)}
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
          />
        </label>
        {!isSet && (
          <label class="field">
            Speeches
            <input name="limit" type="number" min={1} max={most} defaultValue={String(usual)} />
          </label>
        )}
        <button type="submit" class="primary">
          Begin
        </button>
      </form>
    </section>
  );
};
