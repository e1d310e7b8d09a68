// Several trees that vote together: the members of an ensemble.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "dropout.h"
#include "label_lists.h"
#include "tree_model.h"

namespace hedgerow {

// The ways up and down a label tree that a vote needs.
class TreePaths {
 public:
  explicit TreePaths(const LabelTree& tree);
  // Parent of a node of layer >= 1.
  std::int32_t parent(int layer, std::int32_t node) const {
    return parents_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(node)];
  }
  // The node of the last inner layer that a label is below; -1 if the tree does not have it.
  std::int32_t leaf(std::int32_t label) const {
    return static_cast<std::size_t>(label) < leaves_.size() ? leaves_[static_cast<std::size_t>(label)] : -1;
  }
  // Where a label that the tree has stands among its labels.
  std::int32_t place(std::int32_t label) const { return places_[static_cast<std::size_t>(label)]; }
  // Labels below a node.
  float labels_below(int layer, std::int32_t node) const {
    return below_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(node)];
  }
  // Most children of a node of the layer.
  std::int32_t widest(int layer) const { return widest_[static_cast<std::size_t>(layer)]; }

 private:
  std::vector<std::vector<std::int32_t>> parents_;
  std::vector<std::vector<float>> below_;
  std::vector<std::int32_t> leaves_, places_, widest_;
};

class Forest {
 public:
  // `labels` is the number of labels of all trees together. Dropout makes the passes of one tree its members.
  Forest(std::vector<const TreeModel*> trees, std::int32_t labels, std::optional<Dropout> dropout);

  Forest(const Forest&) = delete;
  Forest& operator=(const Forest&) = delete;

  // No other forest has this number, even one that comes to lie at the same address later.
  std::uint64_t serial() const { return serial_; }
  int trees() const { return static_cast<int>(trees_.size()); }
  const TreeModel& model(int tree) const { return *trees_[static_cast<std::size_t>(tree)]; }
  const TreePaths& paths(int tree) const { return paths_[static_cast<std::size_t>(tree)]; }
  // What is read in place of a tree's chunks where candidates are scored; null where chunks are.
  const LabelLists* lists(int tree) const;
  const Dropout* dropout() const { return dropout_ ? &*dropout_ : nullptr; }
  std::int32_t labels() const { return labels_; }

  int members() const { return members_; }
  // Members of one tree, and how many come before them.
  int voices(int tree) const { return dropout_ ? dropout_->passes() : model(tree).members(); }
  int first_voice(int tree) const { return first_voice_[static_cast<std::size_t>(tree)]; }

 private:
  std::uint64_t serial_;
  std::vector<const TreeModel*> trees_;
  std::vector<TreePaths> paths_;
  // Made when they are needed first.
  struct Lists {
    std::once_flag once;
    std::unique_ptr<const LabelLists> made;
  };
  std::vector<std::unique_ptr<Lists>> lists_;
  std::vector<int> first_voice_;
  std::int32_t labels_;
  std::optional<Dropout> dropout_;
  int members_ = 0;
};

}  // namespace hedgerow
