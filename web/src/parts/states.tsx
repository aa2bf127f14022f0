/** What stands where nothing can be shown yet, or at all, and how many look on. */
import type { ComponentChildren, JSX } from "preact";
import { asking, faultOf } from "../session.ts";
import { Icon } from "./icons.tsx";

export const Loading = ({ what }: { what: string }): JSX.Element => (
  <p class="state state-loading" role="status">
    <span class="spinner" aria-hidden="true" />
    Loading {what} …
  </p>
);

/** `whole`: there is nothing else on the page, so that this is its heading. */
export const Empty = ({ title, children, whole = false }: { title: string; children?: ComponentChildren; whole?: boolean }): JSX.Element => (
  <section class="state">
    {whole ? <h1>{title}</h1> : <h2>{title}</h2>}
    {children}
  </section>
);

interface FaultProps {
  error: unknown;
  /** Undefined: the usual one of such an error. */
  title?: string | undefined;
  again?: () => void;
  /** There is nothing else on the page, so that this is its heading. */
  whole?: boolean;
  /** What was there before stays below. */
  beside?: boolean;
}

export const Fault = ({ error, title, again, whole = false, beside = false }: FaultProps): JSX.Element => {
  const fault = faultOf(error);
  const heading = title ?? fault.title;
  return (
    <section class={`state state-fault ${beside ? "panel beside" : ""}`} role="alert">
      {whole ? <h1>{heading}</h1> : <h2>{heading}</h2>}
      <p dir="auto">{fault.detail}</p>
      <p class="row">
        {fault.key && !import.meta.env.SITE && (
          <button type="button" class="primary" onClick={() => (asking.value = true)}>
            <Icon name="key" /> Enter a key
          </button>
        )}
        {again && (fault.again || fault.key) && (
          <button type="button" onClick={again}>
            Try again
          </button>
        )}
      </p>
    </section>
  );
};

/** How many people look on; where there is little room, the word is left to the sign. */
export const Watching = ({ count }: { count: number }): JSX.Element => (
  <span class="muted watching">
    <Icon name="eye" /> {count} <span>watching</span>
  </span>
);
