// The best labels of votes with their measures.
#pragma once

#include <cstdint>

#include "kernels.h"
#include "parallel.h"
#include "vote_rows.h"

namespace hedgerow {

// Where results go.
struct BestLabels {
  std::int32_t* labels;  // rows × k, best first
  Measures measures;     // of them
  double* sums;          // rows × kMeasures: over all candidates
};

// Every row must have k candidates. They are ranked by the mean probability, or by `ranked_by`, one number a candidate.
void find_best(const VoteRows& votes, std::int32_t k, const float* ranked_by, int threads, Watch& watch,
               const BestLabels& out);

}  // namespace hedgerow
