/** The title of the browser's tab. */
import { useEffect } from "preact/hooks";

/** Names the page in the tab while it is shown. */
export function useTitle(name: string): void {
  useEffect(() => {
    document.title = name === "" ? "LM Warden" : `${name} · LM Warden`;
  }, [name]);
}
