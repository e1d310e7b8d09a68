// A trained tree: the label tree and a chunk of weights for each inner node.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "chunk.h"
#include "kernels.h"
#include "label_tree.h"
#include "sparse.h"

namespace hedgerow {

class TreeModel {
 public:
  // There are `members` classifiers for each child: the lanes of a chunk are all children of the first member, then all
  // of the next. Where bfloat16 is not precise enough, a weight is the sum of several `parts`: all lanes of the first
  // part come first.
  TreeModel(LabelTree tree, std::int64_t features, Transform transform, int members = 1, int parts = 1);

  // A model whose chunks lie in memory that the caller keeps alive (a mapped file). Checks that every chunk lies within
  // it and fits the tree; `deep` also checks every row of every chunk. Throws std::invalid_argument.
  TreeModel(LabelTree tree, std::int64_t features, Transform transform, int members, int parts,
            std::vector<ChunkShape> shapes, const unsigned char* bytes, std::uint64_t size, bool deep, int threads,
            Watch& watch);

  // Views point into blocks_, so a copy would dangle.
  TreeModel(const TreeModel&) = delete;
  TreeModel& operator=(const TreeModel&) = delete;
  TreeModel(TreeModel&&) = default;
  TreeModel& operator=(TreeModel&&) = default;

  const LabelTree& tree() const { return tree_; }
  std::int64_t features() const { return features_; }
  Transform transform() const { return transform_; }
  int members() const { return members_; }
  int parts() const { return parts_; }
  const FeatureHash& hash() const { return hash_; }
  const ChunkView& chunk(int layer, std::int32_t node) const {
    return views_[static_cast<std::size_t>(tree_.chunk(layer, node))];
  }
  const std::vector<ChunkShape>& shapes() const { return shapes_; }
  const unsigned char* bytes(std::size_t chunk) const {
    return reinterpret_cast<const unsigned char*>(views_[chunk].bias);
  }

  // Different chunks may be set by different threads.
  void set_chunk(std::size_t chunk, std::vector<unsigned char>&& block, const ChunkShape& shape);
  // Gives every chunk its place in the file, one after the other.
  void lay_out();

  // Tells which features nearly every input has, such as an embedding: their rows are then found without a lookup.
  // Changes no result. Not while others search.
  void expect(const ExpectedFeatures& expected, int threads, Watch& watch);
  const ExpectedFeatures& expected() const { return expected_; }

 private:
  LabelTree tree_;
  std::int64_t features_;
  Transform transform_;
  int members_;
  int parts_;
  FeatureHash hash_;
  std::vector<ChunkShape> shapes_;
  std::vector<ChunkView> views_;
  std::vector<std::vector<unsigned char>> blocks_;
  ExpectedFeatures expected_;
  std::vector<std::uint32_t> expected_codes_;  // chunk by chunk
};

// One model with the members of several over the same tree.
TreeModel merge_models(const std::vector<const TreeModel*>& models, int threads, Watch& watch);

// For each layer below the root, which node of an older tree each node was, or -1.
using Origins = std::vector<std::span<const std::int32_t>>;

// Of each child of a node, which lane of the older tree's chunk it was, or -1.
std::vector<std::int32_t> old_lanes(const LabelTree& old, const LabelTree& tree, const Origins& origins, int layer,
                                    std::int32_t node);

// How many weights of an older model lie in nodes that no node of the newer tree comes from.
std::int64_t weights_left_behind(const TreeModel& old, const Origins& origins);

// The older model over a tree with other labels. Row i of `weights` has those of the label at place i of the tree where
// `given` says so; the other labels keep theirs, and so do all nodes above.
TreeModel graft(const TreeModel& old, LabelTree tree, const Origins& origins, const SparseRows& weights,
                std::span<const std::uint8_t> given, int threads, Watch& watch, std::int64_t& more_weights);

}  // namespace hedgerow
