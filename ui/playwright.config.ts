import { defineConfig } from "@playwright/test";

// The whole-product test starts the daemon and says where it is.
const url = process.env.LMWARDEN_URL;
if (url === undefined || url === "") {
  throw new Error(
    "LMWARDEN_URL is not set: run tests/page/run.sh, which starts the daemons and says where they are.",
  );
}

export default defineConfig({
  testDir: "tests",
  // One daemon behind all specs, and some of them change its settings.
  workers: 1,
  fullyParallel: false,
  forbidOnly: true,
  timeout: 90_000,
  expect: { timeout: 15_000 },
  reporter: "list",
  use: {
    baseURL: url,
    locale: "en-US",
    viewport: { width: 1360, height: 900 },
    screenshot: "only-on-failure",
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: [
        "--no-sandbox",
        "--disable-quic",
        "--disable-component-update",
        "--disable-background-networking",
        "--disable-sync",
      ],
    },
  },
});
