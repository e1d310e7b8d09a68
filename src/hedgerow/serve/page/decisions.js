/**
 * Accept, review or reject: a label's probability against the thresholds that a risk allows.
 *
 * The policy comes from the server as curves: for each of `risks`, in rising order, the thresholds `accept` and `reject`;
 * null where that risk cannot be kept.
 */

export const DECISIONS = ["accept", "review", "reject"];

/** The thresholds of the largest risk on the curve that is no more than `risk`: never more is risked than was said. */
export function thresholds(policy, risk) {
  let place = -1;
  while (place + 1 < policy.risks.length && policy.risks[place + 1] <= risk + 1e-9) place++;
  if (place < 0) return { accept: null, reject: null };
  return { accept: policy.accept[place], reject: policy.reject[place] };
}

export function decide(probability, { accept, reject }) {
  if (accept !== null && probability >= accept) return "accept";
  if (reject !== null && probability < reject) return "reject";
  return "review";
}
