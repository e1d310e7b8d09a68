#include "tree_model.h"

#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>

#include "chunk_merge.h"

namespace hedgerow {

TreeModel::TreeModel(LabelTree tree, std::int64_t features, Transform transform, int members, int parts)
    : tree_(std::move(tree)),
      features_(features),
      transform_(transform),
      members_(members),
      parts_(parts),
      hash_(features),
      shapes_(static_cast<std::size_t>(tree_.chunks())),
      views_(shapes_.size()),
      blocks_(shapes_.size()) {}

TreeModel::TreeModel(LabelTree tree, std::int64_t features, Transform transform, int members, int parts,
                     std::vector<ChunkShape> shapes, const unsigned char* bytes, std::uint64_t size, bool deep,
                     int threads, Watch& watch)
    : tree_(std::move(tree)),
      features_(features),
      transform_(transform),
      members_(members),
      parts_(parts),
      hash_(features),
      shapes_(std::move(shapes)) {
  if (shapes_.size() != static_cast<std::size_t>(tree_.chunks()))
    throw std::invalid_argument("the table lists " + std::to_string(shapes_.size()) + " chunks, the tree has " +
                                std::to_string(tree_.chunks()) + " inner nodes");
  views_.reserve(shapes_.size());
  std::uint64_t expected = 0;
  for (int layer = 0; layer < tree_.depth(); ++layer) {
    for (std::int32_t node = 0; node < tree_.nodes(layer); ++node) {
      const ChunkShape& shape = shapes_[views_.size()];
      const std::string name = "chunk " + std::to_string(views_.size());
      if (shape.begin != expected || shape.bytes > size - shape.begin || shape.bytes % 64 != 0)
        throw std::invalid_argument(name + " lies outside the section or out of order");
      expected = shape.begin + shape.bytes;
      const std::int32_t children = tree_.child_begin(layer, node + 1) - tree_.child_begin(layer, node);
      if (shape.lanes != static_cast<std::uint64_t>(children) * static_cast<std::uint64_t>(members * parts))
        throw std::invalid_argument(name + " has " + std::to_string(shape.lanes) + " lanes for " +
                                    std::to_string(children) + " children of " + std::to_string(members) + " members");
      views_.push_back(view_chunk(bytes + shape.begin, shape, hash_));
    }
  }
  if (expected != size) throw std::invalid_argument("the chunks do not fill the section");
  if (deep)
    parallel_for(views_.size(), threads, watch,
                 [&](std::size_t chunk, int) { validate_chunk(views_[chunk], shapes_[chunk]); });
}

void TreeModel::set_chunk(std::size_t chunk, std::vector<unsigned char>&& block, const ChunkShape& shape) {
  blocks_[chunk] = std::move(block);
  shapes_[chunk] = shape;
  views_[chunk] = view_chunk(blocks_[chunk].data(), shape, hash_);
}

void TreeModel::lay_out() {
  std::uint64_t at = 0;
  for (ChunkShape& shape : shapes_) {
    shape.begin = at;
    at += shape.bytes;
  }
}

void TreeModel::expect(const ExpectedFeatures& expected, int threads, Watch& watch) {
  if (expected.shared < 0 || expected.shared > expected.first || expected.first > expected.last ||
      expected.last > features_)
    throw std::invalid_argument("no such features: " + std::to_string(expected.shared) + ", " +
                                std::to_string(expected.first) + " to " + std::to_string(expected.last));
  std::vector<std::uint32_t> codes(expected.count() * views_.size());
  parallel_for(views_.size(), threads, watch, [&](std::size_t chunk, int) {
    expected_codes(views_[chunk], expected, {codes.data() + expected.count() * chunk, expected.count()});
  });
  expected_codes_ = std::move(codes);
  for (std::size_t chunk = 0; chunk < views_.size(); ++chunk)
    views_[chunk].expected = expected_codes_.data() + expected.count() * chunk;
  expected_ = expected;
}

std::vector<std::int32_t> old_lanes(const LabelTree& old, const LabelTree& tree, const Origins& origins, int layer,
                                    std::int32_t node) {
  const auto below = static_cast<std::size_t>(layer);
  const std::int32_t first = tree.child_begin(layer, node), last = tree.child_begin(layer, node + 1);
  std::vector<std::int32_t> lanes(static_cast<std::size_t>(last - first), -1);
  const std::int32_t before = layer == 0 ? 0 : origins[below - 1][static_cast<std::size_t>(node)];
  if (before < 0) return lanes;
  const std::int32_t begin = old.child_begin(layer, before), end = old.child_begin(layer, before + 1);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const std::int32_t origin = origins[below][static_cast<std::size_t>(first) + lane];
    if (origin >= begin && origin < end) lanes[lane] = origin - begin;
  }
  return lanes;
}

std::int64_t weights_left_behind(const TreeModel& old, const Origins& origins) {
  std::int64_t weights = 0;
  std::vector<ChunkEntry> entries;
  for (int layer = 1; layer < old.tree().depth(); ++layer) {
    std::vector<bool> kept(static_cast<std::size_t>(old.tree().nodes(layer)), false);
    for (const std::int32_t origin : origins[static_cast<std::size_t>(layer) - 1])
      if (origin >= 0) kept[static_cast<std::size_t>(origin)] = true;
    for (std::size_t node = 0; node < kept.size(); ++node) {
      if (kept[node]) continue;
      unpack_chunk(old.chunk(layer, static_cast<std::int32_t>(node)), entries);
      weights += static_cast<std::int64_t>(entries.size());
    }
  }
  return weights;
}

TreeModel graft(const TreeModel& old, LabelTree tree, const Origins& origins, const SparseRows& weights,
                std::span<const std::uint8_t> given, int threads, Watch& watch, std::int64_t& more_weights) {
  TreeModel model(std::move(tree), old.features(), old.transform());
  const LabelTree& own = model.tree();
  std::vector<std::pair<int, std::int32_t>> nodes;
  for (int layer = 0; layer < own.depth(); ++layer)
    for (std::int32_t node = 0; node < own.nodes(layer); ++node) nodes.emplace_back(layer, node);
  std::vector<ChunkMerge> merges(static_cast<std::size_t>(threads));
  std::atomic<std::int64_t> more{0};
  watch.plan(static_cast<double>(nodes.size()));
  parallel_for(nodes.size(), threads, watch, [&](std::size_t number, int worker) {
    const auto [layer, node] = nodes[number];
    ChunkMerge& merge = merges[static_cast<std::size_t>(worker)];
    const std::vector<std::int32_t> lanes = old_lanes(old.tree(), own, origins, layer, node);
    merge.start(model.features(), lanes.size());
    const std::int32_t before =
        layer == 0 ? 0 : origins[static_cast<std::size_t>(layer) - 1][static_cast<std::size_t>(node)];
    if (before >= 0) merge.take_old(old.chunk(layer, before), lanes);
    if (layer + 1 == own.depth()) {
      const auto first = static_cast<std::size_t>(own.child_begin(layer, node));
      std::vector<std::int32_t> again;
      std::vector<std::int64_t> rows;
      for (std::size_t lane = 0; lane < lanes.size(); ++lane)
        if (given[first + lane] != 0) {
          again.push_back(static_cast<std::int32_t>(lane));
          rows.push_back(static_cast<std::int64_t>(first + lane));
        }
      if (!again.empty()) merge.replace_with(again, weights, rows);
    } else {
      for (std::size_t lane = 0; lane < lanes.size(); ++lane)  // the way to a node that is new is as sure as to others
        if (lanes[lane] < 0) merge.set_bias(lane, old.chunk(layer, 0).bias[0]);
    }
    ChunkShape shape;
    auto block = merge.pack(model.hash(), shape);
    model.set_chunk(static_cast<std::size_t>(own.chunk(layer, node)), std::move(block), shape);
    more += merge.weights() - merge.old_weights();
    watch.advance(1.0);
  });
  model.lay_out();
  more_weights = more - weights_left_behind(old, origins);
  return model;
}

TreeModel merge_models(const std::vector<const TreeModel*>& models, int threads, Watch& watch) {
  const TreeModel& first = *models.at(0);
  int members = 0;
  for (const TreeModel* model : models) {
    if (model->tree().begins() != first.tree().begins() || model->tree().labels() != first.tree().labels() ||
        model->features() != first.features() || model->transform() != first.transform() || model->parts() != 1)
      throw std::invalid_argument("members can share a tree only if they were trained on it");
    members += model->members();
  }
  TreeModel merged(first.tree(), first.features(), first.transform(), members);
  watch.plan(static_cast<double>(first.tree().chunks()));
  parallel_for(static_cast<std::size_t>(first.tree().chunks()), threads, watch, [&](std::size_t chunk, int) {
    std::vector<ChunkEntry> entries;
    std::vector<float> bias;
    for (const TreeModel* model : models) {
      const ChunkView view = view_chunk(model->bytes(chunk), model->shapes()[chunk], model->hash());
      for (ChunkEntry entry : unpack_chunk(view)) {
        entry.lane += static_cast<std::uint32_t>(bias.size());
        entries.push_back(entry);
      }
      bias.insert(bias.end(), view.bias, view.bias + view.lanes);
    }
    ChunkShape shape;
    auto block = pack_entries(merged.hash(), std::move(entries), bias, shape);
    merged.set_chunk(chunk, std::move(block), shape);
    watch.advance(1.0);
  });
  merged.lay_out();
  return merged;
}

}  // namespace hedgerow
