// The label tree: labels clustered layer by layer, all leaves at the same depth.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel.h"
#include "scratch.h"
#include "sparse.h"

namespace hedgerow {

// Layer 0 is the root. The children of node i of layer t are the nodes [begins[t][i], begins[t][i + 1]) of layer t + 1;
// the nodes of the last layer are the labels, in the order of `labels`.
class LabelTree {
 public:
  LabelTree() = default;
  // Throws std::invalid_argument with the reason when this is no tree over distinct labels.
  LabelTree(std::vector<std::vector<std::int32_t>> begins, std::vector<std::int32_t> labels);

  int depth() const { return static_cast<int>(begins_.size()); }
  std::int32_t nodes(int layer) const {
    return layer == depth() ? static_cast<std::int32_t>(labels_.size())
                            : static_cast<std::int32_t>(begins_[static_cast<std::size_t>(layer)].size()) - 1;
  }
  std::int32_t child_begin(int layer, std::int32_t node) const {
    return begins_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(node)];
  }
  const std::vector<std::vector<std::int32_t>>& begins() const { return begins_; }
  const std::vector<std::int32_t>& labels() const { return labels_; }

  // Chunks are numbered through all inner nodes, layer by layer.
  std::int64_t chunks() const { return chunk_starts_.back(); }
  std::int64_t chunk(int layer, std::int32_t node) const {
    return chunk_starts_[static_cast<std::size_t>(layer)] + node;
  }

  // How many nodes of the layer above the labels are enough to have k labels below them, whichever they are.
  std::int32_t nodes_for(std::int32_t k) const;

 private:
  std::vector<std::vector<std::int32_t>> begins_;
  std::vector<std::int32_t> labels_;
  std::vector<std::int64_t> chunk_starts_;
  std::vector<std::int64_t> smallest_;  // running sum of the sizes of the last clusters, smallest first
};

// Positive instance feature aggregation: a label is the normalised sum of the rows that carry it.
struct OwnedRows {
  std::vector<std::int64_t> indptr;
  std::vector<std::int32_t> indices;
  std::vector<float> values;
  std::int64_t columns = 0;
  SparseRows view() const {
    return {static_cast<std::int64_t>(indptr.size()) - 1, columns, indptr.data(), indices.data(), values.data()};
  }
};

// `rows_of_label`: for each label, its rows. `scales` multiplies each row of X; `costs`, if not null, weighs it.
OwnedRows aggregate_labels(const SparseRows& X, const SparseRows& rows_of_label, const float* scales,
                           const float* costs, int threads, Watch& watch);

struct GrowOptions {
  int branching = 8;
  int leaf_size = 100;
  int max_iterations = 20;
  std::uint64_t seed = 0;
  Scratch scratch = {};  // for copies of vectors that are too large for memory
};

// Balanced spherical k-means from the root down. Row i of `label_features` stands for labels[i].
LabelTree grow_tree(const SparseRows& label_features, const std::vector<std::int32_t>& labels,
                    const GrowOptions& options, int threads, Watch& watch);

}  // namespace hedgerow
