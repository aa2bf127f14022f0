/** The server that these pages came from, and who asks it. */
import { ApiError, Closed, Server, Unreachable } from "@interintent/client";
import { signal } from "@preact/signals";

/** The key that was entered. It is kept in memory alone and is gone with the page. */
export const key = signal<string | undefined>(undefined);

export const server = new Server(new URL("..", document.baseURI).href);

key.subscribe((value) => {
  server.key = value;
});

/** Whether the dialog that asks for a key is open. */
export const asking = signal(false);

export interface Fault {
  title: string;
  detail: string;
  /** Whether a key may help. */
  key: boolean;
  /** Whether the same may work later. */
  again: boolean;
}

/** A failure in words that say what to do. */
export const faultOf = (error: unknown): Fault => {
  if (error instanceof ApiError) {
    if (error.status === 401 || error.status === 403)
      return {
        title: error.status === 403 ? "This key does not allow that" : key.peek() ? "The server does not know this key" : "This server asks for a key",
        // The server's own words tell programs which header to send.
        detail: error.status === 401 && !key.peek() ? "Enter the key that you were given." : error.message,
        key: true,
        again: false,
      };
    if (error.status === 404)
      return {
        title: "There is nothing here",
        detail: `It does not exist${key.peek() ? ", or your key does not show it to you" : " on this server, or is no longer there"}. Check the address.`,
        key: true,
        again: false,
      };
    return { title: "The server could not answer", detail: error.message, key: false, again: error.status >= 500 || error.status === 429 };
  }
  // 4403 is the socket's word for 404.
  if (error instanceof Closed && error.code === 4403) return faultOf(new ApiError(404, {}));
  if (error instanceof Closed)
    return { title: "The connection has ended", detail: error.message, key: error.code === 4401, again: false };
  if (error instanceof Unreachable)
    return { title: "The server cannot be reached", detail: "Check that it is running and that you are connected.", key: false, again: true };
  return { title: "Something went wrong on this page", detail: error instanceof Error ? error.message : String(error), key: false, again: true };
};
