/** Labels as rows: a bar with the members' votes as dots, and the kind of uncertainty. */

import { named, percent } from "./words.js";
import { why } from "./why.js";

const { html } = Dom;
const VISIBLE = 0.02; // votes that lie 14 points around their mean

/** The bar with dots and the probability. */
export const strip = (found) => Votes.strip({ ...found, votes: found.votes ?? [] });

/** The kind of uncertainty, as Votes has it; "both" where the votes also differ visibly. */
export function kindOf(found) {
  const one = Votes.uncertainty(found);
  if (one.kind !== "data" || found.variance < VISIBLE) return one;
  return { kind: "both", words: "data and knowledge uncertainty: could be right or wrong, and the members disagree" };
}

/** The kind of uncertainty, drawn and in words. */
export function uncertainty(found) {
  const { kind, words } = kindOf(found);
  return html("span", { class: `uncertainty ${kind}` }, Votes.parts(found), html("span", {}, words));
}

/** One label of an answer; `text` is null where nothing can be explained. */
export function row(found, text) {
  const asked = text === null ? null : why(text, found);
  return html(
    "li",
    { class: "found" },
    html("span", { class: "found-name" }, named(found.label, found.name)),
    strip(found),
    html("span", { class: "probability" }, percent(found.probability)),
    uncertainty(found),
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
      ? "The model is an ensemble of members. Each dot is the probability that one member gives, from 0 to 100 %; the bar is their mean."
      : "The bar is the probability of the label, from 0 to 100 %.";
  return html(
    "div",
    { class: "key" },
    item(Votes.strip(sample), bar),
    kind(
      "data",
      "Data (aleatoric) uncertainty:",
      " each member is unsure by itself: the text may leave it open, or no member has learned enough.",
    ),
    kind(
      "knowledge",
      "Knowledge (epistemic) uncertainty:",
      members > 1
        ? " the members disagree. Each learned from another part of the training data, or in another way."
        : " the label is proposed by its name alone: no training text has it. Texts that you review help.",
    ),
  );
}
