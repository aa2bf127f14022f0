/**
 * Which moment of a game is shown, and how it moves on: by hand, as a replay, or behind a game that is being played.
 *
 * A moment is a position in the log of the present eyes. A replay goes from event to event and gives each the time
 * that it takes to take it in; behind a live game it hurries when it falls behind.
 */
import type { GameEvent, Viewer } from "@interintent/client";
import { type ReadonlySignal, type Signal, computed, effect, signal } from "@preact/signals";
import { spokenMs } from "../parts/speech.tsx";
import { project } from "./eyes.ts";
import { type Table, fold } from "./fold.ts";
import { type Chapter, beats, chapterAt, story } from "./story.ts";

export const SPEEDS = [0.5, 1, 2, 4, 8, 16] as const;

export class Player {
  readonly eyes: Signal<Viewer>;
  readonly seen: ReadonlySignal<readonly GameEvent[]>;
  readonly tables: ReadonlySignal<readonly Table[]>;
  readonly chapters: ReadonlySignal<readonly Chapter[]>;
  readonly beats: ReadonlySignal<readonly number[]>;
  readonly head: ReadonlySignal<number>;
  readonly at: Signal<number>;
  readonly playing = signal(false);
  readonly speed = signal<number>(1);
  /** The position whose speech is being played out; 0 for none. */
  readonly voiced = signal(0);
  readonly table: ReadonlySignal<Table | undefined>;
  readonly chapter: ReadonlySignal<number>;
  readonly #log: ReadonlySignal<readonly GameEvent[]>;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #dispose: () => void;

  constructor(log: ReadonlySignal<readonly GameEvent[]>, running: ReadonlySignal<boolean>, eyes: Viewer, at?: number) {
    this.#log = log;
    this.eyes = signal(eyes);
    this.seen = computed(() => project(log.value, this.eyes.value));
    let known: { of: GameEvent | undefined; eyes: Viewer; tables: Table[] } | undefined;
    this.tables = computed(() => {
      const seen = this.seen.value;
      const fits = known?.of === seen[0] && known?.eyes === this.eyes.value && known.tables.length <= seen.length;
      const tables = fold(seen, fits ? known!.tables : []);
      known = { of: seen[0], eyes: this.eyes.value, tables };
      return tables;
    });
    this.chapters = computed(() => story(this.seen.value));
    this.beats = computed(() => beats(this.chapters.value));
    this.head = computed(() => this.seen.value.length);
    this.at = signal(Math.max(1, Math.min(at ?? Infinity, this.seen.peek().length || 1)));
    this.table = computed(() => this.tables.value[Math.min(this.at.value, this.head.value) - 1]);
    this.chapter = computed(() => chapterAt(this.chapters.value, this.at.value));
    this.#dispose = effect(() => {
      clearTimeout(this.#timer);
      if (!this.playing.value) return;
      const { value: at } = this.at;
      const next = this.beats.value.find((beat) => beat > at);
      if (next === undefined) {
        if (!running.value) this.playing.value = false;
        return;
      }
      const behind = running.value ? this.beats.value.length - this.beats.value.indexOf(next) : 0;
      const speed = this.speed.value * Math.max(1, behind / 3);
      this.#timer = setTimeout(() => {
        this.voiced.value = speed <= 3 ? next : 0;
        this.at.value = next;
      }, this.#pause(at) / speed);
    });
  }

  dispose(): void {
    clearTimeout(this.#timer);
    this.#dispose();
  }

  /** Shows a moment; what was playing stops. */
  seek(at: number): void {
    this.playing.value = false;
    this.voiced.value = 0;
    this.at.value = Math.max(1, Math.min(Math.round(at), this.head.value));
  }

  /** Goes to the next event of the game (1) or the one before (-1). */
  step(by: 1 | -1): void {
    const { value: at } = this.at;
    const beats = this.beats.value;
    const to = by > 0 ? beats.find((beat) => beat > at) : beats.findLast((beat) => beat < at);
    this.seek(to ?? (by > 0 ? this.head.value : 1));
  }

  /** Goes to the beginning of the next proposal, or of the present or the one before. */
  leap(by: 1 | -1): void {
    const chapters = this.chapters.value;
    const here = this.chapter.value;
    const began = chapters[here]?.from ?? 1;
    this.seek(chapters[by > 0 ? here + 1 : this.at.value > began ? here : here - 1]?.from ?? (by > 0 ? this.head.value : 1));
  }

  toggle(): void {
    if (this.playing.value) {
      this.playing.value = false;
      return;
    }
    if (this.at.value >= (this.beats.value.at(-1) ?? 1)) this.at.value = 1;
    this.playing.value = true;
  }

  /** The same moment through other eyes. */
  look(eyes: Viewer): void {
    const moment = this.seen.value[this.at.value - 1]?.seq ?? 1;
    const seen = project(this.#log.value, eyes);
    const at = seen.findLastIndex(({ seq }) => seq <= moment) + 1;
    this.eyes.value = eyes;
    this.at.value = Math.max(1, at);
  }

  #pause(at: number): number {
    const event = this.seen.value[at - 1];
    switch (event?.type) {
      case "utterance_made":
        return 600 + spokenMs(event.text);
      case "votes_revealed":
      case "quest_resolved":
      case "assassination_made":
        return 2200;
      default:
        return 900;
    }
  }
}
