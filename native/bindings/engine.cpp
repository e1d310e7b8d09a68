// The label tree, the trainer and the search, for Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>

#include "beam_search.h"
#include "bindings.h"
#include "label_tree.h"
#include "sparse.h"
#include "trainer.h"

using namespace hedgerow;
using namespace nb::literals;

namespace {

// A CSR matrix of Python's, kept alive. The engine trusts it only after fault() found none.
class Rows {
 public:
  Rows(Vector<std::int64_t> indptr, Vector<std::int32_t> indices, std::optional<Vector<float>> values,
       std::int64_t columns)
      : indptr_(std::move(indptr)), indices_(std::move(indices)), values_(std::move(values)) {
    if (indptr_.size() == 0) throw nb::value_error("indptr is empty");
    if (values_ && values_->size() != indices_.size()) throw nb::value_error("values and indices differ in length");
    view_.rows = static_cast<std::int64_t>(indptr_.size()) - 1;
    view_.columns = columns;
    view_.indptr = indptr_.data();
    view_.indices = indices_.data();
    view_.values = values_ ? values_->data() : nullptr;
  }
  const SparseRows& view() const { return view_; }
  SparseFault fault(int threads) const {
    return find_fault(view_, static_cast<std::int64_t>(indices_.size()), resolve_threads(threads));
  }

 private:
  Vector<std::int64_t> indptr_;
  Vector<std::int32_t> indices_;
  std::optional<Vector<float>> values_;
  SparseRows view_;
};

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

// Ctrl-C surfaces as the Python exception that the watch met; the echo in other workers is not told.
template <class Work>
auto without_gil(Work work) {
  nb::gil_scoped_release release;
  return work();
}

nb::tuple grow(const Rows& features, Vector<std::int32_t> labels, int branching, int leaf_size, int iterations,
               std::uint64_t seed, int threads, nb::object progress) {
  PythonWatch watch(std::move(progress));
  GrowOptions options{branching, leaf_size, iterations, seed};
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
      scales.resize(static_cast<std::size_t>(X.view().rows));
      for (std::int64_t row = 0; row < X.view().rows; ++row)
        scales[static_cast<std::size_t>(row)] = unit_scale(X.view()[row]);
    }
    return aggregate_labels(X.view(), rows_of_label.view(), normalise ? scales.data() : nullptr,
                            costs ? costs->data() : nullptr, resolve_threads(threads), watch);
  });
  return nb::make_tuple(to_numpy(std::move(owned.indptr)), to_numpy(std::move(owned.indices)),
                        to_numpy(std::move(owned.values)));
}

LabelTree make_tree(const std::vector<Vector<std::int32_t>>& begins, const Vector<std::int32_t>& labels) {
  std::vector<std::vector<std::int32_t>> layers;
  for (const auto& layer : begins) layers.emplace_back(layer.data(), layer.data() + layer.size());
  return LabelTree(std::move(layers), std::vector<std::int32_t>(labels.data(), labels.data() + labels.size()));
}

// A TreeModel and whatever Python memory its chunks lie in.
class Model {
 public:
  explicit Model(TreeModel&& model) : model_(std::move(model)) {}
  Model(TreeModel&& model, nb::object keeper) : model_(std::move(model)), keeper_(std::move(keeper)) {}
  const TreeModel& get() const { return model_; }

 private:
  TreeModel model_;
  nb::object keeper_;
};

nb::tuple fit(const Rows& X, const Rows& Y, const std::vector<Vector<std::int32_t>>& begins,
              const Vector<std::int32_t>& labels, const std::optional<Vector<float>>& costs, const std::string& loss,
              float cost, float positive_cost, float negative_cost, float bias, float tolerance, int max_passes,
              float weight_threshold, int matcher_beam, bool normalise, std::uint64_t seed, int threads,
              nb::object progress) {
  PythonWatch watch(std::move(progress));
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
  options.normalise = normalise;
  options.seed = seed;
  TrainReport report;
  auto* model = without_gil([&] {
    return new Model(train(X.view(), Y.view(), make_tree(begins, labels), costs ? costs->data() : nullptr, options,
                           resolve_threads(threads), watch, report));
  });
  return nb::make_tuple(nb::cast(model, nb::rv_policy::take_ownership), report.passes, report.weights);
}

Model* open_model(const std::vector<Vector<std::int32_t>>& begins, const Vector<std::int32_t>& labels,
                  std::int64_t features, const std::string& transform,
                  nb::ndarray<const std::uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> table,
                  Vector<std::uint8_t> weights, bool deep, int threads) {
  if (table.shape(1) != 6) throw nb::value_error("the table of chunks must have six columns");
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
    return TreeModel(std::move(tree), features, kind, std::move(shapes), weights.data(), weights.size(), deep,
                     resolve_threads(threads), watch);
  });
  return new Model(std::move(model), nb::cast(weights));
}

template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<2>> matrix(std::unique_ptr<T[]> values, std::size_t rows, std::size_t columns) {
  T* data = values.release();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return nb::ndarray<nb::numpy, T, nb::ndim<2>>(data, {rows, columns}, owner);
}

nb::tuple top(const Model& model, const Rows& X, int k, int beam, bool normalise, bool best_first, int threads,
              nb::object progress) {
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
    top_labels(model.get(), X.view(), options, rows == 1 ? 1 : resolve_threads(threads), watch, labels.get(),
               probabilities.get());
  }
  return nb::make_tuple(matrix(std::move(labels), rows, columns), matrix(std::move(probabilities), rows, columns));
}

nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<2>> table_of(const Model& model) {
  const auto& shapes = model.get().shapes();
  auto rows = std::make_unique<std::uint64_t[]>(6 * shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const ChunkShape& s = shapes[i];
    const std::uint64_t row[6] = {s.begin, s.bytes, s.lanes, s.homes, s.buckets, s.unit_shift};
    std::copy(row, row + 6, rows.get() + 6 * i);
  }
  return matrix(std::move(rows), shapes.size(), 6);
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

}  // namespace

void bind_engine(nb::module_& m) {
  m.def("simd_level", [] { return kernels().level; }, "The kernels in use: baseline, v3, v4 or v4_vbmi2.");

  nb::class_<Rows>(m, "Rows", "A CSR matrix: int64 indptr, int32 indices, float32 values (None: all ones).")
      .def(nb::init<Vector<std::int64_t>, Vector<std::int32_t>, std::optional<Vector<float>>, std::int64_t>(),
           "indptr"_a, "indices"_a, "values"_a.none(), "columns"_a)
      .def("fault", &fault_of, "threads"_a = 0,
           "The first fault as (kind, row, column, value), or None when the matrix is sound.");

  m.def("aggregate_labels", &aggregate, "X"_a, "rows_of_label"_a, "costs"_a.none(), "normalise"_a, "threads"_a,
        "progress"_a.none(), "PIFA: the normalised sum of each label's rows, as CSR arrays.");
  m.def("grow_tree", &grow, "label_features"_a, "labels"_a, "branching"_a, "leaf_size"_a, "iterations"_a, "seed"_a,
        "threads"_a, "progress"_a.none(), "Clusters labels into a tree: (begins of each layer, labels in order).");
  m.def(
      "check_tree",
      [](const std::vector<Vector<std::int32_t>>& begins, const Vector<std::int32_t>& labels) {
        make_tree(begins, labels);
      },
      "begins"_a, "labels"_a, "Raises ValueError unless this is a label tree.");
  m.def("train", &fit, "X"_a, "Y"_a, "begins"_a, "labels"_a, "costs"_a.none(), "loss"_a, "C"_a, "positive_cost"_a,
        "negative_cost"_a, "bias"_a, "tolerance"_a, "max_passes"_a, "weight_threshold"_a, "matcher_beam"_a,
        "normalise"_a, "seed"_a, "threads"_a, "progress"_a.none(), "Fits a tree: (model, passes, weights kept).");

  nb::class_<Model>(m, "TreeModel", "A label tree with its weights.")
      .def_static("open", &open_model, "begins"_a, "labels"_a, "features"_a, "transform"_a, "table"_a, "weights"_a,
                  "deep"_a, "threads"_a, nb::rv_policy::take_ownership)
      .def("top", &top, "X"_a, "k"_a, "beam"_a, "normalise"_a, "best_first"_a, "threads"_a, "progress"_a.none(),
           "The best k labels of each row: (labels, probabilities), both (rows, k).")
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
      .def("chunk_entries", &chunk_entries, "chunk"_a, "Weights of a chunk: (features, lanes, weights, bias).");
}
