/** Starts the page: asks which model is served, and shows the page that the address names. */

import { get } from "./api.js";
import { askPage } from "./ask.js";
import { chooseLanguage } from "./language.js";
import { learnPanel } from "./learn.js";
import { reviewPage } from "./review.js";
import { counted, tell, whole } from "./words.js";

const METHODS = {
  single: "one model",
  bagging: "each trained on another sample of the data",
  boosting: "each trained on the errors of those before",
  "boosted-bagging": "each trained on another sample of the data and on the errors of those before",
  "mc-dropout": "one model that is run again and again, each time without some of its weights",
};

document.getElementById("top").append(Theme.button());

function described(model) {
  const labels = `Chooses from ${whole(model.labels)} labels.`;
  if (model.members < 2) return labels;
  const how = METHODS[model.method] ? `, ${METHODS[model.method]}` : "";
  return `${labels} An ensemble of ${counted(model.members, "member")} votes${how}; where they disagree, knowledge uncertainty is high.`;
}

/** What to say of a model that was to take the place of the one that answers; nothing while all is well. */
function notPromoted({ promotion }) {
  if (promotion?.state === "refused") return ` A newer model was refused: ${promotion.words}.`;
  if (promotion?.state === "failed") return ` A newer model does not answer yet: ${promotion.words}.`;
  if (promotion?.state === "rolled-back") return " A newer model was rolled back.";
  return "";
}

function route(pages) {
  const wanted = pages[location.hash.slice(1)] ? location.hash.slice(1) : "ask";
  for (const name of Object.keys(pages)) document.getElementById(name).hidden = name !== wanted;
  for (const link of document.querySelectorAll(".links a")) {
    if (link.hash === `#${wanted}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${wanted === "ask" ? "Ask" : "Review"} · Hedgerow`;
  pages[wanted]();
}

try {
  const model = await get("model");
  chooseLanguage(model);
  document.getElementById("model").textContent = described(model) + notPromoted(model);
  const learning = learnPanel();
  const review = reviewPage(model, learning);
  askPage(model, review.refresh);
  const pages = { ask: () => {}, review: review.enter };
  if (!model.texts) {
    delete pages.review;
    document.querySelector('.links a[href="#review"]').hidden = true;
  } else review.refresh();
  window.addEventListener("hashchange", () => {
    // The link that skips to the content leaves the page as it is.
    if (location.hash !== "#main") route(pages);
  });
  route(pages);
  document.documentElement.dataset.ready = "";
} catch (error) {
  tell(document.getElementById("trouble"), error.message);
}
