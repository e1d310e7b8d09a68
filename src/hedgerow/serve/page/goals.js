/** What decisions should achieve: how many accepted labels may be wrong, and how many labels to look at. */

import { reviewOf, wrongAt } from "./decisions.js";
import { whole } from "./words.js";

const { html } = Dom;

/**
 * The panel and what is guaranteed, as elements; calls `moved(limits)`, which gives the number of labels of each
 * decision, whenever a choice changes. Only what can be guaranteed is offered.
 *
 * `remembered` holds the choices between one text and the next.
 */
export function goalPanel({ policy }, { ood }, remembered, moved) {
  const { default: usual, wrong, review, most, limits: never } = policy;
  const shares = wrong.map(({ share }) => Math.round(100 * share));
  const within = (value) => Math.min(shares.at(-1), Math.max(shares[0], value));
  const slider =
    shares.length > 0
      ? html("input", {
          type: "range", id: "wrong-at-most", min: shares[0], max: shares.at(-1), step: 1,
          value: within(remembered.percent ?? Math.round(100 * usual.wrong_at_most)), "aria-describedby": "wrong-guarantee", input: show,
        })
      : null;
  const chosen = html("output", { for: "wrong-at-most", class: "goal-value" });
  const numbers = html(
    "select",
    { id: "review-at-most", "aria-describedby": "review-guarantee", change: show },
    ...review.map(({ labels }) => html("option", { value: labels }, whole(labels))),
  );
  numbers.value = String(remembered.listed ?? usual.review_at_most);
  const accepted = html("p", { id: "wrong-guarantee", class: "guarantee" });
  const contained = html("p", { id: "review-guarantee", class: "guarantee" });
  const panel = html(
    "div",
    { class: "goals" },
    html(
      "div",
      { class: "goal" },
      html(
        "div",
        { class: "goal-head" },
        html("label", { for: "wrong-at-most" }, "How many accepted labels may be wrong?"),
        chosen,
      ),
      slider,
      accepted,
    ),
    html(
      "div",
      { class: "goal" },
      html("div", { class: "goal-head" }, html("label", { for: "review-at-most" }, "How many labels do you look at?"), numbers),
      contained,
    ),
    html("p", { class: "limits" }, ood?.is_ood ? "None of this holds for an out-of-distribution input like this one." : never),
  );

  function show() {
    const percent = slider ? Number(slider.value) : null;
    const own = slider ? wrongAt(policy, percent / 100) : null;
    const listed = Number(numbers.value);
    remembered.percent = percent ?? remembered.percent;
    remembered.listed = listed;
    const [given, reviewed, rejected] = moved({ accept: own?.accept_from ?? null, most, listed }).map(whole);
    chosen.textContent = slider ? `${percent} %` : "";
    slider?.setAttribute("aria-valuetext", `${percent} %: ${given} accepted, ${reviewed} to review, ${rejected} rejected`);
    accepted.textContent = own?.words ?? "Nothing is accepted: no share of wrong labels can be guaranteed with so few calibration inputs.";
    contained.textContent = reviewOf(policy, listed).words;
  }
  show();
  return [panel];
}
