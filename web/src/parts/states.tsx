/** What stands where nothing can be shown yet, or at all. */
import type { ComponentChildren, JSX } from "preact";
import { asking, faultOf } from "../session.ts";
import { Icon } from "./icons.tsx";

export const Loading = ({ what }: { what: string }): JSX.Element => (
  <p class="state state-loading" role="status">
    <span class="spinner" aria-hidden="true" />
    Loading {what} …
  </p>
);

export const Empty = ({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element => (
  <section class="state">
    <h2>{title}</h2>
    {children}
  </section>
);

export const Fault = ({ error, again }: { error: unknown; again?: () => void }): JSX.Element => {
  const fault = faultOf(error);
  return (
    <section class="state state-fault" role="alert">
      <h2>{fault.title}</h2>
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
