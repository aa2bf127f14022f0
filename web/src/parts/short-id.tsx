/** The beginning of a long random id; the whole of it for who points at it, copies it or has it read. */
import type { JSX } from "preact";

export const ShortId = ({ id }: { id: string }): JSX.Element => {
  const name = id.replace(/^[a-z]_/, "");
  return name.length <= 10 ? (
    <span>{name}</span>
  ) : (
    <abbr class="id" title={id}>
      {name.slice(0, 7)}
    </abbr>
  );
};
