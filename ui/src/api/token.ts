/**
 * The admin token of this tab. It lives in sessionStorage, so that closing the tab
 * forgets it, and goes out only as a Bearer header.
 */
import { signal } from "@preact/signals";

const KEY = "lmwarden-token";

/** True while the API refuses calls for want of a valid token. */
export const tokenWanted = signal(false);

/** Returns the token, or an empty string when none was entered. */
export function token(): string {
  return sessionStorage.getItem(KEY) ?? "";
}

/** Keeps a token for this tab and lets calls go out again. */
export function signIn(value: string): void {
  sessionStorage.setItem(KEY, value.trim());
  tokenWanted.value = false;
}

/** Forgets the token; the next refused call asks for one. */
export function signOut(): void {
  sessionStorage.removeItem(KEY);
}
