// The labels of a batch with their uncertainty, how far a batch gets into the trees, or the votes themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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
  double* reach;  // row-major, a sum for each that is wanted
};

// What of the reach is wanted is read from the same search, here and below.
void measure_uncertainty(const Forest& forest, const SparseRows& X, std::int32_t k, const VoteOptions& options,
                         std::span<const ReachOf> wanted, int threads, Watch& watch, const UncertainLabels& labels,
                         const UncertainInputs& inputs);

// Row-major, a sum for each that is wanted.
void measure_reach(const Forest& forest, const SparseRows& X, bool normalise, std::span<const ReachOf> wanted,
                   int threads, Watch& watch, double* sums);

// Candidates of all rows in ascending order, and for each the probabilities that the members give it.
struct VoteArrays {
  std::vector<std::int64_t> indptr;
  std::vector<std::int32_t> labels;
  std::vector<float> probabilities;
  std::vector<float> classifiers;  // of each candidate what its label's own classifier says, where that is asked for
  std::vector<float> bound, missed;
  std::vector<double> reach;  // row-major, a sum for each that is wanted
};

VoteArrays collect_votes(const Forest& forest, const SparseRows& X, std::int32_t k, const VoteOptions& options,
                         std::span<const ReachOf> wanted, int threads, Watch& watch);

}  // namespace hedgerow
