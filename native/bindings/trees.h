// Label trees and tree models, for all binding files that take them.
#pragma once

#include <utility>
#include <vector>

#include "bindings.h"
#include "label_subset.h"
#include "label_tree.h"
#include "tree_model.h"

// A TreeModel and whatever Python memory its chunks lie in.
class Model {
 public:
  explicit Model(hedgerow::TreeModel&& model) : model_(std::move(model)) {}
  Model(hedgerow::TreeModel&& model, nb::object keeper) : model_(std::move(model)), keeper_(std::move(keeper)) {}
  const hedgerow::TreeModel& get() const { return model_; }
  void expect(std::int64_t shared, std::int64_t first, std::int64_t last, int threads) {
    without_gil([&] {
      hedgerow::Watch watch;
      model_.expect({shared, first, last}, hedgerow::resolve_threads(threads), watch);
      return 0;
    });
  }

 private:
  hedgerow::TreeModel model_;
  nb::object keeper_;
};

// Allowed labels, and the Python forest whose trees they are in.
class Subset {
 public:
  Subset(hedgerow::LabelSubset&& subset, nb::object forest) : subset_(std::move(subset)), forest_(std::move(forest)) {}
  const hedgerow::LabelSubset& get() const { return subset_; }

 private:
  hedgerow::LabelSubset subset_;
  nb::object forest_;
};

inline hedgerow::LabelTree make_tree(const Vectors<std::int32_t>& begins, const Vector<std::int32_t>& labels) {
  std::vector<std::vector<std::int32_t>> layers;
  for (const auto& layer : begins.get()) layers.emplace_back(layer.data(), layer.data() + layer.size());
  return hedgerow::LabelTree(std::move(layers),
                             std::vector<std::int32_t>(labels.data(), labels.data() + labels.size()));
}

// Which node of an older tree each node was, checked.
inline hedgerow::Origins read_origins(const Vectors<std::int32_t>& origins, const hedgerow::LabelTree& old,
                                      const hedgerow::LabelTree& tree) {
  if (tree.depth() != old.depth() || origins.get().size() != static_cast<std::size_t>(tree.depth()))
    throw nb::value_error("origins have an array for each layer, and both trees the same depth");
  hedgerow::Origins found;
  for (int layer = 1; layer <= tree.depth(); ++layer) {
    const auto& own = origins.get()[static_cast<std::size_t>(layer) - 1];
    if (own.size() != static_cast<std::size_t>(tree.nodes(layer))) throw nb::value_error("origins do not fit the tree");
    for (std::size_t node = 0; node < own.size(); ++node)
      if (own.data()[node] < -1 || own.data()[node] >= old.nodes(layer))
        throw nb::value_error("no such node to come from");
    found.emplace_back(own.data(), own.size());
  }
  return found;
}

// One row per chunk: begin, bytes, lanes, home buckets, buckets, unit shift.
inline Numpy<std::uint64_t, 2> to_table(const std::vector<hedgerow::ChunkShape>& shapes) {
  auto rows = std::make_unique<std::uint64_t[]>(6 * shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const hedgerow::ChunkShape& s = shapes[i];
    const std::uint64_t row[6] = {s.begin, s.bytes, s.lanes, s.homes, s.buckets, s.unit_shift};
    std::copy(row, row + 6, rows.get() + 6 * i);
  }
  return matrix(std::move(rows), shapes.size(), 6);
}
