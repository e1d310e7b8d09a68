#include "tree_model.h"

#include <stdexcept>
#include <string>

namespace hedgerow {

TreeModel::TreeModel(LabelTree tree, std::int64_t features, Transform transform)
    : tree_(std::move(tree)),
      features_(features),
      transform_(transform),
      hash_(features),
      shapes_(static_cast<std::size_t>(tree_.chunks())),
      views_(shapes_.size()),
      blocks_(shapes_.size()) {}

TreeModel::TreeModel(LabelTree tree, std::int64_t features, Transform transform, std::vector<ChunkShape> shapes,
                     const unsigned char* bytes, std::uint64_t size, bool deep, int threads, Watch& watch)
    : tree_(std::move(tree)), features_(features), transform_(transform), hash_(features), shapes_(std::move(shapes)) {
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
      if (shape.lanes != static_cast<std::uint32_t>(children))
        throw std::invalid_argument(name + " has " + std::to_string(shape.lanes) + " lanes for " +
                                    std::to_string(children) + " children");
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

}  // namespace hedgerow
