/** A component that is drawn anew only when one of its properties is another one. */
import { Component, type ComponentChild, type FunctionComponent, type JSX, h } from "preact";

export const memo = <P extends object>(inner: (props: P) => JSX.Element | null): FunctionComponent<P> => {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      const before = this.props as Record<string, unknown>;
      const after = next as Record<string, unknown>;
      for (const name in after) if (name !== "onOpen" && after[name] !== before[name]) return true;
      return false;
    }
    override render(): ComponentChild {
      return h(inner as FunctionComponent<P>, this.props);
    }
  }
  return Memo as unknown as FunctionComponent<P>;
};
