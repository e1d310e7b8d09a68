/** The token of a server that wants one: asked for once, kept as long as the tab is open. */

import { tell } from "./words.js";

const KEY = "hedgerow-token";
let kept = stored((storage) => storage.getItem(KEY));
let asking = null;

// Where storage is forbidden, the token lasts as long as the page.
function stored(act) {
  try {
    return act(window.sessionStorage);
  } catch {
    return null;
  }
}

export const token = () => kept;

/** Asks for another token than `refused`; calls that fail together ask once. */
export function newToken(refused) {
  if (kept !== refused) return Promise.resolve();
  asking ??= ask(refused !== null).finally(() => (asking = null));
  return asking;
}

function ask(wasWrong) {
  const dialog = document.getElementById("token");
  const input = document.getElementById("token-text");
  tell(document.getElementById("token-trouble"), wasWrong ? "The server does not accept this token." : null);
  input.value = "";
  return new Promise((resolve) => {
    // Without a token there is nothing to show, so Escape does not help.
    dialog.oncancel = (event) => event.preventDefault();
    document.getElementById("token-form").onsubmit = (event) => {
      event.preventDefault();
      kept = input.value.trim();
      stored((storage) => storage.setItem(KEY, kept));
      dialog.close();
      resolve();
    };
    if (!dialog.open) dialog.showModal();
    input.focus();
  });
}
