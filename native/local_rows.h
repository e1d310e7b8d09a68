// The rows of one node, copied side by side with features renumbered from 0, so that they stay in cache while they are
// visited again and again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "scratch.h"
#include "sparse.h"

namespace hedgerow {

// Reused from node to node by one worker.
class LocalRows {
 public:
  // Where entries lie that are too many for memory.
  void spill_to(const Scratch& scratch) { scratch_ = scratch; }

  // `scales` multiplies the values of each row of `matrix`; null leaves them.
  void gather(const SparseRows& matrix, std::span<const std::int32_t> rows, const float* scales) {
    if (number_.size() < static_cast<std::size_t>(matrix.columns))
      number_.assign(static_cast<std::size_t>(matrix.columns), -1);
    for (const std::int32_t feature : features_) number_[static_cast<std::size_t>(feature)] = -1;
    features_.clear();
    indptr_.assign(1, 0);
    std::int64_t total = 0;
    for (const std::int32_t row : rows) {
      total += matrix[row].size;
      indptr_.push_back(total);
    }
    std::int32_t* indices = indices_.make_room(static_cast<std::size_t>(total), scratch_);
    float* values = values_.make_room(static_cast<std::size_t>(total), scratch_);
    std::size_t at = 0;
    for (const std::int32_t row : rows) {
      const SparseRow entries = matrix[row];
      const float scale = scales ? scales[row] : 1.0f;
      for (std::int64_t i = 0; i < entries.size; ++i, ++at) {
        std::int32_t& number = number_[static_cast<std::size_t>(entries.indices[i])];
        if (number < 0) {
          number = static_cast<std::int32_t>(features_.size());
          features_.push_back(entries.indices[i]);
        }
        indices[at] = number;
        values[at] = entries.values[i] * scale;
      }
    }
  }

  SparseRows view() const {
    return {static_cast<std::int64_t>(indptr_.size()) - 1, static_cast<std::int64_t>(features_.size()), indptr_.data(),
            indices_.data(), values_.data()};
  }
  // Global numbers of the local features.
  std::span<const std::int32_t> features() const { return features_; }

 private:
  std::vector<std::int32_t> number_;
  std::vector<std::int32_t> features_;
  std::vector<std::int64_t> indptr_;
  ScratchArray<std::int32_t> indices_;
  ScratchArray<float> values_;
  Scratch scratch_;
};

}  // namespace hedgerow
