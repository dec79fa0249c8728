/** Asks for the admin token when the API wants one. */
import { useState } from "preact/hooks";
import { signIn, token } from "../api/token";
import { Panel } from "../parts/Panel";

/** The sign-in panel. */
export function SignIn() {
  const [text, setText] = useState("");
  const refused = token() !== "";
  return (
    <>
      <div class="top">
        <h1>Sign in</h1>
      </div>
      <p class="verdict">
        {refused ? "The daemon does not know this token." : "This daemon wants an admin token."} It was
        printed once, when the daemon first started, and lies in its data directory, readable by its owner
        only.
      </p>
      <Panel title="Admin token">
        <form
          class="stack"
          onSubmit={(e) => {
            e.preventDefault();
            if (text.trim() !== "") signIn(text);
          }}
        >
          <label class="hidden" for="token">
            Admin token
          </label>
          <input
            id="token"
            type="password"
            autocomplete="off"
            value={text}
            onInput={(e) => setText(e.currentTarget.value)}
          />
          <div class="actions">
            <small class="grow">kept in this tab until it is closed</small>
            <button type="submit" class="primary" disabled={text.trim() === ""}>
              Sign in
            </button>
          </div>
        </form>
      </Panel>
    </>
  );
}
