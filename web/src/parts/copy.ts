/** Copies a text, and says whether it did. Browsers keep their clipboard from pages of plain http, such as a table's at
 * home: there the text is selected and copied as by hand. */
export const copy = async (text: string): Promise<boolean> => {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const had = document.activeElement as HTMLElement | null;
    const field = document.createElement("textarea");
    field.className = "hidden";
    field.readOnly = true;
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    had?.focus({ preventScroll: true });
    return done;
  }
};
