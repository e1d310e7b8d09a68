#include "label_subset.h"

#include <algorithm>
#include <numeric>

namespace hedgerow {

TreeSubset::TreeSubset(const LabelTree& tree, std::span<const unsigned char> allowed) : tree_(&tree) {
  const auto depth = static_cast<std::size_t>(tree.depth());
  leads_.resize(depth + 1);
  below_.resize(depth);
  leads_[depth].resize(tree.labels().size());
  for (std::size_t place = 0; place < tree.labels().size(); ++place)
    leads_[depth][place] = allowed[static_cast<std::size_t>(tree.labels()[place])];
  for (std::size_t layer = depth; layer-- > 0;) {
    const auto& begins = tree.begins()[layer];
    leads_[layer].resize(begins.size() - 1);
    below_[layer].resize(begins.size() - 1);
    const auto sum = [&](const auto& children, std::size_t node) {
      return std::accumulate(children.begin() + begins[node], children.begin() + begins[node + 1], 0.0f);
    };
    for (std::size_t node = 0; node + 1 < begins.size(); ++node) {
      below_[layer][node] = layer + 1 == depth ? sum(leads_[depth], node) : sum(below_[layer + 1], node);
      leads_[layer][node] = below_[layer][node] > 0;
    }
  }
  for (const float count : below_.back())
    if (count > 0) smallest_.push_back(static_cast<std::int64_t>(count));
  std::sort(smallest_.begin(), smallest_.end());
  std::partial_sum(smallest_.begin(), smallest_.end(), smallest_.begin());
}

std::int32_t TreeSubset::nodes_for(std::int32_t k) const {
  const auto enough = std::lower_bound(smallest_.begin(), smallest_.end(), static_cast<std::int64_t>(k));
  return static_cast<std::int32_t>(std::min(enough - smallest_.begin() + 1, std::ssize(smallest_)));
}

LabelSubset::LabelSubset(const Forest& forest, std::span<const std::int32_t> labels) : serial_(forest.serial()) {
  std::vector<unsigned char> allowed(static_cast<std::size_t>(forest.labels()), 0);
  for (const std::int32_t label : labels) allowed[static_cast<std::size_t>(label)] = 1;
  size_ = std::count(allowed.begin(), allowed.end(), 1);
  for (int tree = 0; tree < forest.trees(); ++tree) trees_.emplace_back(forest.model(tree).tree(), allowed);
}

std::int32_t LabelSubset::leaves_for(std::int32_t k) const {
  std::int32_t most = 0;
  for (const TreeSubset& tree : trees_) most = std::max(most, tree.nodes_for(k));
  return most;
}

void AllowedChildren::pick(const TreeSubset& subset, int layer, Range<std::int32_t> children, const float* logs) {
  const LabelTree& tree = subset.tree();
  const bool labels = layer == tree.depth();
  logs_.clear();
  nodes_.clear();
  for (const std::int32_t node : children) {
    if (!subset.has(layer, node)) continue;
    logs_.push_back(logs[node - children.first]);
    nodes_.push_back(labels ? tree.labels()[static_cast<std::size_t>(node)] : node);
  }
}

}  // namespace hedgerow
