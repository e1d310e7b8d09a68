/** Learning from reviews: Review, Update, Compare, Promote, and the way back. */

import { get, post } from "./api.js";
import { counted, sentence, tell, whole } from "./words.js";

const { html } = Dom;
const PAUSE = 700; // ms between questions while the server learns, and after a review
const STEPS = ["Review", "Update", "Compare", "Promote"];
const STEP_OF = { reading: 1, updating: 1, comparing: 2, promoting: 3 };
const DOING = [
  "",
  "Updating a copy of the model with what was reviewed. The model goes on answering.",
  "Comparing the updated model with the one that answers.",
  "Letting the updated model take over.",
];

/** Brings the panel to life. `refresh()` asks the server again; `refreshSoon()` does so after a pause. */
export function learnPanel() {
  const trouble = document.getElementById("learn-trouble");
  const words = document.getElementById("learn-words");
  const bar = document.getElementById("learn-bar");
  const learn = document.getElementById("learn");
  const back = document.getElementById("roll-back");
  const steps = STEPS.map((name) => ({ name, made: html("li", {}), said: "" }));
  let timer = null;
  let waits = null; // what stands in the first step while the server learns

  document.getElementById("learn-steps").replaceChildren(...steps.map(({ made }) => made));
  learn.addEventListener("click", () => act(learn, "learn"));
  back.addEventListener("click", () => act(back, "rollback", "The previous model answers again."));

  /** Answers the click, and puts the focus back where the button could be pressed no longer. */
  async function act(button, path, done = null) {
    learn.disabled = back.disabled = true;
    bar.value = 0;
    try {
      await post(path, null);
      tell(trouble, null);
      await refresh();
      if (done) words.textContent = done;
    } catch (error) {
      await refresh();
      tell(trouble, error.message);
    }
    if (button.hidden || button.disabled) document.getElementById("learn-title").focus();
  }

  async function refresh() {
    clearTimeout(timer);
    try {
      show(await get("learn"));
    } catch (error) {
      tell(trouble, error.message);
      learn.disabled = back.disabled = true;
    }
  }

  function refreshSoon() {
    clearTimeout(timer);
    timer = setTimeout(refresh, PAUSE);
  }

  function show(found) {
    const running = found.state === "running";
    const step = running ? (STEP_OF[found.stage] ?? 1) : null;
    if (!running) waits = reviewed(found);
    const outcome = found.outcome;
    const said = [
      waits ?? "",
      outcome && outcome.promoted !== null ? `${whole(outcome.added)} added, ${whole(outcome.corrected)} corrected` : "",
      outcome?.verdict ?? "",
      outcome && outcome.promoted !== null ? (outcome.promoted ? "it answers now" : "refused") : "",
    ];
    steps.forEach((one, i) => fill(one, said[i], i, step));
    bar.hidden = !running;
    // Work of another kind begins again within a step; the bar never goes back.
    if (running) bar.value = Math.max(bar.value, (step - 1 + (found.share ?? 0)) / (STEPS.length - 1));
    say(running ? DOING[step] : inWords(found));
    tell(trouble, found.state === "failed" ? `Learning failed, and the model is as it was: ${found.failure}.` : null);
    learn.disabled = running || found.obstacle !== null || found.waiting === 0;
    back.disabled = running;
    back.hidden = !found.can_roll_back;
    if (running) refreshSoon();
  }

  /** Said once, and not again at each question: screen readers would repeat it. */
  function say(text) {
    if (words.textContent !== text) words.textContent = text;
  }

  return { refresh, refreshSoon };
}

function fill({ name, made }, said, i, step) {
  made.replaceChildren(html("b", {}, name), html("span", { class: "hint" }, said));
  if (i === step) made.setAttribute("aria-current", "step");
  else made.removeAttribute("aria-current");
}

function reviewed({ reviewed: all, waiting }) {
  const texts = `${counted(all, "text")} reviewed`;
  return sentence(waiting === null ? texts : `${texts}, ${waiting === 0 ? "all learned" : `${whole(waiting)} not learned yet`}`);
}

function inWords({ obstacle, outcome, waiting }) {
  if (outcome?.promoted) return `The updated model is ${outcome.words}. It answers now.`;
  if (outcome?.promoted === false) {
    const why = outcome.verdict === null ? `was refused: ${outcome.words}` : `is ${outcome.words}`;
    return `The updated model ${why}. So the model stays as it was.`;
  }
  if (obstacle !== null) return `Nothing can be learned now: ${obstacle}.`;
  if (waiting === 0) return "The model has learned all reviewed texts already.";
  return "A copy of the model learns from the reviewed texts. It answers only if it is good enough on held-out texts.";
}
