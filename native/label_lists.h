// The classifiers of labels, feature by feature: who uses it, and with which weight.
//
// A chunk is made for nodes with some dozens of children. Where a node has hundreds and each uses few features, such
// as the centroids of labels, most of a row's masks are empty; a list of its entries is read several times faster. Sums
// are made in the order in which chunks make them, so the scores are the same to the last bit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sparse.h"
#include "tree_model.h"

namespace hedgerow {

class LabelLists {
 public:
  // Null where a tree is not of this kind: if the way to a leaf is not certain, if it has several members or more
  // labels than 16 bits can number, or if features have many labels.
  static std::unique_ptr<const LabelLists> of(const TreeModel& model);

  // The scores of all labels, by their places in the tree; `scores` has `room()`.
  std::size_t room() const { return biases_.size(); }
  void score(const SparseRow& x, float scale, std::span<float> scores) const;

 private:
  // `sizes` are the labels of each part.
  LabelLists(const TreeModel& model, std::vector<std::uint32_t> sizes);
  void add(int kind, const SparseRow& x, float scale, float* scores) const;

  std::vector<float> biases_;
  // Of each feature three parts, one for each kind of row that chunks had.
  std::vector<std::uint32_t> begins_;
  // The place of a label in the high half, its weight as bfloat16 in the low one. A part with very many labels has the
  // weights of all instead, as kernels take them.
  std::vector<std::uint32_t> entries_;
  std::uint32_t whole_ = 0;  // words of such a part
};

}  // namespace hedgerow
