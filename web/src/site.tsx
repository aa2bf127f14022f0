import { render } from "preact";
render(<h1>InterIntent</h1>, document.getElementById("app")!);
