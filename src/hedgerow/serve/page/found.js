/** Labels as rows: a bar with the members' votes as dots, and what kind of doubt there is. */

import { named, percent } from "./words.js";
import { why } from "./why.js";

const { html } = Dom;
const VISIBLE = 0.02; // votes that lie 14 points around their mean

/** The bar with dots and the probability. */
export const strip = (found) => Votes.strip({ ...found, votes: found.votes ?? [] });

/** The kind of doubt, as Votes tells it; "both" where the votes differ so much that one can see it. */
export function kindOf(found) {
  const told = Votes.doubt(found);
  if (told.kind !== "data" || found.variance < VISIBLE) return told;
  return { kind: "both", words: "the text is ambiguous, and the members differ" };
}

/** The kind of doubt, drawn and in words. */
export function doubt(found) {
  const { kind, words } = kindOf(found);
  return html("span", { class: `doubt ${kind}` }, Votes.parts(found), html("span", {}, words));
}

/** One label of an answer; `text` is null where nothing can be explained. */
export function row(found, text) {
  const asked = text === null ? null : why(text, found.label);
  return html(
    "li",
    { class: "found" },
    html("span", { class: "found-name" }, named(found.label)),
    strip(found),
    html("span", { class: "probability" }, percent(found.probability)),
    doubt(found),
    asked?.button ?? null,
    asked?.place ?? null,
  );
}

/** What the pictures mean. */
export function key(members) {
  const sample = { probability: 0.55, votes: members > 1 ? [0.3, 0.38, 0.5, 0.52, 0.62, 0.7, 0.8] : [] };
  const item = (...parts) => html("span", { class: "key-item" }, ...parts);
  const kind = (name, title, words) => item(Votes.part(name, 16), html("span", {}, html("b", {}, title), words));
  const bar =
    members > 1
      ? "The model is a panel of members. A dot is how probable one of them finds the label, from 0 to 100 %; the bar is their mean."
      : "The bar is how probable the model finds the label, from 0 to 100 %.";
  return html(
    "div",
    { class: "key" },
    item(Votes.strip(sample), bar),
    kind(
      "data",
      "The text leaves it open.",
      " Another reader could not be sure either. More training would not help; more of the text might.",
    ),
    kind(
      "knowledge",
      "The model has seen too little.",
      " Its members contradict each other. Examples that you confirm would help.",
    ),
  );
}
