// What the members of a forest say of labels that somebody else found.
#pragma once

#include <cstdint>

#include "forest.h"
#include "parallel.h"
#include "sparse.h"

namespace hedgerow {

// The candidates of each row, in CSR form.
struct CandidateRows {
  const std::int64_t* indptr;
  const std::int32_t* labels;
};

// Writes the probability that each member gives to each candidate, members side by side; 0 for a label that its tree
// does not have. Only the nodes on the way to candidates are visited. Throws std::invalid_argument where a score is not
// finite.
void score_candidates(const Forest& forest, const SparseRows& X, const CandidateRows& candidates, bool normalise,
                      int threads, Watch& watch, float* probabilities);

}  // namespace hedgerow
