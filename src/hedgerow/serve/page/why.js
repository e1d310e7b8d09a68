/** Why a label: the words of the text that made it more or less probable. */

import { post } from "./api.js";
import { inLanguage } from "./language.js";
import { called, joined, tell, unseen } from "./words.js";

const { html } = Dom;
const TOP = 8;
const SHORT_TEXT = 700; // a longer text scrolls in a box of its own
const MOST = 1000;
const LEAST = 0.02; // an effect of 2 % or less means nothing

let made = 0;

/** A button and the place it opens; the server is asked when it is opened first. */
export function why(text, { label, name }) {
  const id = `why-${++made}`;
  const place = html("div", { class: "why-words", id, hidden: true });
  let asked = false;
  const button = html(
    "button",
    { type: "button", class: "more why-button", "aria-expanded": "false", "aria-controls": id, click: turn },
    "Why?",
    unseen(` ${called(label, name).slice(0, 200)}`),
  );

  async function turn() {
    place.hidden = !place.hidden;
    button.setAttribute("aria-expanded", String(!place.hidden));
    if (asked) return;
    asked = true;
    try {
      place.replaceChildren(...drawn(text, await post("explain", { text, label, top: TOP, ...inLanguage() })));
    } catch (error) {
      asked = false;
      const trouble = html("p", { class: "trouble", role: "alert" });
      place.replaceChildren(trouble);
      tell(trouble, error.message);
    }
  }
  return { button, place };
}

function drawn(text, { speaks_for, speaks_against, judge, names, sentences }) {
  const [pro, contra] = [speaks_for, speaks_against].map((words) => words.filter(({ effect }) => Math.abs(effect) > LEAST));
  const largest = Math.max(...[...pro, ...contra].map(({ effect }) => Math.abs(effect)), 0.1);
  const side = (title, words, kind) =>
    html(
      "div",
      { class: `side ${kind}` },
      html("h4", {}, title),
      words.length ? html("ul", {}, ...words.map((word) => weighed(word, largest))) : html("p", { class: "none" }, "No single word."),
    );
  const disputed = [...pro, ...contra].some(isDisputed);
  return [
    judge || names ? html("ul", { class: "judged" }, ...sentences.map((one) => html("li", {}, one))) : null,
    html(
      "div",
      { class: "sides" },
      side("Made it more probable", pro, "for"),
      side("Made it less probable", contra, "against"),
    ),
    marked(joined(text), pro, contra),
    html(
      "p",
      { class: "fine" },
      "Beside each word: how much more or less probable the label is than without the word, on average over the members.",
      ...(names ? [" What names of labels do is left out of this."] : []),
      ...(disputed ? [" ", html("span", { class: "split", "aria-hidden": "true" }), " marks words on which the members disagree."] : []),
    ),
  ].filter(Boolean);
}

const isDisputed = ({ effect, disagreement }) => disagreement > Math.abs(effect);

function weighed(found, largest) {
  const { word, field, effect } = found;
  const disputed = isDisputed(found) ? [html("span", { class: "split" }), unseen(" (the members disagree)")] : [];
  const bar = html("span", { class: "weight", "aria-hidden": "true" }, html("span"));
  bar.firstChild.style.width = `${Math.max(3, (100 * Math.abs(effect)) / largest)}%`;
  return html(
    "li",
    {},
    html("bdi", { class: "word" }, String(word), field ? html("span", { class: "hint" }, ` ${field}`) : null),
    bar,
    html("span", { class: "times" }, times(effect), ...disputed),
  );
}

/** The text with these words marked where they stand. */
function marked(text, pro, contra) {
  // Words with the same stem come with a slash between them.
  const spellings = (words, side) => words.flatMap(({ word }) => String(word).split("/").map((one) => [spelled(one), side]));
  const sides = new Map([...spellings(pro, "for"), ...spellings(contra, "against")].filter(([word]) => word));
  const box = text.length > SHORT_TEXT ? { tabindex: 0, role: "region", "aria-label": "The text with these words marked" } : {};
  const passage = html("p", { class: "text marked", dir: "auto", ...box });
  if (!sides.size) return null;
  // Pairs of words before the single ones; between two words may stand what is no word.
  const wanted = [...sides.keys()].sort((a, b) => b.length - a.length).map((word) => word.split(" ").map(escaped).join(GAP));
  const found = new RegExp(`(?<!${LETTER})(?:${wanted.join("|")})(?!${LETTER})`, "giu");
  let end = 0;
  for (const match of text.matchAll(found)) {
    passage.append(text.slice(end, match.index), html("mark", { class: sides.get(spelled(match[0])) ?? "for" }, match[0]));
    end = match.index + match[0].length;
  }
  passage.append(text.slice(end));
  return passage;
}

const LETTER = "[\\p{L}\\p{N}]";
const GAP = "[^\\p{L}\\p{N}]{1,5}";
const spelled = (word) => String(word).toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();
const escaped = (word) => word.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");

/** An effect is the change of a logarithm, so its exponential is a factor. */
function times(effect) {
  const factor = Math.exp(Math.abs(effect));
  const direction = effect > 0 ? "more" : "less";
  if (factor > MOST) return `over 1,000 times ${direction}`;
  if (factor >= 9.95) return `${Math.round(factor).toLocaleString("en")} times ${direction}`;
  if (factor >= 1.995) return `${factor.toFixed(1)} times ${direction}`;
  return `${Math.max(1, Math.round(100 * (effect > 0 ? factor - 1 : 1 - 1 / factor)))} % ${direction}`;
}
