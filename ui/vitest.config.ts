import { defineConfig } from "vitest/config";

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  test: {
    environment: "happy-dom",
    include: ["src/**/*.test.{ts,tsx}"],
    // A busy machine is no fault: these end only what hangs.
    setupFiles: ["src/patience.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
