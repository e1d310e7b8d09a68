#include "forest.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>

namespace hedgerow {

namespace {
std::atomic<std::uint64_t> next_serial{1};
}

TreePaths::TreePaths(const LabelTree& tree) {
  const std::size_t depth = static_cast<std::size_t>(tree.depth());
  parents_.resize(depth + 1);
  below_.resize(depth + 1);
  widest_.assign(depth, 0);
  below_[depth].assign(tree.labels().size(), 1.0f);
  for (int layer = tree.depth() - 1; layer >= 0; --layer) {
    const std::size_t at = static_cast<std::size_t>(layer);
    const auto& begins = tree.begins()[at];
    parents_[at + 1].resize(static_cast<std::size_t>(tree.nodes(layer + 1)));
    below_[at].assign(static_cast<std::size_t>(tree.nodes(layer)), 0.0f);
    for (std::int32_t node = 0; node < tree.nodes(layer); ++node) {
      const std::size_t here = static_cast<std::size_t>(node);
      widest_[at] = std::max(widest_[at], begins[here + 1] - begins[here]);
      for (std::int32_t child = begins[here]; child < begins[here + 1]; ++child) {
        parents_[at + 1][static_cast<std::size_t>(child)] = node;
        below_[at][here] += below_[at + 1][static_cast<std::size_t>(child)];
      }
    }
  }
  const auto& labels = tree.labels();
  leaves_.assign(static_cast<std::size_t>(*std::max_element(labels.begin(), labels.end())) + 1, -1);
  places_ = leaves_;
  for (std::size_t place = 0; place < labels.size(); ++place) {
    leaves_[static_cast<std::size_t>(labels[place])] = parents_[depth][place];
    places_[static_cast<std::size_t>(labels[place])] = static_cast<std::int32_t>(place);
  }
}

Forest::Forest(std::vector<const TreeModel*> trees, std::int32_t labels, std::optional<Dropout> dropout)
    : serial_(next_serial.fetch_add(1)), trees_(std::move(trees)), labels_(labels), dropout_(std::move(dropout)) {
  if (trees_.empty()) throw std::invalid_argument("a forest needs a tree");
  if (dropout_ && (trees_.size() > 1 || trees_[0]->members() > 1))
    throw std::invalid_argument("dropout is for a single model");
  for (const TreeModel* tree : trees_) {
    if (tree->features() != trees_[0]->features())
      throw std::invalid_argument("the trees of a forest differ in their number of features");
    if (*std::max_element(tree->tree().labels().begin(), tree->tree().labels().end()) >= labels)
      throw std::invalid_argument("a tree has a label that the forest does not have");
    paths_.emplace_back(tree->tree());
    first_voice_.push_back(members_);
    members_ += voices(static_cast<int>(paths_.size()) - 1);
    lists_.push_back(std::make_unique<Lists>());
  }
}

const LabelLists* Forest::lists(int tree) const {
  Lists& lists = *lists_[static_cast<std::size_t>(tree)];
  std::call_once(lists.once, [&] {
    if (!dropout_) lists.made = LabelLists::of(model(tree));
  });
  return lists.made.get();
}

}  // namespace hedgerow
