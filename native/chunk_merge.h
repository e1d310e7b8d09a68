// A chunk that keeps some lanes of an older one, and gets others that were solved again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "chunk.h"
#include "sparse.h"

namespace hedgerow {

// Kept from chunk to chunk by one worker.
class ChunkMerge {
 public:
  // Forgets all; `features` is the width of inputs, `lanes` the number of lanes of the new chunk.
  void start(std::int64_t features, std::size_t lanes);
  // The older chunk. Of each new lane, `old_lane` says which lane of it that was, or -1. A lane that is replaced below
  // does not keep its weights.
  void take_old(const ChunkView& chunk, std::span<const std::int32_t> old_lane);
  // Lanes that were solved again, kLanes in a panel, over some features, and the bias of each.
  void replace(std::span<const std::int32_t> lanes, std::span<const std::int32_t> features,
               std::vector<PanelWeights> panels, std::span<const float> bias);
  // The same with weights from rows of a matrix, and no bias.
  void replace_with(std::span<const std::int32_t> lanes, const SparseRows& weights, std::span<const std::int64_t> rows);
  void set_bias(std::size_t lane, float bias) { bias_[lane] = bias; }
  // The new chunk.
  std::vector<unsigned char> pack(const FeatureHash& hash, ChunkShape& shape);

  std::int64_t old_weights() const { return static_cast<std::int64_t>(entries_.size()); }
  std::int64_t weights() const { return static_cast<std::int64_t>(grown_.lanes.size()); }

 private:
  void emit(std::int32_t feature, std::size_t first, std::size_t last);

  std::vector<std::int32_t> new_lane_;  // of each old one, or -1
  std::vector<ChunkEntry> entries_;
  std::vector<float> bias_;
  std::vector<bool> replaced_;
  std::vector<std::int32_t> again_, again_features_;
  std::vector<PanelWeights> again_weights_;
  std::vector<std::vector<std::uint32_t>> starts_;  // of each panel, where each feature's weights begin
  std::vector<std::int32_t> place_;                 // of a feature among those that were solved again, or -1
  FeatureWeights grown_;
  std::vector<std::uint64_t> row_;  // lanes and weights of a feature
};

}  // namespace hedgerow
