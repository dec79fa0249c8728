import { defineConfig } from "vite";

// The daemon's admin listener, for "npm run dev" beside a running daemon.
const daemon = process.env.LMWARDEN_URL ?? "http://127.0.0.1:8001";

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  server: { proxy: { "^/lmwarden\\.v1\\.": daemon } },
  build: {
    target: "es2022",
    // Small files stay files: the page's policy allows no inline data but images.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
});
