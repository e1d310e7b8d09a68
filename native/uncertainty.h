// The labels of a batch with their uncertainty, how far a batch gets into the trees, or the votes themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "forest.h"
#include "parallel.h"
#include "sparse.h"
#include "vote_search.h"

namespace hedgerow {

// Where results go. Of the best k labels of each row, row-major and best first: the label and its measures. Of each
// row as a whole: sums over all candidates, and the certificate.
struct UncertainLabels {
  std::int32_t* labels;
  Measures measures;
};
struct UncertainInputs {
  float* expected;  // number of labels: the sum of probabilities
  float* total;
  float* data;
  float* knowledge;
  float* variance;
  float* bound;
  float* missed;
};

void measure_uncertainty(const Forest& forest, const SparseRows& X, std::int32_t k, const VoteOptions& options,
                         int threads, Watch& watch, const UncertainLabels& labels, const UncertainInputs& inputs);

// How far the members follow a row down their trees: the sum of the highest energies that a member gives to
// `nodes` nodes of a layer (the first below the root is 1), the mean over the members.
struct ReachOf {
  int layer;
  std::size_t nodes;
};

// Row-major, a sum for each that is wanted.
void measure_reach(const Forest& forest, const SparseRows& X, const VoteOptions& options,
                   const std::vector<ReachOf>& wanted, int threads, Watch& watch, double* sums);

// Candidates of all rows in ascending order, and for each the probabilities that the members give it.
struct VoteArrays {
  std::vector<std::int64_t> indptr;
  std::vector<std::int32_t> labels;
  std::vector<float> probabilities;
  std::vector<float> bound, missed;
};

VoteArrays collect_votes(const Forest& forest, const SparseRows& X, std::int32_t k, const VoteOptions& options,
                         int threads, Watch& watch);

}  // namespace hedgerow
