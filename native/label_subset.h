// Labels that may be answered, and the nodes of trees that lead to them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forest.h"
#include "label_tree.h"
#include "range.h"

namespace hedgerow {

// The part of a tree that leads to allowed labels.
class TreeSubset {
 public:
  // `allowed`: for each label, whether it may be answered.
  TreeSubset(const LabelTree& tree, std::span<const unsigned char> allowed);

  const LabelTree& tree() const { return *tree_; }
  // Whether a node has an allowed label below it, or a label, by its place, is allowed itself.
  bool has(int layer, std::int32_t node) const {
    return leads_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(node)] != 0;
  }
  // Allowed labels below an inner node.
  float labels_below(int layer, std::int32_t node) const {
    return below_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(node)];
  }
  // How many such nodes of the layer above the labels are enough to have k allowed labels below them, whichever they
  // are.
  std::int32_t nodes_for(std::int32_t k) const;
  // Allowed labels that the tree has.
  std::int64_t labels() const { return smallest_.empty() ? 0 : smallest_.back(); }

 private:
  const LabelTree* tree_;
  std::vector<std::vector<unsigned char>> leads_;
  std::vector<std::vector<float>> below_;
  std::vector<std::int64_t> smallest_;  // running sum of allowed labels of the last nodes, fewest first
};

// The allowed labels of a forest, tree by tree. It must not outlive the forest.
class LabelSubset {
 public:
  // `labels` are numbers of labels of the forest.
  LabelSubset(const Forest& forest, std::span<const std::int32_t> labels);

  bool is_of(const Forest& forest) const { return serial_ == forest.serial(); }
  // How many leaves are enough for k labels in any tree.
  std::int32_t leaves_for(std::int32_t k) const;
  const TreeSubset& of(int tree) const { return trees_[static_cast<std::size_t>(tree)]; }
  std::int64_t size() const { return size_; }

 private:
  std::uint64_t serial_;
  std::int64_t size_ = 0;
  std::vector<TreeSubset> trees_;
};

// How many nodes above the labels of a tree are enough for k labels, all of them or those of a subset.
inline std::int32_t nodes_for(const Forest& forest, int tree, const LabelSubset* subset, std::int32_t k) {
  return subset ? subset->of(tree).nodes_for(k) : forest.model(tree).tree().nodes_for(k);
}

// The allowed among the children of a node, side by side.
class AllowedChildren {
 public:
  // `layer` is that of the children; at the depth of the tree they are labels, which are known by their numbers.
  void pick(const TreeSubset& subset, int layer, Range<std::int32_t> children, const float* logs);
  const float* logs() const { return logs_.data(); }
  const std::int32_t* nodes() const { return nodes_.data(); }
  std::int64_t size() const { return std::ssize(nodes_); }

 private:
  std::vector<float> logs_;
  std::vector<std::int32_t> nodes_;
};

}  // namespace hedgerow
