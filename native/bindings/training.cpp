// Training trees, for Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>

#include "hard_negatives.h"
#include "rows.h"
#include "trainer.h"
#include "trees.h"

using namespace hedgerow;
using namespace nb::literals;

namespace {

struct TrainedTree {
  nb::object model;
  std::int64_t passes, weights;
};

struct AskedTree {
  nb::object model;
  std::int64_t passes, weights;
  Numpy<std::int64_t> indptr;
  Numpy<std::int32_t> labels;
  Numpy<float> parents, scores;
};

struct AmendedTree {
  nb::object model;
  std::int64_t passes, more_weights, solved;
  nb::list when;
};

struct TrainedChunks {
  Numpy<std::uint64_t, 2> table;
  Numpy<std::uint8_t> bytes;
  std::int64_t passes, weights;
};

struct WrongLabels {
  Numpy<std::int64_t> indptr;
  Numpy<std::int32_t> indices;
};

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

TrainedTree fit(const Rows& X, const Rows& Y, const Vectors<std::int32_t>& begins, const Vector<std::int32_t>& labels,
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
  return {nb::cast(model, nb::rv_policy::take_ownership), report.passes, report.weights};
}

AskedTree fit_asked(const Rows& X, const Rows& Y, const Vectors<std::int32_t>& begins,
                    const Vector<std::int32_t>& labels, const std::optional<Vector<float>>& costs,
                    const Vector<std::int32_t>& held_out, const Rows* candidates, float negative_share,
                    const std::string& loss, float cost, float positive_cost, float negative_cost, float bias,
                    float tolerance, int max_passes, float weight_threshold, int matcher_beam, bool normalise,
                    std::uint64_t seed, int threads, nb::object progress) {
  PythonWatch watch(std::move(progress));
  const TrainOptions options = train_options(negative_share, loss, cost, positive_cost, negative_cost, bias, tolerance,
                                             max_passes, weight_threshold, matcher_beam, normalise, seed);
  const HeldOutRows held{{held_out.data(), held_out.size()}, candidates ? &candidates->view() : nullptr};
  for (std::size_t i = 0; i < held_out.size(); ++i)
    if (held.rows[i] < (i == 0 ? 0 : held.rows[i - 1] + 1) || held.rows[i] >= X.view().rows)
      throw nb::value_error("the rows that are held out must ascend, and be rows of X");
  if (candidates && candidates->view().rows != X.view().rows)
    throw nb::value_error("candidates and X differ in the number of rows");
  TrainReport report;
  HeldOutVotes votes;
  auto* model = without_gil([&] {
    return new Model(train_asked(X.view(), Y.view(), make_tree(begins, labels), costs ? costs->data() : nullptr,
                                 options, held, resolve_threads(threads), watch, report, votes));
  });
  return {nb::cast(model, nb::rv_policy::take_ownership),
          report.passes,
          report.weights,
          to_numpy(std::move(votes.indptr)),
          to_numpy(std::move(votes.labels)),
          to_numpy(std::move(votes.parents)),
          to_numpy(std::move(votes.scores))};
}

AmendedTree amend_tree(const Model& old, const Rows& X, const Rows& Y, const Vectors<std::int32_t>& begins,
                       const Vector<std::int32_t>& labels, const Vectors<std::int32_t>& origins,
                       const Vector<std::int32_t>& arrived, const Vectors<std::int32_t>& solved, std::int32_t now,
                       float renewal, const Rows* lost, const std::optional<Vector<float>>& costs,
                       const Rows* negatives, float negative_share, const std::string& loss, float cost,
                       float positive_cost, float negative_cost, float bias, float tolerance, int max_passes,
                       float weight_threshold, int matcher_beam, bool normalise, std::uint64_t seed, int threads,
                       nb::object progress) {
  PythonWatch watch(std::move(progress));
  const TrainOptions options = train_options(negative_share, loss, cost, positive_cost, negative_cost, bias, tolerance,
                                             max_passes, weight_threshold, matcher_beam, normalise, seed);
  LabelTree tree = make_tree(begins, labels);
  const Origins from = read_origins(origins, old.get().tree(), tree);
  if (X.view().columns != old.get().features() || solved.get().size() != from.size() ||
      arrived.size() != static_cast<std::size_t>(X.view().rows))
    throw nb::value_error("the rows do not fit the tree");
  std::vector<std::vector<std::int32_t>> when;
  for (std::size_t layer = 0; layer < from.size(); ++layer) {
    const auto& last = solved.get()[layer];
    if (last.size() != from[layer].size()) throw nb::value_error("solved does not fit the tree");
    when.emplace_back(last.data(), last.data() + last.size());
  }
  TrainReport report;
  auto* model = without_gil([&] {
    const Amendment amendment{
        old.get(), from, {arrived.data(), arrived.size()}, when, now, lost ? &lost->view() : nullptr, renewal};
    return new Model(amend(X.view(), Y.view(), std::move(tree), costs ? costs->data() : nullptr,
                           negatives ? &negatives->view() : nullptr, amendment, options, resolve_threads(threads),
                           watch, report));
  });
  nb::list times;
  for (auto& layer : when) times.append(nb::cast(to_numpy(std::move(layer))));
  return {nb::cast(model, nb::rv_policy::take_ownership), report.passes, report.weights, report.solved, times};
}

TrainedChunks fit_block(const Rows& X, const Rows& Y, const Vectors<std::int32_t>& begins,
                        const Vector<std::int32_t>& labels, const std::optional<Vector<float>>& costs,
                        const Rows* negatives, const Rows* matched, int layer, std::int32_t first, std::int32_t last,
                        float negative_share, const std::string& loss, float cost, float positive_cost,
                        float negative_cost, float bias, float tolerance, int max_passes, float weight_threshold,
                        int matcher_beam, bool normalise, std::uint64_t seed, int threads, nb::object progress,
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
  return {to_table(trained.shapes), to_numpy(std::move(trained.bytes)), trained.report.passes, trained.report.weights};
}

Numpy<double> layer_work(const Rows& X, const Rows& Y, const Vectors<std::int32_t>& begins,
                         const Vector<std::int32_t>& labels, const Rows* negatives, const Rows* matched, int layer) {
  return to_numpy(without_gil([&] {
    return work_of_layer(X.view(), Y.view(), make_tree(begins, labels), negatives ? &negatives->view() : nullptr,
                         matched ? &matched->view() : nullptr, layer);
  }));
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

WrongLabels wrong_labels(const HardNegatives& negatives, const Rows& Y, std::int32_t count) {
  auto rows = without_gil([&] { return negatives.wrong(Y.view(), count); });
  return {to_numpy(std::move(rows.indptr)), to_numpy(std::move(rows.indices))};
}

}  // namespace

void bind_training(nb::module_& m) {
  Results<TrainedTree>(m, "TrainedTree", "A model, the passes over the data, and the weights that were kept.")
      .field("model", &TrainedTree::model, nb::sig("def model(self) -> TreeModel"))
      .field("passes", &TrainedTree::passes)
      .field("weights", &TrainedTree::weights);
  Results<AskedTree>(m, "AskedTree",
                     "A model, and what it said of each row that was held out before it learned from it.")
      .field("model", &AskedTree::model, nb::sig("def model(self) -> TreeModel"))
      .field("passes", &AskedTree::passes)
      .field("weights", &AskedTree::weights)
      .field("indptr", &AskedTree::indptr)
      .field("labels", &AskedTree::labels)
      .field("parents", &AskedTree::parents)
      .field("scores", &AskedTree::scores);
  Results<AmendedTree>(m, "AmendedTree",
                       "A model brought up to date, how many weights more it has, how many classifiers were solved "
                       "again, and when each was, layer by layer.")
      .field("model", &AmendedTree::model, nb::sig("def model(self) -> TreeModel"))
      .field("passes", &AmendedTree::passes)
      .field("more_weights", &AmendedTree::more_weights)
      .field("solved", &AmendedTree::solved)
      .field("when", &AmendedTree::when);
  Results<TrainedChunks>(m, "TrainedChunks", "The chunks of some nodes: their table and bytes.")
      .field("table", &TrainedChunks::table)
      .field("bytes", &TrainedChunks::bytes)
      .field("passes", &TrainedChunks::passes)
      .field("weights", &TrainedChunks::weights);
  Results<WrongLabels>(m, "WrongLabels", "Labels of each row, as a CSR matrix has them.")
      .field("indptr", &WrongLabels::indptr)
      .field("indices", &WrongLabels::indices);
  m.def("train", &fit, "X"_a, "Y"_a, "begins"_a, "labels"_a, "costs"_a.none(), "negatives"_a.none(), "negative_share"_a,
        "loss"_a, "C"_a, "positive_cost"_a, "negative_cost"_a, "bias"_a, "tolerance"_a, "max_passes"_a,
        "weight_threshold"_a, "matcher_beam"_a, "normalise"_a, "seed"_a, "threads"_a, "progress"_a.none(),
        "Fits a tree.");
  m.def("train_asked", &fit_asked, "X"_a, "Y"_a, "begins"_a, "labels"_a, "costs"_a.none(), "held_out"_a,
        "candidates"_a.none(), "negative_share"_a, "loss"_a, "C"_a, "positive_cost"_a, "negative_cost"_a, "bias"_a,
        "tolerance"_a, "max_passes"_a, "weight_threshold"_a, "matcher_beam"_a, "normalise"_a, "seed"_a, "threads"_a,
        "progress"_a.none(), "Fits a tree, and asks it about rows before it learns from them.");
  m.def("amend", &amend_tree, "old"_a, "X"_a, "Y"_a, "begins"_a, "labels"_a, "origins"_a, "arrived"_a, "solved"_a,
        "now"_a, "renewal"_a, "lost"_a.none(), "costs"_a.none(), "negatives"_a.none(), "negative_share"_a, "loss"_a,
        "C"_a, "positive_cost"_a, "negative_cost"_a, "bias"_a, "tolerance"_a, "max_passes"_a, "weight_threshold"_a,
        "matcher_beam"_a, "normalise"_a, "seed"_a, "threads"_a, "progress"_a.none(),
        "Brings a tree up to date with rows that are new.");
  m.def("train_block", &fit_block, "X"_a, "Y"_a, "begins"_a, "labels"_a, "costs"_a.none(), "negatives"_a.none(),
        "matched"_a.none(), "layer"_a, "first"_a, "last"_a, "negative_share"_a, "loss"_a, "C"_a, "positive_cost"_a,
        "negative_cost"_a, "bias"_a, "tolerance"_a, "max_passes"_a, "weight_threshold"_a, "matcher_beam"_a,
        "normalise"_a, "seed"_a, "threads"_a, "progress"_a.none(), "scratch_folder"_a = "", "most_bytes"_a = 0,
        "Fits some nodes of a layer.");
  m.def("layer_work", &layer_work, "X"_a, "Y"_a, "begins"_a, "labels"_a, "negatives"_a.none(), "matched"_a.none(),
        "layer"_a, "How much there is to do for each node of a layer: features of its rows, times panels.");

  nb::class_<HardNegatives>(m, "HardNegatives", "The labels that the members trained so far get wrong.")
      .def(nb::init<std::int64_t, std::int32_t>(), "rows"_a, "room"_a)
      .def("add", &add_predictions, "labels"_a, "probabilities"_a, "threads"_a, "One more member's best labels.")
      .def("wrong", &wrong_labels, "Y"_a, "count"_a, "Of the best labels of each row, those that Y does not have.");
}
