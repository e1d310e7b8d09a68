/** Broader terms that can be accepted where labels are too unsure, with the labels that can be accepted beside them. */

import { post } from "./api.js";
import { inLanguage } from "./language.js";
import { row } from "./found.js";

const { html } = Dom;
const PAUSE = 150; // ms without another share, before the server is asked

/**
 * A section that asks when it is opened, and again for another share of wrong ones; `input` is the question without
 * what to decide.
 *
 * Labels and broader terms have one guarantee together, so that fewer labels can be accepted than without these terms.
 */
export function broaderSection(input) {
  const list = html("ul", { class: "group-list" });
  const words = html("p", { class: "fine", role: "status" });
  const made = html(
    "details",
    { class: "group accept broader", id: "broader", toggle: ask },
    html("summary", {}, "Also accept broader terms"),
    words,
    list,
  );
  let share = null;
  let shown = null;
  let waiting = null;

  async function ask() {
    if (!made.open || share === null || share === shown) return;
    const mine = share;
    shown = mine;
    try {
      const decide = { wrong_at_most: mine / 100, broader: true };
      const said = await post("predict", { ...input, k: 1, ...inLanguage(), decide, uncertainty: true, votes: true });
      if (mine !== share) return;
      const [found] = said.results;
      const labels = found.labels.filter(({ decision }) => decision === "accept");
      const terms = found.broader.map((one) => ({ ...one, votes: [] }));
      list.replaceChildren(...[...terms, ...labels].map((one) => row(one, null)));
      const nothing = terms.length + labels.length ? "" : "Nothing can be accepted. ";
      words.textContent = `${nothing}${said.guarantees.map((one) => one.words).join(" ")}`;
    } catch (error) {
      shown = null;
      list.replaceChildren();
      words.textContent = error.message;
    }
  }

  /** Show it for a share of wrong ones, in percent. */
  function at(percent) {
    share = percent;
    clearTimeout(waiting);
    waiting = setTimeout(ask, PAUSE);
  }
  return { made, at };
}
