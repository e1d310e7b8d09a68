// Votes compared with the truth: what the members got right, and whether their uncertainty finds what they got wrong.
#pragma once

#include <cstdint>

#include "kernels.h"
#include "parallel.h"
#include "sparse.h"
#include "vote_rows.h"

namespace hedgerow {

// Where results go.
struct Judgements {
  // rows × kMeasures: how well a measure tells the wrong labels of a row from the right ones, over all labels. NaN
  // where no label is wrong, or every one.
  double* auroc;
  double* aupr;
  double* sums;  // rows × kMeasures: the sums of the measures
  // rows × k, best first: the best labels, -1 and zeros where there are too few candidates.
  std::int32_t* best;
  Measures of_best;
  // For every entry of the truth: its place in the ranking, from 1, or 0 where it is no candidate.
  std::int32_t* ranks;
  Measures of_true;
};

void judge_votes(const VoteRows& votes, const SparseRows& truth, std::int32_t k, int threads, Watch& watch,
                 const Judgements& out);

}  // namespace hedgerow
