// Trees that vote together, for Python.
#include "forest.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "candidate_scores.h"
#include "rows.h"
#include "trees.h"
#include "uncertainty.h"

using namespace hedgerow;
using namespace nb::literals;

namespace {

// Several trees and what keeps their models alive.
class Trees {
 public:
  Trees(nb::list models, std::int32_t labels, float share, int passes, std::uint64_t seed)
      : models_(std::move(models)),
        forest_(pointers(), labels,
                passes > 0 ? std::optional<Dropout>(std::in_place, share, passes, seed) : std::nullopt) {}
  const Forest& get() const { return forest_; }

 private:
  std::vector<const TreeModel*> pointers() const {
    std::vector<const TreeModel*> trees;
    for (nb::handle model : models_) trees.push_back(&nb::cast<const Model&>(model).get());
    return trees;
  }
  nb::list models_;
  Forest forest_;
};

struct FoundInputs {
  Numpy<float> expected, total, data, knowledge, variance, bound, missed;
};

struct FoundLabels {
  Numpy<std::int32_t, 2> labels;
  Numpy<float, 2> probability, total, data, knowledge, variance;
  FoundInputs inputs;
  Numpy<double, 2> reach;
};

struct FoundVotes {
  Numpy<std::int64_t> indptr;
  Numpy<std::int32_t> labels;
  Numpy<float, 2> probs;
  Numpy<float> bound, missed, classifiers;
  Numpy<double, 2> reach;
};

struct ScoredCandidates {
  Numpy<float, 2> probs, own;
};

using Wanted = std::vector<std::pair<int, std::size_t>>;

std::vector<ReachOf> reaches(const Wanted& wanted) {
  std::vector<ReachOf> found;
  for (const auto& [layer, nodes] : wanted) {
    if (layer < 1 || nodes < 1) throw nb::value_error("layers and nodes count from 1");
    found.push_back({layer, nodes});
  }
  return found;
}

void check_features(const Trees& forest, const Rows& X) {
  if (X.view().columns != forest.get().model(0).features()) throw nb::value_error("X has another number of features");
}

VoteOptions vote_options(const Trees& forest, const Rows& X, int k, int beam, int top, const std::string& missing,
                         float tolerance, float floor, bool normalise) {
  check_features(forest, X);
  if (k < 1 || beam < 1 || top < 0) throw nb::value_error("k and beam must be positive");
  VoteOptions options;
  options.beam = beam;
  options.top = top;
  options.missing = missing == "delta" ? Missing::delta : missing == "bound" ? Missing::bound : Missing::exact;
  options.tolerance = tolerance;
  options.floor = floor;
  options.normalise = normalise;
  return options;
}

const LabelSubset* allowed(const Trees& forest, const Subset* subset) {
  if (!subset) return nullptr;
  if (!subset->get().is_of(forest.get())) throw nb::value_error("the subset is that of another forest");
  return &subset->get();
}

Subset* make_subset(nb::object owner, const Vector<std::int32_t>& labels) {
  const Forest& forest = nb::cast<const Trees&>(owner).get();
  const std::span<const std::int32_t> numbers(labels.data(), labels.size());
  for (const std::int32_t label : numbers)
    if (label < 0 || label >= forest.labels()) throw nb::value_error("a number of the subset is not a label");
  return new Subset(without_gil([&] { return LabelSubset(forest, numbers); }), owner);
}

FoundLabels uncertain(const Trees& forest, const Rows& X, int k, int beam, int top, const std::string& missing,
                      float tolerance, float floor, bool normalise, int threads, nb::object progress,
                      const Wanted& wanted, const Subset* subset) {
  VoteOptions options = vote_options(forest, X, k, beam, top, missing, tolerance, floor, normalise);
  options.subset = allowed(forest, subset);
  const std::vector<ReachOf> reach_of = reaches(wanted);
  const auto rows = static_cast<std::size_t>(X.view().rows), columns = static_cast<std::size_t>(k);
  auto labels = std::make_unique_for_overwrite<std::int32_t[]>(rows * columns);
  auto reach = std::make_unique_for_overwrite<double[]>(rows * reach_of.size());
  std::unique_ptr<float[]> of_labels[kMeasures], of_inputs[7];
  for (auto& array : of_labels) array = std::make_unique_for_overwrite<float[]>(rows * columns);
  for (auto& array : of_inputs) array = std::make_unique_for_overwrite<float[]>(rows);
  {
    PythonWatch watch(std::move(progress));
    nb::gil_scoped_release release;
    measure_uncertainty(
        forest.get(), X.view(), k, options, reach_of, resolve_threads(threads), watch,
        {labels.get(),
         {of_labels[0].get(), of_labels[1].get(), of_labels[2].get(), of_labels[3].get(), of_labels[4].get()}},
        {of_inputs[0].get(), of_inputs[1].get(), of_inputs[2].get(), of_inputs[3].get(), of_inputs[4].get(),
         of_inputs[5].get(), of_inputs[6].get(), reach.get()});
  }
  const auto of_label = [&](int i) { return matrix(std::move(of_labels[i]), rows, columns); };
  const auto of_input = [&](int i) { return vector(std::move(of_inputs[i]), rows); };
  return {matrix(std::move(labels), rows, columns),
          of_label(0),
          of_label(1),
          of_label(2),
          of_label(3),
          of_label(4),
          {of_input(0), of_input(1), of_input(2), of_input(3), of_input(4), of_input(5), of_input(6)},
          matrix(std::move(reach), rows, reach_of.size())};
}

FoundVotes votes(const Trees& forest, const Rows& X, int k, int beam, int top, const std::string& missing,
                 float tolerance, float floor, bool normalise, int threads, nb::object progress, const Wanted& wanted,
                 const Subset* subset, std::optional<float> headroom) {
  VoteOptions options = vote_options(forest, X, k, beam, top, missing, tolerance, floor, normalise);
  options.subset = allowed(forest, subset);
  if (headroom) {
    if (forest.get().members() != 1 || forest.get().dropout())
      throw nb::value_error("only a single member without dropout can say what its classifiers say");
    options.classifiers = true;
    options.headroom = *headroom;
  }
  const std::vector<ReachOf> reach_of = reaches(wanted);
  VoteArrays found;
  {
    PythonWatch watch(std::move(progress));
    nb::gil_scoped_release release;
    found = collect_votes(forest.get(), X.view(), k, options, reach_of, resolve_threads(threads), watch);
  }
  const std::size_t candidates = found.labels.size(), members = static_cast<std::size_t>(forest.get().members());
  const auto rows = static_cast<std::size_t>(X.view().rows);
  return {to_numpy(std::move(found.indptr)),
          to_numpy(std::move(found.labels)),
          to_numpy(std::move(found.probabilities), candidates, members),
          to_numpy(std::move(found.bound)),
          to_numpy(std::move(found.missed)),
          to_numpy(std::move(found.classifiers)),
          to_numpy(std::move(found.reach), rows, reach_of.size())};
}

Numpy<double, 2> reach(const Trees& forest, const Rows& X, const Wanted& wanted, bool normalise, int threads) {
  check_features(forest, X);
  const std::vector<ReachOf> reach_of = reaches(wanted);
  const auto rows = static_cast<std::size_t>(X.view().rows);
  auto sums = std::make_unique_for_overwrite<double[]>(rows * reach_of.size());
  {
    PythonWatch watch;
    nb::gil_scoped_release release;
    measure_reach(forest.get(), X.view(), normalise, reach_of, rows == 1 ? 1 : resolve_threads(threads), watch,
                  sums.get());
  }
  return matrix(std::move(sums), rows, reach_of.size());
}

ScoredCandidates score(const Trees& forest, const Rows& X, const Vector<std::int64_t>& indptr,
                       const Vector<std::int32_t>& labels, bool normalise, float headroom, float floor, int threads) {
  check_features(forest, X);
  VoteOptions options;
  options.normalise = normalise;
  options.headroom = headroom;
  options.floor = floor;
  const auto rows = static_cast<std::size_t>(X.view().rows);
  check_rows(indptr, rows, labels.size());
  check_labels(labels, static_cast<std::size_t>(forest.get().labels()));
  const auto members = static_cast<std::size_t>(forest.get().members());
  auto probabilities = std::make_unique_for_overwrite<float[]>(labels.size() * members);
  auto own = std::make_unique_for_overwrite<float[]>(labels.size() * members);
  {
    PythonWatch watch;
    nb::gil_scoped_release release;
    score_candidates(forest.get(), X.view(), {indptr.data(), labels.data()}, options, resolve_threads(threads), watch,
                     {probabilities.get(), own.get()});
  }
  return {matrix(std::move(probabilities), labels.size(), members), matrix(std::move(own), labels.size(), members)};
}

}  // namespace

void bind_forest(nb::module_& m) {
  Results<FoundInputs>(m, "FoundInputs", "Sums over the candidates of each row, and how far they may be off.")
      .field("expected", &FoundInputs::expected)
      .field("total", &FoundInputs::total)
      .field("data", &FoundInputs::data)
      .field("knowledge", &FoundInputs::knowledge)
      .field("variance", &FoundInputs::variance)
      .field("bound", &FoundInputs::bound)
      .field("missed", &FoundInputs::missed);
  Results<FoundLabels>(m, "FoundLabels", "The best labels of each row with their measures; reach: (rows, wanted).")
      .field("labels", &FoundLabels::labels)
      .field("probability", &FoundLabels::probability)
      .field("total", &FoundLabels::total)
      .field("data", &FoundLabels::data)
      .field("knowledge", &FoundLabels::knowledge)
      .field("variance", &FoundLabels::variance)
      .field("inputs", &FoundLabels::inputs)
      .field("reach", &FoundLabels::reach);
  Results<FoundVotes>(m, "FoundVotes", "The candidates of each row and the members' probabilities of them.")
      .field("indptr", &FoundVotes::indptr)
      .field("labels", &FoundVotes::labels)
      .field("probs", &FoundVotes::probs)
      .field("bound", &FoundVotes::bound)
      .field("missed", &FoundVotes::missed)
      .field("classifiers", &FoundVotes::classifiers)
      .field("reach", &FoundVotes::reach);

  Results<ScoredCandidates>(m, "ScoredCandidates", "Probabilities of candidates, and those below their leaves alone.")
      .field("probs", &ScoredCandidates::probs)
      .field("own", &ScoredCandidates::own);

  nb::class_<Subset>(m, "LabelSubset", "The labels of a forest that may be answered.")
      .def(
          "leaves_for", [](const Subset& subset, std::int32_t k) { return subset.get().leaves_for(k); }, "k"_a,
          "How many leaves of a tree are enough for k of the labels; of the tree that needs most.");

  nb::class_<Trees>(m, "Forest", "Trees that vote together; with passes > 0, one tree under dropout.")
      .def(nb::init<nb::list, std::int32_t, float, int, std::uint64_t>(), "models"_a, "labels"_a, "share"_a, "passes"_a,
           "seed"_a)
      .def_prop_ro("members", [](const Trees& forest) { return forest.get().members(); })
      .def(
          "subset",
          [](nb::handle self, const Vector<std::int32_t>& labels) { return make_subset(nb::borrow(self), labels); },
          "labels"_a, nb::rv_policy::take_ownership, "Labels, by their numbers, to restrict a search to.")
      .def("uncertain", &uncertain, "X"_a, "k"_a, "beam"_a, "top"_a, "missing"_a, "tolerance"_a, "floor"_a,
           "normalise"_a, "threads"_a, "progress"_a.none(), "reach"_a = Wanted(), "subset"_a.none() = nb::none(),
           "The best k labels of each row, all or those of a subset, with their measures of uncertainty, and the reach "
           "wanted.")
      .def("votes", &votes, "X"_a, "k"_a, "beam"_a, "top"_a, "missing"_a, "tolerance"_a, "floor"_a, "normalise"_a,
           "threads"_a, "progress"_a.none(), "reach"_a = Wanted(), "subset"_a.none() = nb::none(),
           "headroom"_a.none() = nb::none(),
           "Candidates, all or those of a subset, and members' probabilities, and the reach wanted. With a headroom, "
           "also what the classifiers of a single member say of the candidates, as `score` does.")
      .def("score", &score, "X"_a, "indptr"_a, "labels"_a, "normalise"_a, "headroom"_a, "floor"_a, "threads"_a,
           "What the members say of the candidates of each row.")
      .def("reach", &reach, "X"_a, "wanted"_a, "normalise"_a, "threads"_a,
           "For each row and wanted (layer, nodes): the members' mean sum of the highest energies of nodes there, "
           "below the four best nodes of the layer above.");
}
