// Growing label trees, for Python.
#include "label_tree.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rows.h"
#include "trees.h"

using namespace hedgerow;
using namespace nb::literals;

namespace {

struct GrownTree {
  std::vector<Numpy<std::int32_t>> begins;
  Numpy<std::int32_t> labels;
};

struct LabelFeatures {
  Numpy<std::int64_t> indptr;
  Numpy<std::int32_t> indices;
  Numpy<float> values;
};

GrownTree grow(const Rows& features, Vector<std::int32_t> labels, int branching, int leaf_size, int iterations,
               std::uint64_t seed, int threads, nb::object progress, const std::string& scratch_folder,
               std::size_t most_bytes) {
  PythonWatch watch(std::move(progress));
  GrowOptions options{branching, leaf_size, iterations, seed, {scratch_folder, most_bytes}};
  auto tree = without_gil([&] {
    return grow_tree(features.view(), std::vector<std::int32_t>(labels.data(), labels.data() + labels.size()), options,
                     resolve_threads(threads), watch);
  });
  GrownTree grown{{}, to_numpy(std::vector<std::int32_t>(tree.labels()))};
  for (const auto& layer : tree.begins()) grown.begins.push_back(to_numpy(std::vector<std::int32_t>(layer)));
  return grown;
}

LabelFeatures aggregate(const Rows& X, const Rows& rows_of_label, const std::optional<Vector<float>>& costs,
                        bool normalise, int threads, nb::object progress) {
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
  return {to_numpy(std::move(owned.indptr)), to_numpy(std::move(owned.indices)), to_numpy(std::move(owned.values))};
}

}  // namespace

void bind_label_tree(nb::module_& m) {
  Results<GrownTree>(m, "GrownTree", "A label tree: begins of the children of each layer, and the labels in order.")
      .field("begins", &GrownTree::begins)
      .field("labels", &GrownTree::labels);
  Results<LabelFeatures>(m, "LabelFeatures", "A CSR matrix with a row per label.")
      .field("indptr", &LabelFeatures::indptr)
      .field("indices", &LabelFeatures::indices)
      .field("values", &LabelFeatures::values);
  m.def("aggregate_labels", &aggregate, "X"_a, "rows_of_label"_a, "costs"_a.none(), "normalise"_a, "threads"_a,
        "progress"_a.none(), "PIFA: the normalised sum of each label's rows.");
  m.def("grow_tree", &grow, "label_features"_a, "labels"_a, "branching"_a, "leaf_size"_a, "iterations"_a, "seed"_a,
        "threads"_a, "progress"_a.none(), "scratch_folder"_a = "", "most_bytes"_a = 0, "Clusters labels into a tree.");
  m.def(
      "check_tree",
      [](const Vectors<std::int32_t>& begins, const Vector<std::int32_t>& labels) { make_tree(begins, labels); },
      "begins"_a, "labels"_a, "Raises ValueError unless this is a label tree.");
}
