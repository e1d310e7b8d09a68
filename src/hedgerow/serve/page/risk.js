/** The slider for the risk, and a picture of what it means: where on the way from 0 to 1 labels are rejected and accepted. */

import { DECISIONS, lowestRisk, thresholds } from "./decisions.js";
import { percent, whole } from "./words.js";

const { html } = Dom;
const FIRST = 10;
const NARROW = 0.12; // no room for a word

/**
 * The panel and the promise, as elements; calls `moved(limits)`, which tells how many labels there are of each decision,
 * whenever the thresholds change. Only risks that can be promised are offered.
 *
 * `remembered` holds the risk in percent between one text and the next.
 */
export function riskPanel(policy, { labels, ood }, remembered, moved) {
  const odd = ood?.is_ood ? " For a text as odd as this one, that does not hold." : "";
  const lowest = Math.max(1, Math.ceil(100 * lowestRisk(policy) - 1e-9));
  const highest = Math.max(lowest, Math.min(50, Math.floor(100 * policy.risks.at(-1) + 1e-9)));
  const value = Math.min(highest, Math.max(lowest, remembered.percent ?? FIRST));
  const slider = html("input", {
    type: "range", id: "risk", min: lowest, max: highest, step: 1, value, "aria-describedby": "risk-promise", input: show,
  });
  const told = html("output", { for: "risk", class: "risk-value" });
  const scale = drawn(labels);
  const promise = html("p", { id: "risk-promise", class: "promise" });
  const panel = html(
    "div",
    { class: "risk" },
    html(
      "div",
      { class: "risk-choice" },
      html("div", { class: "risk-head" }, html("label", { for: "risk" }, "How much risk do you accept?"), told),
      slider,
      html("div", { class: "risk-ends", "aria-hidden": "true" }, ...["look at more", "look at less"].map((end) => html("span", {}, end))),
    ),
    html("div", { class: "risk-means" }, scale.made, promise),
  );
  const exactly = html(
    "details",
    { class: "values" },
    html("summary", {}, "What exactly is promised"),
    html("p", { class: "guarantee" }, policy.guarantee),
  );

  function show() {
    remembered.percent = Number(slider.value);
    const limits = thresholds(policy, slider.value / 100);
    const [accepted, reviewed, rejected] = moved(limits).map(whole);
    told.textContent = `${slider.value} %`;
    slider.setAttribute("aria-valuetext", `${slider.value} %: ${accepted} accepted, ${reviewed} to review, ${rejected} rejected`);
    promise.textContent = promised(slider.value, limits) + odd;
    scale.set(limits);
  }
  show();
  return [panel, exactly];
}

function promised(risk, { accept }) {
  const wrong =
    accept === null
      ? "so few wrong ones may pass that none is accepted without a look."
      : `with a confidence of 90 %, on average at most ${risk} % of what an input is given is wrong (0 for an input that is given nothing).`;
  return `On average, at most ${risk} % of the right labels are lost among the rejected, and ${wrong}`;
}

/** From 0 to 1: three zones, and a dot for each label. */
function drawn(labels) {
  const zones = Object.fromEntries(DECISIONS.map((name) => [name, html("span", { class: `zone ${name}` })]));
  const words = Object.fromEntries(DECISIONS.map((name) => [name, html("span", { class: "zone-word" }, name)]));
  const dots = labels.map(({ probability }) => {
    const dot = html("span", { class: "found-dot" });
    dot.style.left = `${100 * probability}%`;
    return dot;
  });
  const made = html("div", { class: "scale", role: "img" }, ...DECISIONS.flatMap((name) => [zones[name], words[name]]), ...dots);

  function set({ accept, reject }) {
    const high = accept ?? 1;
    const low = Math.min(reject, high);
    for (const [name, from, to] of [["reject", 0, low], ["review", low, high], ["accept", high, 1]]) {
      for (const { style } of [zones[name], words[name]]) {
        style.left = `${100 * from}%`;
        style.width = `${100 * Math.max(0, to - from)}%`;
      }
      words[name].hidden = to - from < NARROW;
    }
    const accepted = accept === null ? "" : ` and accepted from ${percent(high)}`;
    made.setAttribute("aria-label", `Labels are rejected below ${percent(low)}${accepted} probability.`);
  }
  return { made, set };
}
