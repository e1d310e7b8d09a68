// Sums of small decision trees, learned elsewhere by gradient boosting.
#pragma once

#include <cstdint>

#include "parallel.h"

namespace hedgerow {

// All trees, one after the other; the nodes of each in an order where children come after their parent, so that the way
// down ends. Node i has the feature `features[i]`: rows with a value of at most `thresholds[i]` go to node `left[i]`,
// the others to `right[i]`. A leaf has the feature -1, and its value in place of the threshold.
struct BoostedTrees {
  const std::int64_t* begins;  // of each tree, and the end of the last
  std::int64_t trees;
  const std::int32_t* features;
  const double* thresholds;
  const std::int32_t* left;
  const std::int32_t* right;
};

// Whether the way down ends for every row of so many features.
bool is_sound(const BoostedTrees& trees, std::int64_t nodes, std::int64_t features);

// The sum of the leaves that each row of `values`, rows × features, ends in; trees in order.
void boosted_sums(const BoostedTrees& trees, const float* values, std::int64_t rows, std::int64_t features, int threads,
                  Watch& watch, double* sums);

}  // namespace hedgerow
