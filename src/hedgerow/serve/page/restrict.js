/** Which labels may be answered: some labels, what is below them in the vocabulary, or one of its schemes. */

import { picker } from "./picker.js";
import { counted, named } from "./words.js";

const { html } = Dom;
const OF_LABELS = { only: "only this label", exclude: "not this label" };
const OF_SUBTREES = { only_subtree: "only this and what is below", exclude_subtree: "not this nor what is below" };

/** Fills the place for it; `request()` is what a question says of it, `chosen()` whether it says anything. */
export function restriction(model) {
  const place = document.getElementById("restrict");
  const title = place.querySelector("summary");
  const list = html("ul", { class: "restricted", "aria-label": "Labels that are chosen" });
  const scheme = html("select", { id: "restrict-scheme", change: said });
  const schemes = html("p", { class: "restrict-scheme" }, html("label", { for: "restrict-scheme" }, "Scheme"), scheme);
  const find = picker(add, () => title.focus(), {
    id: "restrict-picker", prompt: "Choose a label …", words: "Choose a label: type a part of its name", known: true,
  });
  const kinds = new Map(); // what was chosen for each label: an element for the kind, by the label
  place.replaceChildren(title, html("div", { class: "restrict-body" }, find.made, list, schemes));

  /** The model may be another one than before. */
  function fit() {
    const before = scheme.value;
    const option = (value, words) => html("option", { value }, words);
    scheme.replaceChildren(option("", "all schemes"), ...(model.schemes ?? []).map((one) => option(one, one)));
    scheme.value = (model.schemes ?? []).includes(before) ? before : "";
    schemes.hidden = !model.schemes?.length;
    said();
  }

  function add(label, name) {
    if (!kinds.has(label)) {
      // A term above others is more often meant with them.
      const offered = model.hierarchy ? { ...OF_SUBTREES, ...OF_LABELS } : OF_LABELS;
      const shown = named(label, name);
      const options = Object.entries(offered).map(([value, words]) => html("option", { value }, words));
      const kind = html("select", { "aria-label": `What is meant by ${shown.textContent}`, change: said }, ...options);
      const remove = () => {
        kinds.delete(label);
        row.remove();
        said();
        find.focus();
      };
      const button = html("button", { type: "button", class: "more", "aria-label": `Remove ${shown.textContent}`, click: remove }, "Remove");
      const row = html("li", {}, shown, kind, button);
      kinds.set(label, kind);
      list.append(row);
    }
    said();
    kinds.get(label).focus();
  }

  function said() {
    const number = kinds.size + (scheme.value ? 1 : 0);
    title.textContent = number ? `Answer only some labels (${counted(number, "choice")})` : "Answer only some labels";
  }

  function request() {
    const wanted = {};
    for (const [label, { value }] of kinds) (wanted[value] ??= []).push(value.endsWith("subtree") ? String(label) : label);
    if (scheme.value) wanted.only_scheme = [scheme.value];
    return wanted;
  }

  fit();
  return { fit, request, chosen: () => kinds.size > 0 || scheme.value !== "" };
}
