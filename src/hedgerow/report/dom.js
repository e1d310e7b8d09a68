"use strict";

/**
 * Elements made from strings that are never read as markup.
 *
 *     Dom.html("p", { class: "note" }, "text", otherElement)
 *     Dom.svg("circle", { cx: 1, cy: 2, r: 3 })
 *
 * Attributes that are null or false are left out; functions become listeners of the event they are named after.
 */
const Dom = (() => {
  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "function") element.addEventListener(name, value);
      else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  const html = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
  const svg = (name, attributes = {}, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

  /** The text, cut at a word's end where it is longer than `length`. */
  function shortened(text, length) {
    if (text.length <= length) return text;
    const cut = text.slice(0, length);
    const space = cut.lastIndexOf(" ");
    // Half of a surrogate pair would show as a broken character.
    return cut.slice(0, space > length * 0.7 ? space : length).replace(/[\ud800-\udbff]$/, "") + "…";
  }

  return { html, svg, shortened };
})();
