/** Where a key is entered. It stays in memory, is sent as Bearer, and is never stored or put into an address. */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { asking, key } from "../session.ts";

export const KeyDialog = (): JSX.Element => {
  const dialog = useRef<HTMLDialogElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const open = asking.value;
  useEffect(() => {
    if (open && !dialog.current?.open) {
      dialog.current?.showModal();
      if (input.current) input.current.value = "";
    } else if (!open) dialog.current?.close();
  }, [open]);
  const enter = (event: SubmitEvent): void => {
    event.preventDefault();
    const value = input.current?.value.trim();
    if (input.current) input.current.value = "";
    if (value) key.value = value;
    asking.value = false;
  };
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="key-title" onClose={() => (asking.value = false)}>
      <form onSubmit={enter}>
        <h2 id="key-title">Your key</h2>
        <p>A key of this server, or a token of a seat or a watcher. It stays in this page's memory and is gone when you leave.</p>
        <label>
          Key or token
          <input ref={input} type="password" autocomplete="off" spellcheck={false} required maxLength={2048} />
        </label>
        <p class="row end">
          {key.value && (
            <button
              type="button"
              onClick={() => {
                key.value = undefined;
                asking.value = false;
              }}
            >
              Forget the present key
            </button>
          )}
          <button type="button" onClick={() => (asking.value = false)}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Use it
          </button>
        </p>
      </form>
    </dialog>
  );
};
