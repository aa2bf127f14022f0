/** What is kept with the tab, and gone with it: nothing that is written here outlasts it. */

const name = (what: string): string => `interintent.${what}`;

export const keep = (what: string, value: unknown): void => sessionStorage.setItem(name(what), JSON.stringify(value));

export const drop = (what: string): void => sessionStorage.removeItem(name(what));

export const kept = <T>(what: string): T | undefined => {
  const text = sessionStorage.getItem(name(what));
  return text === null ? undefined : (JSON.parse(text) as T);
};
