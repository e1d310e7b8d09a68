// What the members of a forest say of labels that somebody else found.
#pragma once

#include <cstdint>

#include "descent.h"
#include "forest.h"
#include "parallel.h"
#include "sparse.h"

namespace hedgerow {

// The candidates of each row, in CSR form.
struct CandidateRows {
  const std::int64_t* indptr;
  const std::int32_t* labels;
};

// Writes what each member says of each candidate, members side by side: its probability, and its probability below its
// leaf, where the way to the leaf does not count. Both are 0 for a label that the tree does not have. Of the options,
// `normalise`, `headroom` and `floor` count. Only the nodes on the way to candidates are visited, and none below a node
// under the floor: labels there have the score -1 below a node with the probability of the floor. Throws
// std::invalid_argument where a score is not finite.
struct CandidateScores {
  float* probabilities;
  float* own;
};
void score_candidates(const Forest& forest, const SparseRows& X, const CandidateRows& candidates,
                      const VoteOptions& options, int threads, Watch& watch, const CandidateScores& scores);

}  // namespace hedgerow
