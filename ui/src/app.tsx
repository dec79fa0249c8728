/** The frame of the page: navigation, the stream, the pages. */

import { useEffect, useRef } from "preact/hooks";
import { ErrorBoundary, LocationProvider, Route, Router, useLocation } from "preact-iso";
import { problem } from "./api/errors";
import { signOut, token, tokenWanted } from "./api/token";
import { type Wanted, watch } from "./api/watch";
import { secondsSince, span } from "./lib/format";
import { Compare } from "./pages/Compare";
import { Connect } from "./pages/Connect";
import { Conversations } from "./pages/Conversations";
import { Events } from "./pages/Events";
import { Gpus } from "./pages/Gpus";
import { Keys } from "./pages/Keys";
import { ModelPage } from "./pages/Model";
import { Models } from "./pages/Models";
import { NotFound } from "./pages/NotFound";
import { Overview } from "./pages/Overview";
import { ReplicaPage } from "./pages/Replica";
import { RequestPage } from "./pages/Request";
import { Requests } from "./pages/Requests";
import { Settings } from "./pages/Settings";
import { SignIn } from "./pages/SignIn";
import { forgetModel, info, link, linked, now, receive, stale } from "./store";
import { theme, toggleTheme } from "./theme";

/** The pages in the navigation, in order. Only what exists is linked. */
const pages = [
  { path: "/", name: "Overview" },
  { path: "/models", name: "Models" },
  { path: "/conversations", name: "Conversations" },
  { path: "/requests", name: "Requests" },
  { path: "/compare", name: "Compare" },
  { path: "/gpus", name: "GPUs" },
  { path: "/keys", name: "Keys" },
  { path: "/connect", name: "Connect" },
  { path: "/events", name: "Events" },
  { path: "/settings", name: "Settings" },
];

/** Everything. */
export function App() {
  return (
    <LocationProvider>
      <Frame />
    </LocationProvider>
  );
}

/** What the stream should carry for a path: figures of one model on its page, of all on the overview. */
export function wantedFor(path: string): Wanted {
  const all: Wanted = { models: true, gpus: true, events: true };
  const name = /^\/models\/([^/]+)\/?$/.exec(path)?.[1];
  if (name !== undefined) {
    const model = decodeURIComponent(name);
    return { ...all, routing: model, stats: model };
  }
  return path === "/" ? { ...all, stats: "" } : all;
}

function useStream(path: string): void {
  const wanted = wantedFor(path);
  const key = JSON.stringify(wanted);
  const refused = tokenWanted.value;
  useEffect(() => {
    if (refused) return;
    const stop = new AbortController();
    forgetModel();
    void watch(JSON.parse(key) as Wanted, { part: receive, link: linked }, stop.signal);
    return () => stop.abort();
  }, [key, refused]);
}

function Frame() {
  const { path } = useLocation();
  useStream(path);
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  // focus moves to the content when the page changes, as after a load.
  useEffect(() => {
    if (!first.current) {
      main.current?.focus();
      scrollTo(0, 0);
    }
    first.current = false;
  }, [path]);
  return (
    <div class="frame">
      <Navigation path={path} />
      <main id="main" ref={main} tabIndex={-1}>
        {tokenWanted.value ? <SignIn /> : <Pages />}
      </main>
    </div>
  );
}

function Pages() {
  return (
    <>
      <LinkBanner />
      <ErrorBoundary>
        <Router>
          <Route path="/" component={Overview} />
          <Route path="/models" component={Models} />
          <Route path="/models/:name" component={ModelPage} />
          <Route path="/models/:name/replicas/:index" component={ReplicaPage} />
          <Route path="/conversations" component={Conversations} />
          <Route path="/requests" component={Requests} />
          <Route path="/requests/:id" component={RequestPage} />
          <Route path="/compare" component={Compare} />
          <Route path="/gpus" component={Gpus} />
          <Route path="/keys" component={Keys} />
          <Route path="/connect" component={Connect} />
          <Route path="/events" component={Events} />
          <Route path="/settings" component={Settings} />
          <Route default component={NotFound} />
        </Router>
      </ErrorBoundary>
    </>
  );
}

/** Says that the daemon is out of reach, once that is more than a hiccup. */
function LinkBanner() {
  const state = link.value;
  if (state.state !== "lost" || !(stale.value || info.value === undefined)) return null;
  return (
    <p class="banner" role="status">
      {problem(state.error).sentence}
    </p>
  );
}

function Navigation({ path }: { path: string }) {
  const nav = useRef<HTMLElement>(null);
  // On a narrow screen the pages are a strip: the one that is open must be seen in it.
  useEffect(() => {
    const open = nav.current?.querySelector<HTMLElement>('[aria-current="page"]');
    if (nav.current === null || !open) return;
    const { left, width } = open.getBoundingClientRect();
    const strip = nav.current.getBoundingClientRect();
    nav.current.scrollLeft += left + width / 2 - (strip.left + strip.width / 2);
  }, [path]);
  return (
    <nav aria-label="Pages" ref={nav}>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <div class="stay">
        <div class="brand">
          <Mark />
          LM Warden
        </div>
        {pages.map((page) => (
          <a key={page.path} href={page.path} aria-current={isCurrent(page.path, path) ? "page" : undefined}>
            {page.name}
          </a>
        ))}
        <Foot />
      </div>
    </nav>
  );
}

function isCurrent(page: string, path: string): boolean {
  return page === "/" ? path === "/" : path === page || path.startsWith(`${page}/`);
}

function Foot() {
  const facts = info.value;
  const up = secondsSince(facts?.started, now.value);
  const heard = link.value.state === "live" && !stale.value ? "live" : "not connected";
  return (
    <div class="foot">
      <div class="facts">
        {facts && [facts.hostname, facts.cards].filter((part) => part !== "").join(" · ")}
        <br />
        {up === undefined ? heard : `up ${span(up)} · ${heard}`}
      </div>
      <button type="button" class="plain" onClick={toggleTheme}>
        {theme.value === "dark" ? "Light theme" : "Dark theme"}
      </button>
      {token() !== "" && (
        <>
          {" · "}
          <button
            type="button"
            class="plain"
            onClick={() => {
              signOut();
              location.reload();
            }}
          >
            Sign out
          </button>
        </>
      )}
    </div>
  );
}

function Mark() {
  return (
    <svg viewBox="0 0 20 20" aria-hidden="true">
      <path d="M3 3h6v6H3zM11 3h6v6h-6zM3 11h6v6H3z" fill="none" stroke="currentColor" stroke-width="1.6" />
      <rect x="11" y="11" width="6" height="6" fill="var(--accent)" />
    </svg>
  );
}
