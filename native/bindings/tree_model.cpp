// Trained trees, for Python.
#include "tree_model.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "beam_search.h"
#include "rows.h"
#include "trees.h"

using namespace hedgerow;
using namespace nb::literals;

namespace {

constexpr int kMostMembers = 4096;

struct TopLabels {
  Numpy<std::int32_t, 2> labels;
  Numpy<float, 2> probabilities;
};

struct GraftedTree {
  nb::object model;
  std::int64_t more_weights;
};

struct BestNodes {
  Numpy<std::int32_t, 2> nodes;
  Numpy<float, 2> logs;
};

struct ChunkEntries {
  Numpy<std::int32_t> features, lanes;
  Numpy<float> weights, bias;
};

Model* open_model(const Vectors<std::int32_t>& begins, const Vector<std::int32_t>& labels, std::int64_t features,
                  const std::string& transform, int members, int parts, Array<std::uint64_t, 2> table,
                  Vector<std::uint8_t> weights, bool deep, int threads) {
  if (table.shape(1) != 6) throw nb::value_error("the table of chunks must have six columns");
  if (members < 1 || members > kMostMembers || parts < 1 || parts > 3)
    throw nb::value_error("impossible number of members or parts");
  if (features < 1 || features > (std::int64_t{1} << 31) - 1) throw nb::value_error("impossible number of features");
  if (reinterpret_cast<std::uintptr_t>(weights.data()) % 16 != 0) throw nb::value_error("weights are not aligned");
  std::vector<ChunkShape> shapes(table.shape(0));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::uint64_t* row = table.data() + 6 * i;
    if (row[2] > 0x7fffffffu || row[3] > 0x7fffffffu || row[4] > 0x7fffffffu || row[5] > 32)
      throw nb::value_error("chunk with an impossible shape");
    shapes[i] = {row[0],
                 row[1],
                 static_cast<std::uint32_t>(row[2]),
                 static_cast<std::uint32_t>(row[3]),
                 static_cast<std::uint32_t>(row[4]),
                 static_cast<std::uint32_t>(row[5])};
  }
  PythonWatch watch;
  auto tree = make_tree(begins, labels);
  const Transform kind = transform == "sigmoid" ? Transform::sigmoid : Transform::l3_hinge;
  TreeModel model = without_gil([&] {
    return TreeModel(std::move(tree), features, kind, members, parts, std::move(shapes), weights.data(), weights.size(),
                     deep, resolve_threads(threads), watch);
  });
  return new Model(std::move(model), weights.owner());
}

Model* merge(const std::vector<const Model*>& models, int threads, nb::object progress) {
  if (models.empty()) throw nb::value_error("there is nothing to merge");
  PythonWatch watch(std::move(progress));
  return without_gil([&] {
    std::vector<const TreeModel*> members;
    for (const Model* model : models) members.push_back(&model->get());
    return new Model(merge_models(members, resolve_threads(threads), watch));
  });
}

// A model from the weights of each node, in any order: (features, lanes, weights, bias). In three parts, weights keep
// float32.
using NodeWeights = std::tuple<Vector<std::int32_t>, Vector<std::int32_t>, Vector<float>, Vector<float>>;
Model* assemble(const Vectors<std::int32_t>& begins, const Vector<std::int32_t>& labels, std::int64_t features,
                const std::string& transform, const std::vector<NodeWeights>& nodes, int parts) {
  if (parts < 1 || parts > 3) throw nb::value_error("a weight has one to three parts");
  const Transform kind = transform == "sigmoid" ? Transform::sigmoid : Transform::l3_hinge;
  TreeModel model(make_tree(begins, labels), features, kind, 1, parts);
  if (static_cast<std::int64_t>(nodes.size()) != model.tree().chunks())
    throw nb::value_error("there must be weights for every inner node");
  std::size_t chunk = 0;
  for (int layer = 0; layer < model.tree().depth(); ++layer)
    for (std::int32_t node = 0; node < model.tree().nodes(layer); ++node, ++chunk) {
      const auto& [columns, lanes, weights, bias] = nodes[chunk];
      const std::size_t children =
          static_cast<std::size_t>(model.tree().child_begin(layer, node + 1) - model.tree().child_begin(layer, node));
      if (bias.size() != children || lanes.size() != columns.size() || weights.size() != columns.size())
        throw nb::value_error("the weights of a node do not fit its children");
      std::vector<ChunkEntry> entries;
      std::vector<float> biases(children * static_cast<std::size_t>(parts), 0.0f);
      std::copy_n(bias.data(), children, biases.begin());
      for (std::size_t i = 0; i < columns.size(); ++i) {
        if (columns.data()[i] < 0 || columns.data()[i] >= features || lanes.data()[i] < 0 ||
            static_cast<std::size_t>(lanes.data()[i]) >= children || !std::isfinite(weights.data()[i]))
          throw nb::value_error("a weight out of range");
        float rest = weights.data()[i];
        for (int part = 0; part < parts && rest != 0; ++part) {
          const float here = from_bfloat16(to_bfloat16(rest));
          entries.push_back({columns.data()[i],
                             static_cast<std::uint32_t>(lanes.data()[i]) +
                                 static_cast<std::uint32_t>(part) * static_cast<std::uint32_t>(children),
                             here});
          rest -= here;
        }
      }
      ChunkShape shape;
      auto block = pack_entries(model.hash(), std::move(entries), biases, shape);
      model.set_chunk(chunk, std::move(block), shape);
    }
  model.lay_out();
  return new Model(std::move(model));
}

GraftedTree graft_tree(const Model& old, const Vectors<std::int32_t>& begins, const Vector<std::int32_t>& labels,
                       const Vectors<std::int32_t>& origins, const Rows& weights, const Vector<std::uint8_t>& given,
                       int threads) {
  LabelTree tree = make_tree(begins, labels);
  const Origins from = read_origins(origins, old.get().tree(), tree);
  const auto count = static_cast<std::size_t>(tree.nodes(tree.depth()));
  if (old.get().members() != 1 || old.get().parts() != 1 || weights.view().columns != old.get().features() ||
      weights.view().rows != static_cast<std::int64_t>(count) || given.size() != count)
    throw nb::value_error("the weights do not fit the trees");
  std::int64_t more = 0;
  auto* model = without_gil([&] {
    Watch watch;
    return new Model(graft(old.get(), std::move(tree), from, weights.view(), {given.data(), given.size()},
                           resolve_threads(threads), watch, more));
  });
  return {nb::cast(model, nb::rv_policy::take_ownership), more};
}

TopLabels top(const Model& model, const Rows& X, int k, int beam, bool normalise, bool best_first, int threads,
              nb::object progress, const Subset* subset) {
  if (model.get().members() != 1) throw nb::value_error("a tree of several members belongs into a Forest");
  const auto rows = static_cast<std::size_t>(X.view().rows), columns = static_cast<std::size_t>(k);
  auto labels = std::make_unique_for_overwrite<std::int32_t[]>(rows * columns);
  auto probabilities = std::make_unique_for_overwrite<float[]>(rows * columns);
  SearchOptions options;
  options.k = k;
  options.beam = beam;
  options.normalise = normalise;
  options.best_first = best_first;
  if (subset) {
    options.subset = &subset->get().of(0);
    if (&options.subset->tree() != &model.get().tree()) throw nb::value_error("the subset is that of another tree");
    if (k > options.subset->labels()) throw nb::value_error("the subset has fewer than k labels");
  }
  {
    PythonWatch watch(std::move(progress));
    nb::gil_scoped_release release;
    top_labels(model.get(), X.view(), options, resolve_threads(threads), watch, labels.get(), probabilities.get());
  }
  return {matrix(std::move(labels), rows, columns), matrix(std::move(probabilities), rows, columns)};
}

BestNodes best_nodes(const Model& model, const Rows& X, int layer, int k, int beam, bool normalise, int threads) {
  if (model.get().members() != 1) throw nb::value_error("members that share a tree have no beam of their own");
  if (layer < 1 || layer > model.get().tree().depth() || k < 1 || k > model.get().tree().nodes(layer))
    throw nb::value_error("no such layer, or fewer nodes in it");
  const auto rows = static_cast<std::size_t>(X.view().rows), columns = static_cast<std::size_t>(k);
  auto nodes = std::make_unique_for_overwrite<std::int32_t[]>(rows * columns);
  auto logs = std::make_unique_for_overwrite<float[]>(rows * columns);
  {
    PythonWatch watch;
    nb::gil_scoped_release release;
    top_nodes(model.get(), X.view(), layer, k, beam, normalise, resolve_threads(threads), watch, nodes.get(),
              logs.get());
  }
  return {matrix(std::move(nodes), rows, columns), matrix(std::move(logs), rows, columns)};
}

Numpy<std::uint64_t, 2> table_of(const Model& model) { return to_table(model.get().shapes()); }

ChunkEntries chunk_entries(const Model& model, std::int64_t chunk) {
  if (chunk < 0 || chunk >= model.get().tree().chunks()) throw nb::index_error("no such chunk");
  const auto& shape = model.get().shapes()[static_cast<std::size_t>(chunk)];
  const ChunkView view = view_chunk(model.get().bytes(static_cast<std::size_t>(chunk)), shape, model.get().hash());
  std::vector<std::int32_t> features;
  std::vector<std::int32_t> lanes;
  std::vector<float> weights;
  for (const ChunkEntry& entry : unpack_chunk(view)) {
    features.push_back(entry.feature);
    lanes.push_back(static_cast<std::int32_t>(entry.lane));
    weights.push_back(entry.weight);
  }
  std::vector<float> bias(view.bias, view.bias + view.lanes);
  return {to_numpy(std::move(features)), to_numpy(std::move(lanes)), to_numpy(std::move(weights)),
          to_numpy(std::move(bias))};
}

}  // namespace

void bind_tree_model(nb::module_& m) {
  Results<TopLabels>(m, "TopLabels", "The best labels of each row and their probabilities, (rows, k).")
      .field("labels", &TopLabels::labels)
      .field("probabilities", &TopLabels::probabilities);
  Results<GraftedTree>(m, "GraftedTree", "A model with other weights, and how many more it has.")
      .field("model", &GraftedTree::model, nb::sig("def model(self) -> TreeModel"))
      .field("more_weights", &GraftedTree::more_weights);
  Results<BestNodes>(m, "BestNodes", "The best nodes of each row and the logarithms of their probabilities, (rows, k).")
      .field("nodes", &BestNodes::nodes)
      .field("logs", &BestNodes::logs);
  Results<ChunkEntries>(m, "ChunkEntries", "The weights of a chunk, entry by entry, and the bias of each lane.")
      .field("features", &ChunkEntries::features)
      .field("lanes", &ChunkEntries::lanes)
      .field("weights", &ChunkEntries::weights)
      .field("bias", &ChunkEntries::bias);
  nb::class_<Model>(m, "TreeModel", "A label tree with its weights.")
      .def_static("open", &open_model, "begins"_a, "labels"_a, "features"_a, "transform"_a, "members"_a, "parts"_a,
                  "table"_a, "weights"_a, "deep"_a, "threads"_a, nb::rv_policy::take_ownership)
      .def("top", &top, "X"_a, "k"_a, "beam"_a, "normalise"_a, "best_first"_a, "threads"_a, "progress"_a.none(),
           "subset"_a.none() = nb::none(), "The best k labels of each row, all or those of a subset.")
      .def("best_nodes", &best_nodes, "X"_a, "layer"_a, "k"_a, "beam"_a, "normalise"_a, "threads"_a,
           "The best k nodes of a layer for each row.")
      .def("table", &table_of, "One row per chunk: begin, bytes, lanes, home buckets, buckets, unit shift.")
      .def(
          "block",
          [](nb::handle self, std::int64_t chunk) {
            const Model& model = nb::cast<const Model&>(self);
            const auto& shapes = model.get().shapes();
            if (chunk < 0 || chunk >= static_cast<std::int64_t>(shapes.size())) throw nb::index_error("no such chunk");
            const auto at = static_cast<std::size_t>(chunk);
            return nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>(model.get().bytes(at), {shapes[at].bytes},
                                                                           self);
          },
          "chunk"_a, "The bytes of a chunk, not copied.")
      .def("chunk_entries", &chunk_entries, "chunk"_a, "The weights of a chunk.")
      .def("expect", &Model::expect, "shared"_a, "first"_a, "last"_a, "threads"_a,
           "Nearly every row has all features from `first` to `last` - 1, and others from `shared` on are not for this "
           "model; changes no result.");

  m.def("merge", &merge, "models"_a, "threads"_a, "progress"_a.none(), nb::rv_policy::take_ownership,
        "One model with the members of several that share a tree.");
  m.def("graft", &graft_tree, "old"_a, "begins"_a, "labels"_a, "origins"_a, "weights"_a, "given"_a, "threads"_a,
        "A model over a tree with other labels; of some, weights are given, the others keep theirs.");
  m.def("assemble", &assemble, "begins"_a, "labels"_a, "features"_a, "transform"_a, "nodes"_a, "parts"_a = 3,
        nb::rv_policy::take_ownership, "A model from (features, lanes, weights, bias) of each inner node.");
}
