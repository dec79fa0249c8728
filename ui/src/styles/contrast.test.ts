// @vitest-environment node
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const sheet = readFileSync(new URL("./tokens.css", import.meta.url), "utf8");
const dark = sheet.slice(sheet.indexOf('[data-theme="dark"]'));
const light = sheet.slice(0, sheet.length - dark.length);

function value(theme: string, name: string): string {
  const found = new RegExp(`--${name}: (#[0-9a-f]+);`).exec(theme)?.[1];
  if (found === undefined) throw new Error(`no colour --${name}`);
  return found.length === 4 ? found.replace(/[0-9a-f]/g, "$&$&") : found;
}

function luminance(colour: string): number {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(theme: string, a: string, b: string): number {
  const [low = 0, high = 0] = [luminance(value(theme, a)), luminance(value(theme, b))].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

describe.each([
  ["light", light],
  ["dark", dark],
])("in the %s theme", (_, theme) => {
  it.each([
    ["text", "ground"],
    ["text", "surface"],
    ["muted", "ground"],
    ["muted", "surface"],
    ["faint", "surface"],
    ["accent", "surface"],
    ["accent", "ground"],
    ["on-accent", "accent"],
    ["text", "accent-soft"],
    ["good", "good-soft"],
    ["warn", "warn-soft"],
    ["warn", "surface"],
    ["bad", "bad-soft"],
    ["bad", "surface"],
  ])("%s is readable on %s", (text, ground) => {
    expect(contrast(theme, text, ground)).toBeGreaterThanOrEqual(4.5);
  });

  it.each(["cached", "computed", "completion", "busy", "bad", "good", "edge", "idle-edge", "shared"])(
    "the mark %s stands out from its panel",
    (mark) => {
      expect(contrast(theme, mark, "surface")).toBeGreaterThanOrEqual(3);
    },
  );
});
