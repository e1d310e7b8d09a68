// Which rows belong to which nodes of a label tree.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "label_tree.h"
#include "sparse.h"

namespace hedgerow {

// Lists of numbers, one for each owner.
struct Lists {
  std::vector<std::int64_t> begins = {0};
  std::vector<std::int32_t> items;

  std::span<const std::int32_t> operator[](std::int64_t owner) const {
    const std::int64_t begin = begins[static_cast<std::size_t>(owner)];
    return {items.data() + begin, static_cast<std::size_t>(begins[static_cast<std::size_t>(owner) + 1] - begin)};
  }
  std::int64_t owners() const { return static_cast<std::int64_t>(begins.size()) - 1; }
  void close_list() { begins.push_back(static_cast<std::int64_t>(items.size())); }
};

// Neighbouring nodes of a layer, from `first` up to `last`: what can be trained apart from the rest of the tree.
struct Block {
  int layer = 0;
  std::int32_t first = 0, last = 1;
};

// From "nodes of each row" to "rows of each node"; rows come out ascending.
Lists invert(const Lists& lists, std::int32_t owners);

// The items that an owner has in either.
Lists unite(const Lists& a, const Lists& b);

// For every layer below the root, from that of the block down to `lowest`, the nodes of the block or below it that each
// row belongs to, ascending.
std::vector<Lists> memberships(const SparseRows& Y, const LabelTree& tree, const Block& block, int lowest);

}  // namespace hedgerow
