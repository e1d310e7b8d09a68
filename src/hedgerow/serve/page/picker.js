/** A box that finds labels by a part of their name (the combobox pattern of ARIA). */

import { get } from "./api.js";
import { inLanguage } from "./language.js";
import { called, counted, named, whole } from "./words.js";

const { html } = Dom;
const SHOWN = 8;

const ADD = { id: "picker", prompt: "Add a label …", words: "Add a label: type a part of its name", known: false };

/**
 * Calls `chosen(label, name)`; `left()` when the reader leaves the box with Escape. With `known`, only what the server
 * knows can be chosen.
 */
export function picker(chosen, left, { id, prompt, words, known } = ADD) {
  const list = html("ul", { class: "options", id: `${id}-options`, role: "listbox", "aria-label": "Labels", hidden: true });
  const said = html("span", { class: "unseen", role: "status" });
  const input = html("input", {
    type: "text",
    id,
    role: "combobox",
    autocomplete: "off",
    spellcheck: "false",
    dir: "auto",
    placeholder: prompt,
    "aria-label": words,
    "aria-autocomplete": "list",
    "aria-expanded": "false",
    "aria-controls": `${id}-options`,
    input: () => find(),
    blur: close,
    keydown: pressed,
  });
  let asking = null;
  let options = [];
  let place = -1;

  async function find() {
    asking?.abort();
    // What is listed answers to what was typed before: nothing of it can be chosen any more.
    options = [];
    go(-1);
    const query = input.value.trim();
    if (!query) return close();
    asking = new AbortController();
    let found;
    try {
      found = (await get("labels", { query, limit: SHOWN, ...inLanguage() }, asking.signal)).labels;
    } catch (error) {
      if (error.name === "AbortError") return;
      said.textContent = error.message;
      return close();
    }
    const isNew = !known && !found.some(({ label, name }) => label === query || called(label, name) === query);
    const examples = (count) => (count === null ? "" : `${whole(count)} ${count === 1 ? "example" : "examples"}`);
    const also = ({ name, matched }) => (matched && matched !== name ? `“${matched}”` : "");
    options = found.map((one) => ({ ...one, words: [also(one), examples(one.count)].filter(Boolean).join(", ") }));
    if (isNew) options.push({ label: query, words: "a label new to the model" });
    list.replaceChildren(...options.map(option));
    list.hidden = !options.length;
    input.setAttribute("aria-expanded", String(options.length > 0));
    said.textContent = counted(options.length, "label");
    go(found.length ? 0 : -1);
  }

  function option({ label, name, words: hint }, i) {
    // The list must not take the focus, or it would close before the click.
    const take = (event) => {
      event.preventDefault();
      choose(i);
    };
    return html(
      "li",
      { id: `${id}-option-${i}`, role: "option", "aria-selected": "false", mousedown: take },
      named(label, name),
      html("span", { class: "hint" }, hint),
    );
  }

  function go(i) {
    place = i;
    [...list.children].forEach((one, j) => one.setAttribute("aria-selected", String(i === j)));
    if (i < 0) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", `${id}-option-${i}`);
    list.children[i].scrollIntoView({ block: "nearest" });
  }

  function close() {
    asking?.abort();
    list.hidden = true;
    list.replaceChildren();
    options = [];
    place = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function choose(i) {
    const { label, name } = options[i];
    input.value = "";
    close();
    chosen(label, name);
  }

  function pressed(event) {
    // Keys typed here are text, not commands of the page around.
    event.stopPropagation();
    if (event.isComposing) return;
    const last = options.length - 1;
    if (event.key === "ArrowDown" && last >= 0) go(place === last ? 0 : place + 1);
    else if (event.key === "ArrowUp" && last >= 0) go(place <= 0 ? last : place - 1);
    else if (event.key === "Enter") {
      if (place >= 0) choose(place);
    } else if (event.key === "Escape") {
      if (list.hidden) {
        input.value = "";
        left();
      } else close();
    } else return;
    event.preventDefault();
  }

  return { made: html("div", { class: "picker" }, input, list, said), focus: () => input.focus() };
}
