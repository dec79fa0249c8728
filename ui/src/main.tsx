/** Starts the page: theme, clock, then everything else. */
import { render } from "preact";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/map.css";
import "./styles/form.css";
import { App } from "./app";
import { now } from "./store";
import { startTheme } from "./theme";

async function start(): Promise<void> {
  startTheme();
  // "npm run dev:fake": figures that move, without a daemon. A build drops this branch.
  if (import.meta.env.MODE === "fake") {
    const { fakeTransport } = await import("./dev/fake");
    const { useTransport } = await import("./api/transport");
    useTransport(fakeTransport(new URLSearchParams(location.search)));
  }
  setInterval(() => {
    now.value = Date.now();
  }, 1000);
  const root = document.getElementById("app");
  if (root !== null) render(<App />, root);
}

void start();
