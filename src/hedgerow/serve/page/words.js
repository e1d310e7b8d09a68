/** Numbers and labels as people read them. */

const { html, shortened } = Dom;
const SHORT_LABEL = 140;
const SMALL = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

export const whole = (number) => number.toLocaleString("en");
export const percent = (share) => (share > 0 && share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`);
export const counted = (number, one, many = `${one}s`) => `${SMALL[number] ?? whole(number)} ${number === 1 ? one : many}`;
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
export const unseen = (text) => html("span", { class: "unseen" }, text);

/** What people call a label: its name, or what it is. */
export const called = (label, name) => name || String(label);

/** A label, in its own direction of writing, and cut where it would fill the page; its id is the tooltip of its name. */
export function named(label, name = null) {
  const shown = called(label, name);
  const title = shown !== String(label) ? String(label) : shown.length > SHORT_LABEL ? shown : null;
  return html("bdi", { title: title?.slice(0, 1000) ?? null }, shortened(shown, SHORT_LABEL) || "(no name)");
}

/** "a, b and c", of elements or strings. */
export function listed(parts) {
  return parts.flatMap((part, i) => (i === 0 ? [part] : [i === parts.length - 1 ? " and " : ", ", part]));
}

/** A text, or the texts of a record, as one. */
export const joined = (text) => (typeof text === "string" ? text : Object.values(text).filter(Boolean).join("\n"));

/** Shows a message in one of the page's places for trouble, or hides the place. */
export function tell(place, message) {
  place.textContent = message ?? "";
  place.hidden = !message;
}
