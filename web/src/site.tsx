import { render } from "preact";
render(<p />, document.getElementById("app")!);
