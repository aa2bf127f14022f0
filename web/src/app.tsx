/** The frame of every page: header, navigation, and the page that the address names. */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "./parts/icons.tsx";
import { KeyDialog } from "./parts/key-dialog.tsx";
import { Empty } from "./parts/states.tsx";
import { ThemeSwitch } from "./parts/theme-switch.tsx";
import { href, match, path } from "./router.ts";
import { NAVIGATION, ROUTES } from "./routes.tsx";
import { asking, key } from "./session.ts";

/** Whether a page belongs to an entry of the navigation: a game to Watch, a study to Studies. */
const within = (here: string, to: string): boolean =>
  to === "/" ? here === "/" || here.startsWith("/games/") : here === to || here.startsWith(`${to}/`);

export const App = (): JSX.Element => {
  const main = useRef<HTMLElement>(null);
  const menu = useRef<HTMLUListElement>(null);
  const first = useRef(true);
  const here = path.value;
  const found = ROUTES.map((route) => ({ route, params: match(route.pattern, here) })).find(({ params }) => params);
  const title = found ? found.route.title(found.params!) : "Not found";
  useEffect(() => {
    document.title = `${title} · InterIntent`;
    if (first.current) {
      first.current = false;
      return;
    }
    // Who uses a keyboard or a screen reader is told that another page is here, and begins at its top.
    main.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [here]);
  const Page = found?.route.page;
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to the page
      </a>
      <header class="top">
        <a class="brand" href={href("/")} aria-label="InterIntent: the list of games">
          <img src="./favicon.svg" alt="" width="28" height="28" /> <span>InterIntent</span>
        </a>
        <nav aria-label="Pages">
          {/* Where the window is narrow, the list is a menu behind this button. */}
          <button type="button" class="quiet menu-button" popovertarget="pages">
            <Icon name="menu" /> Menu
          </button>
          <ul id="pages" ref={menu} popover="auto">
            {NAVIGATION.map(({ to, name }) => (
              <li key={to}>
                <a href={href(to)} {...(within(here, to) ? { "aria-current": "page" as const } : {})} onClick={() => menu.current?.hidePopover()}>
                  {name}
                </a>
              </li>
            ))}
            <li>
              <a href="../docs/index.html">Guides</a>
            </li>
          </ul>
        </nav>
        <div class="row">
          <button type="button" class={`round quiet ${key.value ? "held" : ""}`} aria-label={key.value ? "Change the key" : "Enter a key"} title={key.value ? "A key is in use" : "Enter a key"} onClick={() => (asking.value = true)}>
            <Icon name="key" />
          </button>
          <ThemeSwitch />
        </div>
      </header>
      <main id="main" ref={main} tabIndex={-1} aria-label={title}>
        {Page ? (
          <Page key={here} {...found!.params} />
        ) : (
          <Empty whole title="There is no such page">
            <p>
              <a href={href("/")}>To the list of games</a>
            </p>
          </Empty>
        )}
      </main>
      <KeyDialog />
    </>
  );
};
