/** Light or dark: the system's choice until the reader makes one, which localStorage keeps. */
import { computed, signal } from "@preact/signals";

export type Theme = "light" | "dark";

const KEY = "lmwarden-theme";

const systemDark = matchMedia("(prefers-color-scheme: dark)");
const system = signal<Theme>(systemDark.matches ? "dark" : "light");
const chosen = signal<Theme | undefined>(stored());

/** The theme in force. */
export const theme = computed<Theme>(() => chosen.value ?? system.value);

function stored(): Theme | undefined {
  const value = localStorage.getItem(KEY);
  return value === "light" || value === "dark" ? value : undefined;
}

/** Chooses the other theme and keeps the choice. */
export function toggleTheme(): void {
  chosen.value = theme.value === "dark" ? "light" : "dark";
  localStorage.setItem(KEY, chosen.value);
}

/** Puts the theme on the document and follows the system from now on. */
export function startTheme(): void {
  systemDark.addEventListener("change", (e) => {
    system.value = e.matches ? "dark" : "light";
  });
  theme.subscribe((value) => {
    document.documentElement.dataset.theme = value;
  });
}
