// The label tree, the trainer and the search, for Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "beam_search.h"
#include "bindings.h"
#include "hard_negatives.h"
#include "label_tree.h"
#include "row_hash.h"
#include "rows.h"
#include "trainer.h"
#include "trees.h"

using namespace hedgerow;
using namespace nb::literals;

namespace {

constexpr int kMostMembers = 4096;

nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<1>> hashes_of(const Rows& rows, int threads) {
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(rows.view().rows));
  {
    nb::gil_scoped_release release;
    hash_rows(rows.view(), resolve_threads(threads), hashes.data());
  }
  return to_numpy(std::move(hashes));
}

// The arrays as they lie in memory, for whoever sends them elsewhere.
template <class T>
nb::ndarray<nb::numpy, const T, nb::ndim<1>> seen(const T* data, std::size_t size, nb::handle owner) {
  return nb::ndarray<nb::numpy, const T, nb::ndim<1>>(data, {size}, owner);
}

nb::tuple arrays_of(nb::handle self) {
  const Rows& rows = nb::cast<const Rows&>(self);
  const SparseRows& view = rows.view();
  return nb::make_tuple(
      seen(view.indptr, static_cast<std::size_t>(view.rows) + 1, self), seen(view.indices, rows.entries(), self),
      rows.has_values() ? nb::cast(seen(view.values, rows.entries(), self)) : nb::none(), view.columns);
}

using FaultTuple = std::tuple<std::string, std::int64_t, std::int64_t, double>;

std::optional<FaultTuple> fault_of(const Rows& rows, int threads) {
  SparseFault fault;
  {
    nb::gil_scoped_release release;
    fault = rows.fault(threads);
  }
  static const char* names[] = {"none", "indptr", "range", "order", "duplicate", "finite"};
  if (fault.kind == SparseFault::none) return std::nullopt;
  return FaultTuple{names[fault.kind], fault.row, fault.column, fault.value};
}

nb::tuple grow(const Rows& features, Vector<std::int32_t> labels, int branching, int leaf_size, int iterations,
               std::uint64_t seed, int threads, nb::object progress, const std::string& scratch_folder,
               std::size_t most_bytes) {
  PythonWatch watch(std::move(progress));
  GrowOptions options{branching, leaf_size, iterations, seed, {scratch_folder, most_bytes}};
  auto tree = without_gil([&] {
    return grow_tree(features.view(), std::vector<std::int32_t>(labels.data(), labels.data() + labels.size()), options,
                     resolve_threads(threads), watch);
  });
  nb::list begins;
  for (const auto& layer : tree.begins()) begins.append(to_numpy(std::vector<std::int32_t>(layer)));
  return nb::make_tuple(begins, to_numpy(std::vector<std::int32_t>(tree.labels())));
}

nb::tuple aggregate(const Rows& X, const Rows& rows_of_label, const std::optional<Vector<float>>& costs, bool normalise,
                    int threads, nb::object progress) {
  PythonWatch watch(std::move(progress));
  auto owned = without_gil([&] {
    std::vector<float> scales;
    if (normalise) {
      // Some labels may concern but a few rows.
      const SparseRows& rows = rows_of_label.view();
      scales.resize(static_cast<std::size_t>(X.view().rows), 0.0f);
      for (std::int64_t i = 0; i < rows.size(); ++i)
        if (float& scale = scales[static_cast<std::size_t>(rows.indices[i])]; scale == 0.0f)
          scale = unit_scale(X.view()[rows.indices[i]]);
    }
    return aggregate_labels(X.view(), rows_of_label.view(), normalise ? scales.data() : nullptr,
                            costs ? costs->data() : nullptr, resolve_threads(threads), watch);
  });
  return nb::make_tuple(to_numpy(std::move(owned.indptr)), to_numpy(std::move(owned.indices)),
                        to_numpy(std::move(owned.values)));
}

LabelTree make_tree(const Vectors<std::int32_t>& begins, const Vector<std::int32_t>& labels) {
  std::vector<std::vector<std::int32_t>> layers;
  for (const auto& layer : begins.get()) layers.emplace_back(layer.data(), layer.data() + layer.size());
  return LabelTree(std::move(layers), std::vector<std::int32_t>(labels.data(), labels.data() + labels.size()));
}

TrainOptions train_options(float negative_share, const std::string& loss, float cost, float positive_cost,
                           float negative_cost, float bias, float tolerance, int max_passes, float weight_threshold,
                           int matcher_beam, bool normalise, std::uint64_t seed) {
  TrainOptions options;
  options.loss = loss == "logistic" ? Loss::logistic : Loss::squared_hinge;
  options.cost = cost;
  options.positive_cost = positive_cost;
  options.negative_cost = negative_cost;
  options.bias = bias;
  options.tolerance = tolerance;
  options.max_passes = max_passes;
  options.weight_threshold = weight_threshold;
  options.matcher_beam = matcher_beam;
  options.negative_share = negative_share;
  options.normalise = normalise;
  options.seed = seed;
  return options;
}

nb::tuple fit(const Rows& X, const Rows& Y, const Vectors<std::int32_t>& begins, const Vector<std::int32_t>& labels,
              const std::optional<Vector<float>>& costs, const Rows* negatives, float negative_share,
              const std::string& loss, float cost, float positive_cost, float negative_cost, float bias,
              float tolerance, int max_passes, float weight_threshold, int matcher_beam, bool normalise,
              std::uint64_t seed, int threads, nb::object progress) {
  PythonWatch watch(std::move(progress));
  const TrainOptions options = train_options(negative_share, loss, cost, positive_cost, negative_cost, bias, tolerance,
                                             max_passes, weight_threshold, matcher_beam, normalise, seed);
  TrainReport report;
  auto* model = without_gil([&] {
    return new Model(train(X.view(), Y.view(), make_tree(begins, labels), costs ? costs->data() : nullptr,
                           negatives ? &negatives->view() : nullptr, options, resolve_threads(threads), watch, report));
  });
  return nb::make_tuple(nb::cast(model, nb::rv_policy::take_ownership), report.passes, report.weights);
}

nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<2>> to_table(const std::vector<ChunkShape>& shapes) {
  auto rows = std::make_unique<std::uint64_t[]>(6 * shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const ChunkShape& s = shapes[i];
    const std::uint64_t row[6] = {s.begin, s.bytes, s.lanes, s.homes, s.buckets, s.unit_shift};
    std::copy(row, row + 6, rows.get() + 6 * i);
  }
  return matrix(std::move(rows), shapes.size(), 6);
}

nb::tuple fit_block(const Rows& X, const Rows& Y, const Vectors<std::int32_t>& begins,
                    const Vector<std::int32_t>& labels, const std::optional<Vector<float>>& costs,
                    const Rows* negatives, const Rows* matched, int layer, std::int32_t first, std::int32_t last,
                    float negative_share, const std::string& loss, float cost, float positive_cost, float negative_cost,
                    float bias, float tolerance, int max_passes, float weight_threshold, int matcher_beam,
                    bool normalise, std::uint64_t seed, int threads, nb::object progress,
                    const std::string& scratch_folder, std::size_t most_bytes) {
  PythonWatch watch(std::move(progress));
  TrainOptions options = train_options(negative_share, loss, cost, positive_cost, negative_cost, bias, tolerance,
                                       max_passes, weight_threshold, matcher_beam, normalise, seed);
  options.scratch = {scratch_folder, most_bytes};
  TrainedBlock trained = without_gil([&] {
    return train_block(X.view(), Y.view(), make_tree(begins, labels), costs ? costs->data() : nullptr,
                       negatives ? &negatives->view() : nullptr, matched ? &matched->view() : nullptr,
                       {layer, first, last}, options, resolve_threads(threads), watch);
  });
  return nb::make_tuple(to_table(trained.shapes), to_numpy(std::move(trained.bytes)), trained.report.passes,
                        trained.report.weights);
}

nb::ndarray<nb::numpy, double, nb::ndim<1>> layer_work(const Rows& X, const Rows& Y,
                                                       const Vectors<std::int32_t>& begins,
                                                       const Vector<std::int32_t>& labels, const Rows* negatives,
                                                       const Rows* matched, int layer) {
  return to_numpy(without_gil([&] {
    return work_of_layer(X.view(), Y.view(), make_tree(begins, labels), negatives ? &negatives->view() : nullptr,
                         matched ? &matched->view() : nullptr, layer);
  }));
}

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

// A model from the weights of each node, in any order: (features, lanes, weights, bias). Weights keep float32.
using NodeWeights = std::tuple<Vector<std::int32_t>, Vector<std::int32_t>, Vector<float>, Vector<float>>;
Model* assemble(const Vectors<std::int32_t>& begins, const Vector<std::int32_t>& labels, std::int64_t features,
                const std::string& transform, const std::vector<NodeWeights>& nodes) {
  constexpr int kParts = 3;
  const Transform kind = transform == "sigmoid" ? Transform::sigmoid : Transform::l3_hinge;
  TreeModel model(make_tree(begins, labels), features, kind, 1, kParts);
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
      std::vector<float> biases(children * kParts, 0.0f);
      std::copy_n(bias.data(), children, biases.begin());
      for (std::size_t i = 0; i < columns.size(); ++i) {
        if (columns.data()[i] < 0 || columns.data()[i] >= features || lanes.data()[i] < 0 ||
            static_cast<std::size_t>(lanes.data()[i]) >= children || !std::isfinite(weights.data()[i]))
          throw nb::value_error("a weight out of range");
        float rest = weights.data()[i];
        for (int part = 0; part < kParts && rest != 0; ++part) {
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

nb::tuple top(const Model& model, const Rows& X, int k, int beam, bool normalise, bool best_first, int threads,
              nb::object progress) {
  if (model.get().members() != 1) throw nb::value_error("a tree of several members belongs into a Forest");
  const auto rows = static_cast<std::size_t>(X.view().rows), columns = static_cast<std::size_t>(k);
  auto labels = std::make_unique_for_overwrite<std::int32_t[]>(rows * columns);
  auto probabilities = std::make_unique_for_overwrite<float[]>(rows * columns);
  SearchOptions options;
  options.k = k;
  options.beam = beam;
  options.normalise = normalise;
  options.best_first = best_first;
  {
    PythonWatch watch(std::move(progress));
    nb::gil_scoped_release release;
    top_labels(model.get(), X.view(), options, resolve_threads(threads), watch, labels.get(), probabilities.get());
  }
  return nb::make_tuple(matrix(std::move(labels), rows, columns), matrix(std::move(probabilities), rows, columns));
}

nb::tuple best_nodes(const Model& model, const Rows& X, int layer, int k, int beam, bool normalise, int threads) {
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
  return nb::make_tuple(matrix(std::move(nodes), rows, columns), matrix(std::move(logs), rows, columns));
}

nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<2>> table_of(const Model& model) {
  return to_table(model.get().shapes());
}

nb::tuple chunk_entries(const Model& model, std::int64_t chunk) {
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
  return nb::make_tuple(to_numpy(std::move(features)), to_numpy(std::move(lanes)), to_numpy(std::move(weights)),
                        to_numpy(std::move(bias)));
}

void add_predictions(HardNegatives& negatives, Array<std::int32_t, 2> labels, Array<float, 2> probabilities,
                     int threads) {
  if (labels.shape(0) != probabilities.shape(0) || labels.shape(1) != probabilities.shape(1) ||
      static_cast<std::int64_t>(labels.shape(0)) != negatives.rows())
    throw nb::value_error("labels and probabilities differ in shape");
  PythonWatch watch;
  without_gil([&] {
    negatives.add(labels.data(), probabilities.data(), static_cast<std::int64_t>(labels.shape(1)),
                  resolve_threads(threads), watch);
  });
}

}  // namespace

void bind_engine(nb::module_& m) {
  m.def("simd_level", [] { return kernels().level; }, "The kernels in use: baseline, v3, v4 or v4_vbmi2.");

  nb::class_<Rows>(m, "Rows", "A CSR matrix: int64 indptr, int32 indices, float32 values (None: all ones).")
      .def(nb::init<Vector<std::int64_t>, Vector<std::int32_t>, std::optional<Vector<float>>, std::int64_t>(),
           "indptr"_a, "indices"_a, "values"_a.none(), "columns"_a)
      .def("fault", &fault_of, "threads"_a = 0,
           "The first fault as (kind, row, column, value), or None when the matrix is sound.")
      .def("arrays", &arrays_of, "The arrays, not copied, and the number of columns.")
      .def("hashes", &hashes_of, "threads"_a = 0, "A hash of every row, by which it is known again.");

  m.def("aggregate_labels", &aggregate, "X"_a, "rows_of_label"_a, "costs"_a.none(), "normalise"_a, "threads"_a,
        "progress"_a.none(), "PIFA: the normalised sum of each label's rows, as CSR arrays.");
  m.def("grow_tree", &grow, "label_features"_a, "labels"_a, "branching"_a, "leaf_size"_a, "iterations"_a, "seed"_a,
        "threads"_a, "progress"_a.none(), "scratch_folder"_a = "", "most_bytes"_a = 0,
        "Clusters labels into a tree: (begins of each layer, labels in order).");
  m.def(
      "check_tree",
      [](const Vectors<std::int32_t>& begins, const Vector<std::int32_t>& labels) { make_tree(begins, labels); },
      "begins"_a, "labels"_a, "Raises ValueError unless this is a label tree.");
  m.def("train", &fit, "X"_a, "Y"_a, "begins"_a, "labels"_a, "costs"_a.none(), "negatives"_a.none(), "negative_share"_a,
        "loss"_a, "C"_a, "positive_cost"_a, "negative_cost"_a, "bias"_a, "tolerance"_a, "max_passes"_a,
        "weight_threshold"_a, "matcher_beam"_a, "normalise"_a, "seed"_a, "threads"_a, "progress"_a.none(),
        "Fits a tree: (model, passes, weights kept).");
  m.def("train_block", &fit_block, "X"_a, "Y"_a, "begins"_a, "labels"_a, "costs"_a.none(), "negatives"_a.none(),
        "matched"_a.none(), "layer"_a, "first"_a, "last"_a, "negative_share"_a, "loss"_a, "C"_a, "positive_cost"_a,
        "negative_cost"_a, "bias"_a, "tolerance"_a, "max_passes"_a, "weight_threshold"_a, "matcher_beam"_a,
        "normalise"_a, "seed"_a, "threads"_a, "progress"_a.none(), "scratch_folder"_a = "", "most_bytes"_a = 0,
        "Fits some nodes of a layer: (table of their chunks, bytes, passes, weights kept).");
  m.def("layer_work", &layer_work, "X"_a, "Y"_a, "begins"_a, "labels"_a, "negatives"_a.none(), "matched"_a.none(),
        "layer"_a, "How much there is to do for each node of a layer: features of its rows, times panels.");

  nb::class_<Model>(m, "TreeModel", "A label tree with its weights.")
      .def_static("open", &open_model, "begins"_a, "labels"_a, "features"_a, "transform"_a, "members"_a, "parts"_a,
                  "table"_a, "weights"_a, "deep"_a, "threads"_a, nb::rv_policy::take_ownership)
      .def("top", &top, "X"_a, "k"_a, "beam"_a, "normalise"_a, "best_first"_a, "threads"_a, "progress"_a.none(),
           "The best k labels of each row: (labels, probabilities), both (rows, k).")
      .def("best_nodes", &best_nodes, "X"_a, "layer"_a, "k"_a, "beam"_a, "normalise"_a, "threads"_a,
           "The best k nodes of a layer for each row: (nodes, logarithms of their probabilities).")
      .def("table", &table_of, "One row a chunk: begin, bytes, lanes, home buckets, buckets, unit shift.")
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
      .def("chunk_entries", &chunk_entries, "chunk"_a, "Weights of a chunk: (features, lanes, weights, bias).")
      .def("expect", &Model::expect, "shared"_a, "first"_a, "last"_a, "threads"_a,
           "Tell that nearly every row has all features from `first` to `last` - 1, and that others from `shared` on "
           "are "
           "not for this model; changes no result.");

  m.def("merge", &merge, "models"_a, "threads"_a, "progress"_a.none(), nb::rv_policy::take_ownership,
        "One model with the members of several that share a tree.");
  m.def("assemble", &assemble, "begins"_a, "labels"_a, "features"_a, "transform"_a, "nodes"_a,
        nb::rv_policy::take_ownership, "A model from (features, lanes, weights, bias) of each inner node.");

  nb::class_<HardNegatives>(m, "HardNegatives", "The labels that the members trained so far get wrong.")
      .def(nb::init<std::int64_t, std::int32_t>(), "rows"_a, "room"_a)
      .def("add", &add_predictions, "labels"_a, "probabilities"_a, "threads"_a, "One more member's best labels.")
      .def(
          "wrong",
          [](const HardNegatives& negatives, const Rows& Y, std::int32_t count) {
            auto rows = without_gil([&] { return negatives.wrong(Y.view(), count); });
            return nb::make_tuple(to_numpy(std::move(rows.indptr)), to_numpy(std::move(rows.indices)));
          },
          "Y"_a, "count"_a, "Of the best labels of each row, those that Y does not have: (indptr, indices).");

}
