/** The review queue: one text after the other, the most informative first, all by keyboard if one likes. */

import { download, get, post } from "./api.js";
import { kindOf, strip, uncertainty } from "./found.js";
import { inLanguage } from "./language.js";
import { picker } from "./picker.js";
import { counted, joined, named, percent, sentence, tell, unseen, whole } from "./words.js";

const { html, shortened } = Dom;
const AGREED = 0.005; // nats of knowledge uncertainty
const AT_ONCE = 20;
const SENT_AT_ONCE = 32;
const SHORT_TEXT = 700;
const MOST_PROBABLE = 10; // and those on which the members disagree
const STATES = ["waiting", "confirmed", "corrected", "skipped"];

/**
 * Brings the page to life. `refresh()` counts again; `enter()` is called when the page is shown. `learning` is the panel
 * that says what can be learned.
 */
export function reviewPage(model, learning) {
  const desk = document.getElementById("desk");
  const trouble = document.getElementById("review-trouble");
  const status = document.getElementById("review-status");
  const save = document.getElementById("export");
  const names = new Map(); // of labels that the reviewer added
  let items = [];
  let answered = [];
  let shown = null;
  let busy = false;

  save.addEventListener("click", exportAll);
  document.getElementById("add-form").addEventListener("submit", addTexts);
  document.getElementById("new-file").addEventListener("change", addFile);

  async function refresh() {
    try {
      const counts = await get("queue/counts");
      const tile = (name) => html("div", {}, html("dt", {}, name), html("dd", {}, whole(counts[name])));
      document.getElementById("counts").replaceChildren(...STATES.map(tile));
      const badge = document.getElementById("badge");
      badge.replaceChildren(whole(counts.waiting), unseen(" waiting"));
      badge.hidden = counts.waiting === 0;
      save.disabled = counts.confirmed + counts.corrected === 0;
      return counts;
    } catch (error) {
      tell(trouble, error.message);
      return null;
    }
  }

  async function enter() {
    await refresh();
    if (shown === null) await next(false);
    await learning.refresh();
  }

  async function next(focus = true) {
    try {
      if (!items.length) items = (await get("queue", { limit: AT_ONCE, ...inLanguage() })).items;
      tell(trouble, null);
    } catch (error) {
      return tell(trouble, error.message);
    }
    open(items.shift() ?? null, null, focus);
  }

  function open(item, chosen, focus) {
    shown = item;
    desk.replaceChildren(item === null ? nothing() : card(item, chosen));
    if (item === null) document.getElementById("add-texts").open = true;
    if (focus) desk.firstChild.focus();
  }

  function nothing() {
    return html(
      "div",
      { class: "card empty-desk", tabindex: -1 },
      html("h3", {}, "Nothing waits for review"),
      html("p", { class: "why" }, "Add texts below, or send one here from the page Ask."),
      answered.length ? html("div", { class: "actions" }, pale("Back to the last text", back)) : null,
    );
  }

  /** Until the next text is shown, a further key or click is meant for none. */
  async function answer(item, state, labels) {
    if (busy) return;
    busy = true;
    try {
      await post(`queue/${item.id}`, { state, labels });
      answered.push({ item, labels });
      learning.refreshSoon();
      const counts = await refresh();
      status.textContent = `${sentence(state)}. ${counts ? `${sentence(counted(counts.waiting, "text"))} left.` : ""}`;
      await next();
    } catch (error) {
      tell(trouble, error.message);
    } finally {
      busy = false;
    }
  }

  function back() {
    if (busy) return;
    const last = answered.pop();
    if (!last) return;
    if (shown !== null) items.unshift(shown);
    open(last.item, last.labels, true);
    status.textContent = "The last text again.";
  }

  /* One text */

  function card(item, chosen) {
    const { ood } = item.prediction;
    const labels = item.prediction.labels.filter((found, i) => i < MOST_PROBABLE || isDisputed(found));
    // At first, what is more probable than not is ticked.
    const proposed = new Set(labels.filter(({ probability }) => probability >= 0.5).map(({ label }) => label));
    const choices = new Map();
    const list = html("ul", { class: "choices" });
    const empty = html("p", { class: "trouble", role: "alert", hidden: true });
    const confirm = html("button", { class: "primary" });
    const find = picker(add, () => made.focus());
    let sure = false;

    function choice(label, found, ticked) {
      const number = choices.size + 1;
      const tick = html("input", { type: "checkbox", change: changed });
      tick.checked = ticked;
      choices.set(label, tick);
      list.append(
        html(
          "li",
          { class: "choice" },
          html("label", {}, tick, number <= 10 ? key(number % 10) : null, named(label, found ? found.name : names.get(label))),
          found ? strip(found) : html("span", { class: "hint" }, "added by you"),
          html("span", { class: "probability" }, found ? percent(found.probability) : ""),
          found && isOpen(found) ? uncertainty(found) : null,
        ),
      );
    }

    function add(label, name) {
      names.set(label, name ?? null);
      if (choices.has(label)) choices.get(label).checked = true;
      else choice(label, null, true);
      choices.get(label).focus();
      changed();
    }

    const ticked = () => [...choices].filter(([, tick]) => tick.checked).map(([label]) => label);
    const isCorrected = () => {
      const now = ticked();
      return now.length !== proposed.size || now.some((label) => !proposed.has(label));
    };

    function changed() {
      sure = false;
      tell(empty, null);
      confirm.replaceChildren(isCorrected() ? "Save the correction" : "Confirm", key("Enter"));
    }

    function keep(event) {
      event?.preventDefault();
      const now = ticked();
      if (!now.length && !sure) {
        sure = true;
        return tell(empty, "No label is ticked. Press Enter again if the text has none, or S to skip it.");
      }
      answer(item, isCorrected() ? "corrected" : "confirmed", now);
    }
    const skip = () => answer(item, "skipped", []);

    function command(event) {
      if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
      const pressed = event.key.toLowerCase();
      const tick = /^\d$/.test(pressed) ? [...choices.values()][(Number(pressed) + 9) % 10] : null;
      let act;
      if (tick) act = () => turn(tick);
      else if (pressed === "enter" && (event.repeat || !event.target.closest("button, summary, a"))) act = keep;
      else if (pressed === "s") act = skip;
      else if (pressed === "b" && answered.length) act = back;
      else if (pressed === "/" || pressed === "a") act = find.focus;
      else return;
      event.preventDefault();
      if (!event.repeat) act(); // a key that is held down counts once
    }

    function turn(tick) {
      tick.checked = !tick.checked;
      tick.focus();
      changed();
    }

    for (const found of labels) choice(found.label, found, chosen ? chosen.includes(found.label) : proposed.has(found.label));
    for (const label of chosen ?? []) if (!choices.has(label)) choice(label, null, true);
    changed();
    const made = html(
      "article",
      { class: "card desk", tabindex: -1, "aria-labelledby": "item-title", "aria-describedby": "item-text", keydown: command },
      html(
        "div",
        { class: "desk-text" },
        html("h3", { id: "item-title" }, `Text ${item.id}`, ...ownId(item)),
        html("p", { class: "why" }, ...reason(labels)),
        ood?.is_ood ? html("p", { class: "ood" }, "This text is out-of-distribution (OOD): unlike the training data.") : null,
        passage(joined(item.text)),
      ),
      html(
        "form",
        { class: "desk-labels", submit: keep },
        html(
          "fieldset",
          {},
          html("legend", {}, "Which labels fit?"),
          html("p", { class: "hint" }, "Labels with a probability of at least 50 % are ticked."),
          list,
        ),
        find.made,
        empty,
        html(
          "div",
          { class: "actions" },
          confirm,
          pale("Skip", skip, "S"),
          answered.length ? pale("Back", back, "B") : null,
        ),
        html(
          "p",
          { class: "hint keys" },
          ...[html("kbd", {}, "1"), " to ", html("kbd", {}, "0"), " tick and untick, ", html("kbd", {}, "/"), " finds another label."],
          " Keys work while this text has the focus.",
        ),
      ),
    );
    return made;
  }

  /* In and out */

  async function exportAll() {
    try {
      const url = URL.createObjectURL(await download("queue/export"));
      html("a", { href: url, download: "reviewed.jsonl" }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
    } catch (error) {
      tell(trouble, error.message);
    }
  }

  async function addTexts(event) {
    event.preventDefault();
    const box = document.getElementById("new-texts");
    if (await send(box.value.split("\n").map((text) => ({ text })))) box.value = "";
  }

  async function addFile(event) {
    const [file] = event.target.files;
    if (!file) return;
    try {
      await send(recordsOf(file.name, await utf8(file)));
    } catch (error) {
      tell(trouble, `${file.name} ${error.message}`);
    }
    event.target.value = "";
  }

  /** The texts of a file, each with its id if it has one. A .txt is one text, unless lines are asked for. */
  function recordsOf(name, content) {
    if (/\.jsonl$/i.test(name)) return content.split("\n").flatMap((line, i) => (line.trim() ? [recordOf(line, i + 1)] : []));
    const byLine = document.getElementById("by-line").checked;
    return (byLine ? content.split("\n") : [content]).map((text) => ({ text }));
  }

  function recordOf(line, number) {
    let record;
    try {
      record = JSON.parse(line);
      return { text: textsOf(record), id: idOf(record) };
    } catch (error) {
      const needed = (model.fields ?? ["text"]).join('" or "');
      const wrong =
        error instanceof BadId
          ? `has in line ${number} an id that is ${error.message}: give it as a string.`
          : `is not JSONL: every line must be an object with a field "${needed}".`;
      throw new Error(wrong, { cause: error });
    }
  }

  /** The text of a record, or those of the model's fields by name. */
  function textsOf(record) {
    const there = (model.fields ?? []).filter((name) => name in record);
    return there.length ? Object.fromEntries(there.map((name) => [name, String(record[name] ?? "")])) : String(record.text ?? "");
  }

  async function send(records) {
    const wellFormed = (text) => text.trim().toWellFormed?.() ?? text.trim();
    const cleaned = (one) =>
      typeof one === "string" ? wellFormed(one) : Object.fromEntries(Object.entries(one).map(([name, text]) => [name, wellFormed(text)]));
    const texts = records.map(({ text, id }) => ({ text: cleaned(text), id: id ?? null })).filter(({ text }) => joined(text));
    if (!texts.length) return tell(trouble, "There is no text to add.");
    try {
      for (let i = 0; i < texts.length; i += SENT_AT_ONCE) {
        const some = texts.slice(i, i + SENT_AT_ONCE);
        const ids = some.some(({ id }) => id !== null) ? { text_ids: some.map(({ id }) => id) } : {};
        await post("queue", { texts: some.map(({ text }) => text), ...ids });
      }
    } catch (error) {
      tell(trouble, error.message);
      return false;
    }
    tell(trouble, null);
    status.textContent = `${sentence(counted(texts.length, "text"))} added.`;
    // What is new may be more informative than what was fetched.
    items = [];
    await refresh();
    if (shown === null) await next();
    return true;
  }

  return { refresh, enter };
}

class BadId extends Error {}

/** What a file says in UTF-8; another encoding is refused, since its letters would become others. */
async function utf8(file) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error("is not UTF-8. Convert it, and add it again.");
  }
}

/** The id of a record; large numbers would lose their last digits here. */
function idOf({ id }) {
  if (id === undefined || id === null || id === "") return null;
  if (typeof id === "string") return id;
  if (Number.isSafeInteger(id)) return String(id);
  throw new BadId(JSON.stringify(id).slice(0, 40));
}

const ownId = ({ text_id: id }) => (id ? [" ", html("span", { class: "hint" }, "id ", html("bdi", {}, shortened(id, 60)))] : []);

/** The key that does the same; screen readers hear of the keys below. */
const key = (name) => html("kbd", { "aria-hidden": "true" }, String(name));

const pale = (words, click, shortcut) =>
  html("button", { type: "button", class: "more", click }, words, shortcut ? key(shortcut) : null);

const isDisputed = (found) => ["knowledge", "both"].includes(kindOf(found).kind);
/** Whether the kind of uncertainty is worth a line: the members disagree, or it is near a coin toss. */
const isOpen = (found) => isDisputed(found) || found.total > 0.45;

function reason(labels) {
  const [most] = [...labels].sort((a, b) => b.knowledge - a.knowledge);
  const votes = most?.votes ?? [];
  if (votes.length < 2 || most.knowledge < AGREED) return ["The members agree on all labels."];
  const ends = [Math.min(...votes), Math.max(...votes)].map(percent);
  const words = `: they put its probability between ${ends[0]} and ${ends[1]}.`;
  return ["The members disagree most on ", html("b", {}, named(most.label, most.name)), words];
}

function passage(text) {
  const short = text.length <= SHORT_TEXT * 1.2 ? text : shortened(text, SHORT_TEXT);
  const shown = html("p", { class: "text", id: "item-text", dir: "auto" }, short);
  if (short === text) return shown;
  const button = html("button", { type: "button", class: "more", "aria-expanded": "false", click: turn }, "Show all of it");
  function turn() {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    button.textContent = open ? "Show all of it" : "Show less";
    shown.textContent = open ? short : text;
  }
  return html("div", {}, shown, button);
}
