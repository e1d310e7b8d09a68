/**
 * Accept, review or reject: a label's probability against the thresholds that a risk allows.
 *
 * The policy comes from the server as curves: for each of `risks`, in rising order, the thresholds `accept` (null where
 * nothing can be accepted) and `reject` (null where that risk cannot be guaranteed; then no lower one can).
 */

export const DECISIONS = ["accept", "review", "reject"];

/** The lowest risk that can be guaranteed. */
export const lowestRisk = ({ risks, reject }) => risks[reject.findIndex((from) => from !== null)];

/** The risk at which least is rejected: who knows all other labels there misses none at any risk. */
export function mildestRisk({ risks, reject }) {
  const least = Math.min(...reject.filter((from) => from !== null));
  return risks[reject.indexOf(least)];
}

/** The thresholds of the largest risk on the curve that is no more than `risk`: never is more risked than that. */
export function thresholds(policy, risk) {
  const place = policy.risks.findLastIndex((one) => one <= risk + 1e-9);
  return { accept: policy.accept[place], reject: policy.reject[place] };
}

/** Probabilities and thresholds have 32 bits; in JSON, probabilities have only as many digits as that takes. */
export function decide(probability, { accept, reject }) {
  const compared = Math.fround(probability);
  if (accept !== null && compared >= accept) return "accept";
  return compared < reject ? "reject" : "review";
}
