/** What a seat saw, as text. Its end is shown first: that is where the speech in question stands. */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

export const RecordView = ({ text }: { text: string }): JSX.Element => {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  return (
    <div class="record" ref={box} tabIndex={0} role="group" aria-label="The record" dir="auto">
      {text}
    </div>
  );
};
