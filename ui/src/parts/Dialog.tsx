/** Dialogs: one that asks before something happens, and the frame of larger ones. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Fault } from "./Panel";

interface DialogProps {
  title: string;
  narrow?: boolean;
  onClose: () => void;
  children: ComponentChildren;
}

/** A modal dialog, open while it is rendered. Escape closes it, focus returns by itself. */
export function Dialog({ title, narrow, onClose, children }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    ref.current?.showModal();
  }, []);
  return (
    <dialog ref={ref} class={narrow ? "narrow" : ""} aria-label={title} onClose={onClose}>
      <div class="stack">
        <h2>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  /** What will happen, in a sentence or two. */
  children: ComponentChildren;
  /** The verb on the button. */
  verb: string;
  danger?: boolean;
  act: () => Promise<unknown>;
  onClose: () => void;
}

/** Asks, acts, and stays open with the API's sentence when the act is refused. */
export function Confirm({ title, children, verb, danger, act, onClose }: ConfirmProps) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const go = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await act();
      onClose();
    } catch (e) {
      setError(e);
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} narrow onClose={onClose}>
      <div>{children}</div>
      {error !== undefined && <Fault error={error} />}
      <div class="actions">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button type="button" class={danger ? "danger" : "primary"} disabled={busy} onClick={go}>
          {verb}
        </button>
      </div>
    </Dialog>
  );
}
