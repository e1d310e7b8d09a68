// A learned judge of candidates: from what members and scorers say of a label to its probability.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.h"
#include "parallel.h"

namespace hedgerow {

// What the judge sees of a candidate is the surprise of its probabilities, cbrt(-ln p) and at most kMostSurprise: of
// the members' mean, then of each scorer; last the logarithm of one plus its frequency in training. Log-odds are a
// polynomial of these numbers: a constant, each of them, the product of each with itself and all after it, and the
// cubes of the surprises.
struct Judge {
  int scorers;
  const double* coefficients;  // judge_coefficients(scorers) of them
  const double* range;         // lowest and highest of each number that the judge knows: others count as these
  const float* log_counts;     // of each label
};

std::int64_t judge_coefficients(int scorers);

// The probabilities of `entries` candidates as members × `probabilities` and scorers × `scores` say. The members move
// by one factor on their odds, so that their mean is what the judge says: their order and their disagreement stay.
void judge_candidates(const Judge& judge, const std::int32_t* labels, const float* probabilities, const float* scores,
                      std::int64_t entries, int members, int threads, Watch& watch, float* judged);

// The same where somebody else says the log-odds of each candidate.
void move_members(const double* log_odds, const float* probabilities, std::int64_t entries, int members, int threads,
                  Watch& watch, float* moved);

}  // namespace hedgerow
