/** Every page and its address. A page to be added: a line here, and a link in `NAVIGATION` if people look for it. */
import type { ComponentType } from "preact";
import { AnnotatePage } from "./pages/annotate.tsx";
import { BatchPage } from "./pages/batch.tsx";
import { BatchesPage } from "./pages/batches.tsx";
import { ClaimPage, ClaimedPage } from "./pages/claim.tsx";
import { ComparePage } from "./pages/compare.tsx";
import { GamePage } from "./pages/game.tsx";
import { GuessPage } from "./pages/guess.tsx";
import { LinksPage } from "./pages/links.tsx";
import { LobbyPage } from "./pages/lobby.tsx";
import { PlayPage } from "./pages/play.tsx";
import { RatingsPage } from "./pages/ratings.tsx";
import { ReadPage } from "./pages/read.tsx";
import { ReportsPage } from "./pages/reports.tsx";
import { SeatPage } from "./pages/seat.tsx";
import { StudiesPage, StudyPage } from "./pages/studies.tsx";
import { WatchPage } from "./pages/watch.tsx";

export interface Route {
  /** Parts that begin with a colon are given to the page as properties. */
  pattern: string;
  title: (params: Record<string, string>) => string;
  page: ComponentType<any>;
}

export const ROUTES: readonly Route[] = [
  { pattern: "/", title: () => "Watch", page: WatchPage },
  { pattern: "/games/:game", title: ({ game }) => `Game ${game}`, page: GamePage },
  { pattern: "/games/:game/text", title: ({ game }) => `Game ${game} as text`, page: ReadPage },
  { pattern: "/batches", title: () => "Batches", page: BatchesPage },
  { pattern: "/batches/:batch", title: ({ batch }) => `Batch ${batch}`, page: BatchPage },
  { pattern: "/annotate", title: () => "Judge", page: AnnotatePage },
  { pattern: "/guess", title: () => "Guess", page: GuessPage },
  { pattern: "/play", title: () => "Play", page: PlayPage },
  { pattern: "/lobby", title: () => "Find others", page: LobbyPage },
  { pattern: "/play/:game/links", title: () => "Links for your friends", page: LinksPage },
  { pattern: "/play/:game", title: () => "Your seat", page: SeatPage },
  { pattern: "/claim", title: () => "Your seat", page: ClaimedPage },
  { pattern: "/claim/:code", title: () => "Your seat", page: ClaimPage },
  { pattern: "/studies", title: () => "Studies", page: StudiesPage },
  { pattern: "/studies/:study", title: ({ study }) => `Study ${study}`, page: StudyPage },
  { pattern: "/reports", title: () => "Reports", page: ReportsPage },
  { pattern: "/ratings", title: () => "Ratings", page: RatingsPage },
  { pattern: "/compare", title: () => "Two games side by side", page: ComparePage },
];

export const NAVIGATION: readonly { to: string; name: string }[] = [
  { to: "/", name: "Watch" },
  { to: "/batches", name: "Batches" },
  { to: "/play", name: "Play" },
  { to: "/lobby", name: "Find others" },
  { to: "/annotate", name: "Judge" },
  { to: "/guess", name: "Guess" },
  { to: "/studies", name: "Studies" },
  { to: "/reports", name: "Reports" },
  { to: "/ratings", name: "Ratings" },
  { to: "/compare", name: "Side by side" },
];
