/** A log as chapters of entries: what a reader sees as one thing, with the private records that led to it. */
import type { EventOf, GameEvent, Seat } from "@interintent/client";

export type Note = Extract<
  GameEvent,
  {
    type:
      | "beliefs_formed"
      | "intentions_selected"
      | "selection_prepared"
      | "speech_drafted"
      | "readings_imagined"
      | "choice_explained"
      | "action_refused"
      | "action_defaulted"
      | "reply_unusable";
  }
>;

/** A ballot or a card, with what its seat recorded about it. */
export interface Hidden {
  seat: Seat;
  event: EventOf<"vote_cast"> | EventOf<"card_played">;
  notes: readonly Note[];
}

export interface Entry {
  /** Position of its event in the log of these eyes, from 1; of the last record for a seat that still thinks. */
  at: number;
  /** Position of the first record that led to it. */
  from: number;
  /** Missing for a seat that still thinks. */
  event?: Exclude<GameEvent, Note>;
  seat?: Seat;
  notes: readonly Note[];
  /** The ballots behind revealed votes, or the cards behind a quest, as far as these eyes see them. */
  hidden: readonly Hidden[];
}

export interface Chapter {
  key: string;
  /** 0 for the deal, and for the assassination at the end. */
  round: number;
  attempt: number;
  leader: Seat | null;
  title: string;
  entries: Entry[];
  /** Positions of its first and last event. */
  from: number;
  to: number;
}

const NOTES: ReadonlySet<string> = new Set<Note["type"]>([
  "beliefs_formed",
  "intentions_selected",
  "selection_prepared",
  "speech_drafted",
  "readings_imagined",
  "choice_explained",
  "action_refused",
  "action_defaulted",
  "reply_unusable",
]);

export const isNote = (event: GameEvent): event is Note => NOTES.has(event.type);

export const story = (log: readonly GameEvent[]): Chapter[] => {
  const chapters: Chapter[] = [];
  let chapter = open("deal", "The deal", 1);
  let notes = new Map<Seat, { from: number; notes: Note[] }>();
  let hidden: Hidden[] = [];

  function open(key: string, title: string, from: number, round = 0, attempt = 0, leader: Seat | null = null): Chapter {
    const next = { key, title, from, to: from, round, attempt, leader, entries: [] };
    chapters.push(next);
    return next;
  }
  const take = (seat: Seat | undefined, at: number): { from: number; notes: Note[] } => {
    const taken = seat === undefined ? undefined : notes.get(seat);
    if (taken) notes.delete(seat!);
    return taken ?? { from: at, notes: [] };
  };

  log.forEach((event, index) => {
    const at = index + 1;
    if (isNote(event)) {
      const noted = notes.get(event.seat);
      if (noted) noted.notes.push(event);
      else notes.set(event.seat, { from: at, notes: [event] });
      chapter.to = at;
      return;
    }
    if (event.type === "proposal_opened") {
      const { round, attempt, leader } = event;
      chapter = open(`${round}.${attempt}`, `Quest ${round}, proposal ${attempt}`, at, round, attempt, leader);
    } else if (event.type === "assassination_opened") chapter = open(`shot-${at}`, "The assassination", at);
    chapter.to = at;
    if (event.type === "vote_cast" || event.type === "card_played") {
      hidden.push({ seat: event.seat, event, notes: take(event.seat, at).notes });
      return;
    }
    const seat = actor(event);
    const entry: Entry = { at, event, hidden: [], ...take(seat, at), ...(seat === undefined ? {} : { seat }) };
    if (event.type === "votes_revealed" || event.type === "quest_resolved") {
      entry.hidden = hidden;
      hidden = [];
    }
    // What a leader says with its team belongs to the team's proposal: the records came just before that.
    const before = chapter.entries.at(-1);
    if (event.type === "utterance_made" && before?.seat === seat && isTeam(before?.event) && !entry.notes.length) {
      entry.notes = before!.notes;
      entry.from = before!.from;
      before!.notes = [];
      before!.from = before!.at;
    }
    chapter.entries.push(entry);
  });
  for (const [seat, { from, notes: open }] of notes)
    chapter.entries.push({ at: from + open.length - 1, from, seat, notes: open, hidden: [] });
  return chapters;
};

const isTeam = (event: GameEvent | undefined): boolean =>
  event?.type === "team_proposed" || event?.type === "team_confirmed";

const actor = (event: GameEvent): Seat | undefined => {
  switch (event.type) {
    case "team_proposed":
    case "team_confirmed":
      return event.leader;
    case "assassination_made":
      return event.assassin;
    case "utterance_made":
    case "round_summarised":
    case "role_learned":
    case "evil_conferred":
      return event.seat;
    default:
      return undefined;
  }
};

/** The chapter that position `at` lies in. */
export const chapterAt = (chapters: readonly Chapter[], at: number): number => {
  let found = 0;
  for (let i = 0; i < chapters.length; i++) if (chapters[i]!.from <= at) found = i;
  return found;
};

/** The positions at which something happens that everybody at these eyes would call an event. */
export const beats = (chapters: readonly Chapter[]): number[] =>
  chapters.flatMap((chapter) =>
    chapter.entries
      .filter(({ event }) => event && event.type !== "role_learned" && event.type !== "agents_seated")
      .map(({ at }) => at),
  );

// --- what a seat recorded about one speech ---

export interface Intended {
  id: string;
  reason: string;
  /** Compared with the first selection: what was kept, given up before speaking, or taken up. */
  fate: "kept" | "dropped" | "added";
}

export interface Mind {
  beliefs: EventOf<"beliefs_formed">["beliefs"];
  intended: Intended[];
  /** Why the selection is what it is, in the seat's own words. */
  why: string;
  think: string;
  /** The first draft, and the speech that came of it in the seat's own records. */
  draft: string | null;
  final: string | null;
  /** The thinking that changed the draft. */
  revision: string;
  readings: readonly { by: string; text: string }[];
  revealsRole: boolean | null;
  explanations: readonly { about: string; text: string }[];
  faults: readonly Note[];
}

export const mind = (notes: readonly Note[]): Mind => {
  const all = <T extends Note["type"]>(type: T): Extract<Note, { type: T }>[] =>
    notes.filter((note): note is Extract<Note, { type: T }> => note.type === type);
  const selections = all("intentions_selected");
  const first = selections.findLast(({ stage }) => stage === "first");
  const final = selections.findLast(({ stage }) => stage === "final") ?? first;
  const drafts = all("speech_drafted");
  const draft = drafts.findLast(({ stage }) => stage === "formulation");
  const refined = drafts.findLast(({ stage }) => stage === "refinement");
  const readings = all("readings_imagined");
  const before = new Set(first?.intentions.map(({ id }) => id));
  const after = new Set(final?.intentions.map(({ id }) => id));
  return {
    beliefs: all("beliefs_formed").flatMap(({ beliefs }) => beliefs),
    intended: [
      ...(final?.intentions ?? []).map(
        ({ id, reason }): Intended => ({ id, reason: reason ?? "", fate: before.has(id) ? "kept" : "added" }),
      ),
      ...(first?.intentions ?? [])
        .filter(({ id }) => !after.has(id))
        .map(({ id, reason }): Intended => ({ id, reason: reason ?? "", fate: "dropped" })),
    ],
    why: final?.reason ?? "",
    think: draft?.think ?? refined?.think ?? "",
    draft: draft?.speak ?? null,
    final: refined?.speak ?? null,
    revision: draft ? (refined?.think ?? "") : "",
    readings: readings.flatMap(({ readings }) => readings),
    revealsRole: readings.length ? readings.some(({ reveals_role }) => reveals_role) : null,
    explanations: all("choice_explained").map(({ about, text }) => ({ about, text })),
    faults: notes.filter(({ type }) => type === "action_refused" || type === "action_defaulted" || type === "reply_unusable"),
  };
};
