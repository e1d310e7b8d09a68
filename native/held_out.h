// What a tree says of rows that it was not trained on, while it is trained: each panel is solved without them, asked
// about them, and then goes on with them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "beam_search.h"
#include "memberships.h"
#include "tree_model.h"

namespace hedgerow {

// Labels of each held-out row: the log-probability of the node above a label, and the label's own score there.
struct HeldOutVotes {
  std::vector<std::int64_t> indptr;
  std::vector<std::int32_t> labels;
  std::vector<float> parents, scores;
};

// The way of held-out rows down a tree, layer by layer as it is trained.
class HeldOut {
 public:
  // `rows` are ascending. They are asked about the labels that `candidates` has for them, or, where it is null, about
  // the best labels that a search finds.
  HeldOut(const LabelTree& tree, Transform transform, std::span<const std::int32_t> rows, std::int64_t all_rows,
          const SparseRows* candidates);

  bool has(std::int32_t row) const { return number_[static_cast<std::size_t>(row)] >= 0; }
  // The rows that come to a node of the layer at hand, ascending.
  const std::vector<std::int32_t>& visitors(std::int32_t node) const {
    return visitors_[static_cast<std::size_t>(node)];
  }
  // Where the scores of the node's children for a visitor go.
  float* scores(std::int32_t node, std::int32_t row);
  // To the next layer, when all scores of this one are in.
  void descend();
  HeldOutVotes take() { return std::move(votes_); }

 private:
  struct Visit {
    std::int32_t node;
    float path;
    std::size_t scores;
  };
  void open_layer();
  // Log-probabilities of the children of a visited node.
  void look_below(const Visit& visit);
  void choose(std::size_t number, const std::vector<Visit>& visits);
  void finish(std::size_t number, const std::vector<Visit>& visits);
  std::int32_t children(std::int32_t node) const {
    return tree_.child_begin(layer_, node + 1) - tree_.child_begin(layer_, node);
  }

  const LabelTree& tree_;
  Transform transform_;
  std::span<const std::int32_t> rows_;
  const SparseRows* candidates_;
  std::vector<Lists> wanted_;         // nodes of each layer above the candidates
  std::vector<std::int32_t> number_;  // of a row among those held out, or -1
  std::vector<std::int32_t> place_;   // of a label in the tree, or -1
  int layer_ = 0;
  std::vector<std::vector<Visit>> visits_, next_;  // of each held-out row, ascending nodes
  std::vector<std::vector<std::int32_t>> visitors_;
  std::vector<float> scores_, logs_;
  Best best_;
  HeldOutVotes votes_;
};

}  // namespace hedgerow
