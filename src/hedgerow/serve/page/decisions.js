/**
 * Accept, review or reject: what the server guarantees for each choice, and what each choice does to a label.
 *
 * The policy comes from the server: for rising shares of wrong labels (`wrong`) the least probability of an accepted
 * label (null where nothing is accepted), at most `most` of them, the best; and for some numbers of the best labels
 * (`review`) which share of the right ones they contain. Each comes with the words that say so.
 */

export const DECISIONS = ["accept", "review", "reject"];

/** The largest number of labels that can be looked at: so many are asked for. */
export const mostListed = ({ review }) => Math.max(...review.map(({ labels }) => labels));

/** The choice for the largest share that is no more than this: never are more wrong than that. */
export function wrongAt({ wrong }, share) {
  return wrong.findLast((one) => one.share <= share + 1e-9) ?? null;
}

/** What is guaranteed of so many of the best labels. */
export const reviewOf = ({ review }, labels) => review.find((one) => one.labels === labels) ?? review[0];

/**
 * What to do with the label at a rank, from 0. Probabilities and thresholds have 32 bits; in JSON, probabilities have
 * only as many digits as that takes.
 */
export function decide(probability, rank, { accept, most, listed }) {
  if (accept !== null && rank < most && Math.fround(probability) >= accept) return "accept";
  return rank < listed ? "review" : "reject";
}
