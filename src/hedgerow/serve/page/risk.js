/** The slider for the risk, and a picture of what it means: where on the way from 0 to 1 labels are rejected and accepted. */

import { DECISIONS, lowestRisk, thresholds } from "./decisions.js";
import { percent, whole } from "./words.js";

const { html } = Dom;
const FIRST = 10;
const NARROW = 0.12; // no room for a word

/**
 * The panel and the guarantee, as elements; calls `moved(limits)`, which gives the number of labels of each decision,
 * whenever the thresholds change. Only risks that can be guaranteed are offered.
 *
 * `remembered` holds the risk in percent between one text and the next.
 */
export function riskPanel({ policy, texts }, { labels, ood }, remembered, moved) {
  const [one, many] = texts ? ["a text", "texts"] : ["an input", "inputs"];
  const warning = ood?.is_ood ? " None of this holds for an out-of-distribution input like this one." : "";
  const lowest = Math.max(1, Math.ceil(100 * lowestRisk(policy) - 1e-9));
  const highest = Math.max(lowest, Math.min(50, Math.floor(100 * policy.risks.at(-1) + 1e-9)));
  const value = Math.min(highest, Math.max(lowest, remembered.percent ?? FIRST));
  const slider = html("input", {
    type: "range", id: "risk", min: lowest, max: highest, step: 1, value, "aria-describedby": "risk-guarantee", input: show,
  });
  const chosen = html("output", { for: "risk", class: "risk-value" });
  const scale = drawn(labels);
  const guarantee = html("p", { id: "risk-guarantee", class: "guarantee" });
  const panel = html(
    "div",
    { class: "risk" },
    html(
      "div",
      { class: "risk-choice" },
      html("div", { class: "risk-head" }, html("label", { for: "risk" }, "How much risk do you accept?"), chosen),
      slider,
      html("div", { class: "risk-ends", "aria-hidden": "true" }, ...["review more", "review less"].map((end) => html("span", {}, end))),
    ),
    html("div", { class: "risk-means" }, scale.made, guarantee),
  );
  const exactly = html(
    "details",
    { class: "values" },
    html("summary", {}, "What exactly is guaranteed"),
    html("p", { class: "exact" }, policy.guarantee),
  );

  function show() {
    remembered.percent = Number(slider.value);
    const limits = thresholds(policy, slider.value / 100);
    const [accepted, reviewed, rejected] = moved(limits).map(whole);
    chosen.textContent = `${slider.value} %`;
    slider.setAttribute("aria-valuetext", `${slider.value} %: ${accepted} accepted, ${reviewed} to review, ${rejected} rejected`);
    guarantee.textContent = guaranteed(slider.value, limits, one, many) + warning;
    scale.set(limits);
  }
  show();
  return [panel, exactly];
}

function guaranteed(risk, { accept }, one, many) {
  const rejected = `Guaranteed on average, for ${many} like the calibration data: at most ${risk} % of the true labels of ${one} are rejected`;
  if (accept === null) return `${rejected}. At this risk no label can be accepted without review.`;
  return `${rejected}, and, with a confidence of 90 %, at most ${risk} % of its accepted labels are wrong (0 % if none is accepted).`;
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
