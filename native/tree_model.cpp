#include "tree_model.h"

#include <stdexcept>
#include <string>

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
