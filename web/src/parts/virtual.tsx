/** A long list of rows of equal height, of which only those in view are in the page. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

interface Props {
  count: number;
  /** Pixels. */
  rowHeight: number;
  label: string;
  columns: ComponentChildren;
  row: (index: number) => ComponentChildren;
  /** Called when the end comes into view. */
  onEnd?: () => void;
}

const MORE = 8;

export const VirtualTable = ({ count, rowHeight, label, columns, row, onEnd }: Props): JSX.Element => {
  const box = useRef<HTMLDivElement>(null);
  const [span, setSpan] = useState<[number, number]>([0, 40]);
  useEffect(() => {
    const element = box.current!;
    const look = (): void => {
      const first = Math.max(0, Math.floor(element.scrollTop / rowHeight) - MORE);
      const last = Math.ceil((element.scrollTop + element.clientHeight) / rowHeight) + MORE;
      setSpan((known) => (known[0] === first && known[1] === last ? known : [first, last]));
    };
    look();
    element.addEventListener("scroll", look, { passive: true });
    const resized = new ResizeObserver(look);
    resized.observe(element);
    return () => {
      element.removeEventListener("scroll", look);
      resized.disconnect();
    };
  }, [rowHeight]);
  const first = Math.min(span[0], Math.max(0, count - 1));
  const last = Math.min(span[1], count);
  useEffect(() => {
    if (last >= count - 1) onEnd?.();
  }, [last, count]);
  const rows = [];
  for (let index = first; index < last; index++)
    rows.push(
      <div class="vrow" role="row" aria-rowindex={index + 2} key={index} style={{ top: `${index * rowHeight}px`, height: `${rowHeight}px` }}>
        {row(index)}
      </div>,
    );
  return (
    <div class="vtable" role="table" aria-label={label} aria-rowcount={count + 1}>
      <div role="rowgroup" class="vhead">
        <div role="row" aria-rowindex={1} class="vrow-head">
          {columns}
        </div>
      </div>
      <div class="vbox" ref={box} tabIndex={0} role="rowgroup" aria-label={`${label}: rows`}>
        <div class="vspace" role="presentation" style={{ height: `${count * rowHeight}px` }}>
          {rows}
        </div>
      </div>
    </div>
  );
};
