#include "memberships.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace hedgerow {

Lists invert(const Lists& lists, std::int32_t owners) {
  Lists out;
  out.begins.assign(static_cast<std::size_t>(owners) + 1, 0);
  for (const std::int32_t item : lists.items) ++out.begins[static_cast<std::size_t>(item) + 1];
  std::partial_sum(out.begins.begin(), out.begins.end(), out.begins.begin());
  out.items.resize(lists.items.size());
  std::vector<std::int64_t> next(out.begins.begin(), out.begins.end() - 1);
  for (std::int64_t row = 0; row < lists.owners(); ++row)
    for (const std::int32_t item : lists[row])
      out.items[static_cast<std::size_t>(next[static_cast<std::size_t>(item)]++)] = static_cast<std::int32_t>(row);
  return out;
}

Lists unite(const Lists& a, const Lists& b) {
  Lists out;
  for (std::int64_t owner = 0; owner < a.owners(); ++owner) {
    std::set_union(a[owner].begin(), a[owner].end(), b[owner].begin(), b[owner].end(), std::back_inserter(out.items));
    out.close_list();
  }
  return out;
}

std::vector<Lists> memberships(const SparseRows& Y, const LabelTree& tree, const Block& block, int lowest) {
  std::int32_t first_label = block.first, last_label = block.last;
  for (int layer = block.layer; layer < tree.depth(); ++layer) {
    first_label = tree.child_begin(layer, first_label);
    last_label = tree.child_begin(layer, last_label);
  }
  const std::int32_t highest = *std::max_element(tree.labels().begin(), tree.labels().end());
  std::vector<std::int32_t> position(
      static_cast<std::size_t>(std::max<std::int64_t>(Y.columns, highest + std::int64_t{1})), -1);
  for (std::int32_t i = first_label; i < last_label; ++i)
    position[static_cast<std::size_t>(tree.labels()[static_cast<std::size_t>(i)])] = i;

  std::vector<Lists> layers(static_cast<std::size_t>(tree.depth()) + 1);
  Lists& last = layers.back();
  const auto wanted = [&](std::int32_t label) { return position[static_cast<std::size_t>(label)] >= 0; };
  last.items.reserve(static_cast<std::size_t>(std::count_if(Y.indices, Y.indices + Y.size(), wanted)));
  last.begins.reserve(static_cast<std::size_t>(Y.rows) + 1);
  for (std::int64_t row = 0; row < Y.rows; ++row) {
    const SparseRow labels = Y[row];
    const std::size_t begin = last.items.size();
    for (std::int64_t i = 0; i < labels.size; ++i)
      if (const std::int32_t at = position[static_cast<std::size_t>(labels.indices[i])]; at >= 0)
        last.items.push_back(at);
    std::sort(last.items.begin() + static_cast<std::ptrdiff_t>(begin), last.items.end());
    last.close_list();
  }
  for (int layer = tree.depth() - 1; layer >= std::max(1, block.layer); --layer) {
    const auto& begins = tree.begins()[static_cast<std::size_t>(layer)];
    std::vector<std::int32_t> parent(static_cast<std::size_t>(tree.nodes(layer + 1)));
    for (std::int32_t node = 0; node < tree.nodes(layer); ++node)
      std::fill(parent.begin() + begins[static_cast<std::size_t>(node)],
                parent.begin() + begins[static_cast<std::size_t>(node) + 1], node);
    Lists& below = layers[static_cast<std::size_t>(layer) + 1];
    Lists& here = layers[static_cast<std::size_t>(layer)];
    here.items.reserve(below.items.size());
    here.begins.reserve(below.begins.size());
    for (std::int64_t row = 0; row < below.owners(); ++row) {
      const std::size_t begin = here.items.size();
      for (const std::int32_t child : below[row]) {
        const std::int32_t node = parent[static_cast<std::size_t>(child)];
        if (here.items.size() == begin || here.items.back() != node) here.items.push_back(node);
      }
      here.close_list();
    }
    if (layer + 1 > lowest) below = {};
  }
  return layers;
}

}  // namespace hedgerow
