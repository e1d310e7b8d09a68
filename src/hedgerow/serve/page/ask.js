/** The page where a person pastes a text and sees its labels. */

import { get, post } from "./api.js";
import { broaderSection } from "./broader.js";
import { DECISIONS, decide, mostListed } from "./decisions.js";
import { key, kindOf, row } from "./found.js";
import { goalPanel } from "./goals.js";
import { chooseLanguage, inLanguage } from "./language.js";
import { restriction } from "./restrict.js";
import { called, counted, listed, percent, sentence, tell, whole } from "./words.js";

const { html, shortened, svg } = Dom;
const FEW = 15;
const MANY = 50;
const AT_ONCE = 500; // further labels of a list
const TRIES = 3;
const WHOLE = 1e-9; // by which whole numbers may be off
const GROUPS = {
  accept: { title: "Accept", words: "take these as they are", more: "more to accept", shown: FEW },
  review: { title: "Review", words: "the model defers to a human", more: "more to review", shown: FEW },
  reject: { title: "Reject", words: "leave these out", more: "more that are rejected", shown: 5 },
};

/** Brings the page to life; `queued()` is called when a text went into the review queue. */
export function askPage(model, queued) {
  const form = document.getElementById("ask-form");
  const box = document.getElementById("text");
  const answer = document.getElementById("answer");
  const own = document.getElementById("text-id");
  const trouble = document.getElementById("ask-trouble");
  const remembered = {};
  const allowed = restriction(model);
  let boxes = fieldBoxes(model.fields, box);
  let asked = reads(model);
  let latest = 0;

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask(FEW);
  });
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !boxes.includes(event.target)) return;
    event.preventDefault();
    ask(FEW);
  });
  document.getElementById("suggest").disabled = false;
  if (model.texts) examples();
  else forFeatures();

  /** Where the model was replaced by one that reads other texts: boxes for these, with what was written. */
  function changed(before) {
    if (reads(model) === asked) return;
    asked = reads(model);
    const named = Object.fromEntries((before ?? [""]).map((name, i) => [name, boxes[i].value]));
    boxes = fieldBoxes(model.fields, box);
    const kept = model.fields ?? [""];
    for (const [i, name] of kept.entries()) boxes[i].value = named[name] ?? "";
    const others = Object.keys(named).filter((name) => !kept.includes(name) && named[name]);
    box.value = [...others.map((name) => named[name]), box.value].filter(Boolean).join("\n");
    document.getElementById("ask-title").textContent = "Which labels fit this text?";
    if (!model.texts) forFeatures();
    document.getElementById("text-id-label").hidden = !model.texts;
    const what = !model.texts ? "features" : model.fields ? `these texts: ${model.fields.join(", ")}` : "one text";
    throw new Error(`Another model is served now. It reads ${what}. Check what is in the form, and ask again.`);
  }

  function forFeatures() {
    document.getElementById("text-id-label").hidden = true;
    document.getElementById("ask-title").textContent = "Which labels fit these features?";
    document.getElementById("text-label").textContent = "Features";
    box.placeholder = "column:value, such as 12:0.5 90:1";
    box.dir = "ltr";
  }

  async function examples() {
    let found;
    try {
      found = (await get("examples")).examples;
    } catch {
      return; // The page works without them.
    }
    const example = ({ text, about }) => {
      const take = () => {
        for (const one of boxes) one.value = one === box ? text : "";
        own.value = "";
        ask(FEW);
      };
      const words = [html("b", {}, sentence(about)), html("span", { dir: "auto" }, shortened(text, 90))];
      return html("li", {}, html("button", { type: "button", class: "example", click: take }, ...words));
    };
    document.getElementById("example-list").replaceChildren(...found.map(example));
    document.getElementById("examples").hidden = found.length === 0;
  }

  async function ask(k) {
    const mine = ++latest;
    tell(trouble, null);
    const values = boxes.map(({ value }) => value.toWellFormed?.() ?? value);
    const text = model.fields ? Object.fromEntries(model.fields.map((name, i) => [name, values[i]])) : values[0];
    try {
      if (!values.some((value) => value.trim())) throw new Error(model.texts ? "Paste a text first." : "Give some features first.");
      const id = own.value.trim().toWellFormed?.() ?? own.value.trim();
      const input = model.texts ? { text, ...(id ? { id } : {}) } : { features: [parsed(values[0])] };
      answer.setAttribute("aria-busy", "true");
      Object.assign(input, allowed.request());
      const result = await predicted(input, k);
      if (mine === latest) show(text, result, k, input);
    } catch (error) {
      if (mine === latest) {
        tell(trouble, error.message);
        answer.hidden = true;
      }
    } finally {
      if (mine === latest) answer.removeAttribute("aria-busy");
    }
  }

  /** The answer of the model that the page knows; if it guarantees anything, with all labels that can be looked at. */
  async function predicted(input, k) {
    for (let tried = 0; tried < TRIES; tried++) {
      const fields = model.fields;
      const decided = model.policy ? { k: MANY, decide: { review_at_most: mostListed(model.policy) } } : { k };
      const before = model.id;
      try {
        const said = await post("predict", { ...input, ...decided, ...inLanguage(), uncertainty: true, votes: true });
        if (said.model === model.id) return { ...said.results[0], shift: said.shift };
        // Another has taken its place.
        await learn();
      } catch (error) {
        // Perhaps because the new one guarantees less, or reads other texts.
        if (error.status === 422) await learn();
        if (model.id === before) throw error;
      }
      changed(fields);
    }
    throw new Error("The model is being changed. Try again in a moment.");
  }

  async function learn() {
    Object.assign(model, await get("model"));
    chooseLanguage(model);
    allowed.fit();
  }

  function show(text, result, k, input) {
    const { labels } = result;
    const rowOf = (found) => row(found, model.texts ? text : null);
    const hasMore = !model.policy && k < MANY && labels.length === k && k < model.labels;
    // Labels that were not asked for are not rejected either.
    const some = Object.keys(input).some((name) => /^(only|exclude)/.test(name));
    const board = model.policy ? groups(labels, rowOf, some ? labels.length : model.labels) : plain(labels, rowOf);
    const broader = model.policy && model.broader ? broaderSection(input) : null;
    // The panel places the rows when it is made.
    const goals = model.policy ? goalPanel(model, result, remembered, moved) : null;
    answer.replaceChildren(
      ...[
        html("h3", { class: "answer-title", id: "answer-title", tabindex: -1 }, "Prediction"),
        oodBanner(result),
        shiftBanner(result),
        html("p", { class: "summary" }, ...summary(result)),
        quality(result),
        ...(goals ?? [uncalibrated()]),
        some ? html("p", { class: "fine", id: "restricted" }, someWords(model)) : null,
        broader?.made,
        board.made,
        html("div", { class: "after" }, hasMore ? moreButton() : null, model.texts ? queueButton(text, input.id) : null),
        key(model.members),
      ].filter(Boolean),
    );
    answer.hidden = false;
    document.getElementById("ask-status").textContent = spoken(result, board.spoken());
    if (answer.getBoundingClientRect().top > window.innerHeight * 0.75) answer.scrollIntoView();

    function moved(limits) {
      if (remembered.percent !== undefined) broader?.at(remembered.percent);
      return board.moved(limits);
    }
  }

  function moreButton() {
    return html("button", { type: "button", class: "more", click: () => ask(MANY) }, "Show less probable labels");
  }

  function queueButton(text, id) {
    const said = html("span", { class: "hint", role: "status" });
    const add = async () => {
      try {
        await post("queue", { texts: [text], ...(id ? { text_ids: [id] } : {}) });
        said.textContent = "Added to the review queue.";
        if (own.value.trim() === id) own.value = ""; // the next text is another
        queued();
      } catch (error) {
        said.textContent = error.message;
      }
    };
    const button = html("button", { type: "button", class: "more", click: add }, "Put this text into the review queue");
    return html("span", { class: "to-queue" }, button, said);
  }
}

/** What decides which boxes there are. */
const reads = ({ texts, fields }) => JSON.stringify([texts, fields]);

/** A box for each field of the model, or one for all; the one that is there is for the last of them. */
function fieldBoxes(fields, last) {
  const label = document.getElementById("text-label");
  for (const old of document.querySelectorAll(".of-field")) old.remove();
  last.dir = "auto";
  if (!fields) {
    label.textContent = "Your text";
    last.placeholder = "Paste a title, an abstract, a description …";
    return [last];
  }
  label.textContent = sentence(fields.at(-1));
  last.removeAttribute("placeholder");
  const others = fields.slice(0, -1).map((name, i) => {
    const made = last.cloneNode();
    made.id = `text-${i}`;
    made.rows = 2;
    made.classList.add("of-field");
    label.before(html("label", { class: "of-field", for: made.id }, sentence(name)), made);
    return made;
  });
  return [...others, last];
}

/** "12:0.5 90:1" as the server wants it. */
function parsed(text) {
  const pairs = text.trim().split(/[\s,]+/).map((pair) => {
    const found = /^(\d+):([-+]?[\d.]+(?:e[-+]?\d+)?)$/i.exec(pair);
    if (!found) throw new Error(`“${pair.slice(0, 40)}” is not column:value, such as 12:0.5.`);
    return [Number(found[1]), Number(found[2])];
  });
  pairs.sort((a, b) => a[0] - b[0]);
  return { indices: pairs.map(([column]) => column), values: pairs.map(([, value]) => value) };
}

function oodBanner({ ood }) {
  if (!ood?.is_ood) return null;
  return banner(
    "odd",
    html("b", {}, "This text is out-of-distribution (OOD): unlike the training data."),
    ` ${oneIn(ood.p_value)} in-distribution texts has an OOD score this high.`,
    " It may be in another language or about another field. Do not rely on the labels below; no guarantee holds.",
  );
}

/** Says, in the words of the server, that what it was asked is unlike what it was calibrated on. */
function shiftBanner({ shift }) {
  if (!shift) return null;
  return banner("shifted", html("b", {}, "What this server was asked has shifted."), ` ${shift}`);
}

function banner(name, ...words) {
  const sign = svg("svg", { class: "warning", viewBox: "0 0 24 24", "aria-hidden": "true" });
  sign.append(svg("path", { d: "M12,3L22.5,21H1.5ZM12,9.5V15M12,17.6V18.4" }));
  return html("div", { class: `banner ${name}`, role: "note" }, sign, html("p", {}, ...words));
}

function oneIn(p) {
  if (p < 0.001) return "Fewer than one in a thousand";
  return `Only about one in ${Math.round(1 / p).toLocaleString("en")}`;
}

/** How many of the best labels are expected to be right: "of the best five labels, about 3 are right (2 to 4)". */
function quality({ quality: expected, ood }) {
  if (!expected || ood?.is_ood) return null;
  const { k, confidence, precision, precision_low, precision_high } = expected;
  const about = Math.floor(k * precision + 0.5);
  const low = Math.min(about, Math.ceil(k * precision_low - WHOLE));
  const high = Math.max(about, Math.floor(k * precision_high + WHOLE));
  const best = k === 1 ? "the best label" : `the best ${counted(k, "label")}`;
  const range = ` For ${percent(confidence)} of inputs like those of its calibration, the number is in this range.`;
  return html(
    "p",
    { class: "summary quality" },
    `Of ${best}, about ${about} ${about === 1 ? "is" : "are"} right (${low} to ${high}).`,
    html("span", { class: "hint" }, range),
  );
}

function summary({ labels, input, ood }) {
  const reasons = {
    data: " that could be right or wrong (data uncertainty)",
    knowledge: " on which the members disagree (knowledge uncertainty)",
    both: " with both",
  };
  const open = Object.entries(reasons).flatMap(([kind, reason]) => {
    const number = labels.filter((found) => kindOf(found).kind === kind).length;
    return number ? [html("span", {}, html("b", {}, counted(number, "label")), reason)] : [];
  });
  const expected = Math.round(input.expected);
  const all =
    expected === 0
      ? "The model expects hardly any label."
      : `The model expects about ${counted(expected, "label")}.`;
  if (ood?.is_ood) return [all, " For an out-of-distribution text, the uncertainties below are not reliable either."];
  const [first] = labels;
  const none = !first || first.probability >= 0.5 ? "" : ` No label is more likely right than wrong: the most probable has ${percent(first.probability)}.`;
  if (open.length) return [all, none, " It is uncertain about ", ...listed(open), "."];
  return [all, none || (first ? " It is nearly sure of each label below, that it is right or that it is wrong." : "")];
}

function someWords({ policy }) {
  const guarantee = policy ? " The guarantee is about all labels together: of these alone, a larger share can be missed or wrong." : "";
  return `Only some labels were asked for.${guarantee}`;
}

function spoken({ labels, ood, shift }, decided) {
  const [first] = labels;
  const best = first ? ` The most probable is ${called(first.label, first.name).slice(0, 100)} with ${percent(first.probability)}.` : "";
  const warning = ood?.is_ood ? " Warning: this text is out-of-distribution (OOD)." : "";
  const unsupported = shift ? ` Warning: ${shift}` : "";
  return `${sentence(decided)}.${best}${warning}${unsupported}`;
}

function uncalibrated() {
  return html(
    "p",
    { class: "goals none" },
    "This model guarantees nothing, so it cannot sort labels into accept, review and reject: it is not calibrated for decisions, was calibrated by an older release, or its search has changed since. Calibrate it on held-out data with ",
    html("code", {}, "hedgerow calibrate"),
    ".",
  );
}

function plain(labels, rowOf) {
  const title = html("h4", { id: "group-all" }, "Labels, the most probable first");
  const list = html("ul", {}, ...labels.map(rowOf));
  const made = html("section", { class: "group", "aria-labelledby": "group-all" }, title, list);
  return { made, spoken: () => counted(labels.length, "label") };
}

/**
 * Three lists, of which the first labels are shown and the others on demand. `moved(limits)` puts every label where it
 * belongs, and gives how many of the model's labels are in each; `spoken()` says it.
 */
function groups(labels, rowOf, known) {
  const rows = new Map();
  const parts = DECISIONS.map((name) => group(GROUPS[name], name, (found) => rows.get(found) ?? keep(found)));
  const made = html("div", { class: "groups" }, ...parts.map((part) => part.made));
  const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  let sums = [];

  function keep(found) {
    rows.set(found, rowOf(found));
    return rows.get(found);
  }

  function moved(limits) {
    const seen = made.isConnected && !calm ? [...made.querySelectorAll(".found")] : [];
    const before = seen.map((one) => one.getBoundingClientRect().top);
    const wanted = Object.groupBy(labels, ({ probability }, rank) => decide(probability, rank, limits));
    const unlisted = known - labels.length; // no choice lists these
    sums = DECISIONS.map((name, i) => parts[i].set(wanted[name] ?? [], name === "reject" ? unlisted : 0));
    seen.forEach((one, i) => {
      const way = one.isConnected ? before[i] - one.getBoundingClientRect().top : 0;
      if (way) one.animate([{ transform: `translateY(${way}px)` }, { transform: "none" }], { duration: 220, easing: "ease-out" });
    });
    return sums;
  }
  return { made, moved, spoken: () => `${counted(sums[0], "label")} to accept, ${counted(sums[1], "label")} to review` };
}

/** One of the lists; `set(labels, unlisted)` fills it, and counts also those that the server did not list. */
function group({ title, words, more, shown }, name, rowOf) {
  const list = html("ul", { class: "group-list" });
  const sum = html("span", { class: "sum" });
  const button = html("button", { type: "button", class: "more", click: open });
  const others = html("span", { class: "hint" });
  const made = html(
    "section",
    { class: `group ${name}`, "aria-labelledby": `group-${name}` },
    html("h4", { id: `group-${name}` }, title, sum, html("span", { class: "group-words" }, words)),
    list,
    html("div", { class: "rest" }, button, others),
  );
  let held = [];

  function fill() {
    const wanted = held.slice(0, shown).map(rowOf);
    const there = list.children;
    const same = there.length === wanted.length && wanted.every((one, i) => there[i] === one);
    if (!same) list.replaceChildren(...wanted);
    button.textContent = `${whole(held.length - wanted.length)} ${more}`;
    button.hidden = held.length === wanted.length;
  }

  function open() {
    const first = shown;
    shown += AT_ONCE;
    fill();
    // The button may be gone, and what it showed comes before it.
    list.children[first].tabIndex = -1;
    list.children[first].focus();
  }

  function set(labels, unlisted) {
    held = labels;
    fill();
    const all = held.length + unlisted;
    sum.textContent = whole(all);
    made.classList.toggle("empty", all === 0);
    others.textContent = unlisted ? `${sentence(counted(unlisted, "other label"))} ${unlisted === 1 ? "is" : "are"} rejected, too.` : "";
    return all;
  }
  return { made, set };
}
