// Votes measured, and compared with the truth, for Python.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "best_labels.h"
#include "bindings.h"
#include "judgement.h"
#include "unlearned.h"

using namespace hedgerow;
using namespace nb::literals;

namespace {

// Below this many probabilities, waiting for the GIL afterwards may cost more than the work.
constexpr std::size_t kSmall = std::size_t{1} << 15;

template <class T, int N>
struct MeasureArrays {
  Numpy<T, N> probability, total, data, knowledge, variance;
};
using LabelMeasures = MeasureArrays<double, 1>;
using TrueMeasures = MeasureArrays<float, 1>;
using RankedMeasures = MeasureArrays<float, 2>;

// The measures of some labels or rows, to be handed to NumPy.
template <class T>
class OwnedMeasures {
 public:
  explicit OwnedMeasures(std::size_t size) {
    for (auto& part : parts_) part = std::make_unique_for_overwrite<T[]>(size);
  }
  T* operator[](int part) const { return parts_[part].get(); }
  template <class View>
  View view() const {
    return {parts_[0].get(), parts_[1].get(), parts_[2].get(), parts_[3].get(), parts_[4].get()};
  }
  MeasureArrays<T, 1> to_numpy(std::size_t size) {
    const auto part = [&](int i) { return vector(std::move(parts_[i]), size); };
    return {part(0), part(1), part(2), part(3), part(4)};
  }
  MeasureArrays<T, 2> to_numpy(std::size_t rows, std::size_t columns) {
    const auto part = [&](int i) { return matrix(std::move(parts_[i]), rows, columns); };
    return {part(0), part(1), part(2), part(3), part(4)};
  }

 private:
  std::unique_ptr<T[]> parts_[kMeasures];
};

struct VoteMeasures {
  LabelMeasures labels, inputs;
};

struct FoundBest {
  Numpy<std::int32_t, 2> labels;
  RankedMeasures measures;
  Numpy<double, 2> sums;
};

struct Assessed {
  Numpy<double, 2> auroc, aupr, sums;
  Numpy<std::int32_t, 2> labels;
  RankedMeasures best;
  Numpy<std::int32_t> rank;
  TrueMeasures true_labels;
};

std::size_t rows_of(const Vector<std::int64_t>& indptr, const Probabilities& probs) {
  if (indptr.size() == 0) throw nb::value_error("indptr is empty");
  check_rows(indptr, indptr.size() - 1, probs.shape(0));
  if (probs.shape(1) < 1 || probs.shape(1) > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw nb::value_error("probs must have a column for each member");
  return indptr.size() - 1;
}

// A byte for each candidate, or none.
using Marks = std::optional<Vector<std::uint8_t>>;

const std::uint8_t* marks_of(const Marks& unlearned, std::size_t candidates) {
  if (unlearned && unlearned->size() != candidates) throw nb::value_error("unlearned must have a value per label");
  return unlearned ? unlearned->data() : nullptr;
}

VoteRows votes_of(const Vector<std::int64_t>& indptr, const Vector<std::int32_t>& labels, const Probabilities& probs,
                  std::int64_t n_labels, const Marks& unlearned) {
  const std::size_t rows = rows_of(indptr, probs);
  if (probs.shape(0) != labels.size()) throw nb::value_error("probs must have a row for each label");
  return {static_cast<std::int64_t>(rows),
          n_labels,
          static_cast<int>(probs.shape(1)),
          indptr.data(),
          labels.data(),
          probs.data(),
          marks_of(unlearned, labels.size())};
}

VoteMeasures measure_votes(const Vector<std::int64_t>& indptr, const Probabilities& probs, const Marks& unlearned) {
  const std::size_t rows = rows_of(indptr, probs), members = probs.shape(1);
  const std::uint8_t* marks = marks_of(unlearned, probs.shape(0));
  OwnedMeasures<double> of_labels(probs.shape(0)), of_inputs(rows);
  std::vector<float> room(16 * (members + 3));
  {
    std::optional<nb::gil_scoped_release> release;
    if (probs.size() >= kSmall) release.emplace();
    for (std::size_t row = 0; row < rows; ++row) {
      const std::int64_t begin = indptr.data()[row], size = indptr.data()[row + 1] - begin;
      double sums[kMeasures];
      const ExactMeasures own{of_labels[0] + begin, of_labels[1] + begin, of_labels[2] + begin, of_labels[3] + begin,
                              of_labels[4] + begin};
      kernels().measure_exactly(probs.data() + static_cast<std::size_t>(begin) * members, static_cast<int>(members),
                                size, own, sums, room.data());
      if (marks) count_as_lack_of_knowledge(marks + begin, size, own, sums);
      for (int i = 0; i < kMeasures; ++i) of_inputs[i][row] = sums[i];
    }
  }
  return {of_labels.to_numpy(probs.shape(0)), of_inputs.to_numpy(rows)};
}

FoundBest best_labels(const Vector<std::int64_t>& indptr, const Vector<std::int32_t>& labels,
                      const Probabilities& probs, const Marks& unlearned, const std::optional<Vector<float>>& ranked_by,
                      int k, int threads) {
  const VoteRows votes = votes_of(indptr, labels, probs, 0, unlearned);
  if (ranked_by && ranked_by->size() != labels.size()) throw nb::value_error("ranked_by must have a value per label");
  for (std::int64_t row = 0; row < votes.rows; ++row)
    if (k < 1 || k > votes.indptr[row + 1] - votes.indptr[row]) throw nb::value_error("a row has fewer labels than k");
  const auto rows = static_cast<std::size_t>(votes.rows), columns = static_cast<std::size_t>(std::max(k, 0));
  auto best = std::make_unique_for_overwrite<std::int32_t[]>(rows * columns);
  auto sums = std::make_unique_for_overwrite<double[]>(rows * kMeasures);
  OwnedMeasures<float> measures(rows * columns);
  {
    PythonWatch watch;
    std::optional<nb::gil_scoped_release> release;
    if (probs.size() >= kSmall) release.emplace();
    find_best(votes, k, ranked_by ? ranked_by->data() : nullptr, probs.size() < kSmall ? 1 : resolve_threads(threads),
              watch, {best.get(), measures.view<Measures>(), sums.get()});
  }
  return {matrix(std::move(best), rows, columns), measures.to_numpy(rows, columns),
          matrix(std::move(sums), rows, kMeasures)};
}

Assessed assess(const Vector<std::int64_t>& indptr, const Vector<std::int32_t>& labels, const Probabilities& probs,
                const Marks& unlearned, std::int64_t n_labels, const Vector<std::int64_t>& truth_indptr,
                const Vector<std::int32_t>& truth_labels, int k, int threads) {
  const VoteRows votes = votes_of(indptr, labels, probs, n_labels, unlearned);
  const auto rows = static_cast<std::size_t>(votes.rows), columns = static_cast<std::size_t>(std::max(k, 0));
  check_rows(truth_indptr, rows, truth_labels.size());
  if (k < 1) throw nb::value_error("k must be positive");
  auto auroc = std::make_unique_for_overwrite<double[]>(rows * kMeasures);
  auto aupr = std::make_unique_for_overwrite<double[]>(rows * kMeasures);
  auto sums = std::make_unique_for_overwrite<double[]>(rows * kMeasures);
  auto best = std::make_unique_for_overwrite<std::int32_t[]>(rows * columns);
  auto ranks = std::vector<std::int32_t>(truth_labels.size());
  OwnedMeasures<float> of_best(rows * columns), of_true(truth_labels.size());
  {
    PythonWatch watch;
    nb::gil_scoped_release release;
    SparseRows truth;
    truth.rows = votes.rows;
    truth.columns = n_labels;
    truth.indptr = truth_indptr.data();
    truth.indices = truth_labels.data();
    judge_votes(votes, truth, k, resolve_threads(threads), watch,
                {auroc.get(), aupr.get(), sums.get(), best.get(), of_best.view<Measures>(), ranks.data(),
                 of_true.view<Measures>()});
  }
  return {matrix(std::move(auroc), rows, kMeasures), matrix(std::move(aupr), rows, kMeasures),
          matrix(std::move(sums), rows, kMeasures),  matrix(std::move(best), rows, columns),
          of_best.to_numpy(rows, columns),           to_numpy(std::move(ranks)),
          of_true.to_numpy(truth_labels.size())};
}

template <class Arrays>
void bind_arrays(nb::module_& m, const char* name, const char* meaning) {
  Results<Arrays>(m, name, meaning)
      .field("probability", &Arrays::probability)
      .field("total", &Arrays::total)
      .field("data", &Arrays::data)
      .field("knowledge", &Arrays::knowledge)
      .field("variance", &Arrays::variance);
}

}  // namespace

void bind_measures(nb::module_& m) {
  bind_arrays<LabelMeasures>(m, "LabelMeasures", "Measures of labels or of rows.");
  bind_arrays<TrueMeasures>(m, "TrueMeasures", "Measures of true labels.");
  bind_arrays<RankedMeasures>(m, "RankedMeasures", "Measures of the best labels of each row.");
  Results<VoteMeasures>(m, "VoteMeasures", "Measures of every candidate, and their sums over each row.")
      .field("labels", &VoteMeasures::labels)
      .field("inputs", &VoteMeasures::inputs);
  Results<FoundBest>(m, "BestLabels", "The best labels of each row, their measures, and sums over all candidates.")
      .field("labels", &FoundBest::labels)
      .field("measures", &FoundBest::measures)
      .field("sums", &FoundBest::sums);
  Results<Assessed>(m, "Assessed", "Votes compared with the truth.")
      .field("auroc", &Assessed::auroc)
      .field("aupr", &Assessed::aupr)
      .field("sums", &Assessed::sums)
      .field("labels", &Assessed::labels)
      .field("best", &Assessed::best)
      .field("rank", &Assessed::rank)
      .field("true_labels", &Assessed::true_labels);
  m.def("measure_votes", &measure_votes, "indptr"_a, "probs"_a, "unlearned"_a.none(),
        "The measures of every candidate, and their sums over each row, in double precision. Of those marked as"
        " unlearned, all doubt is lack of knowledge.");
  m.def("best_labels", &best_labels, "indptr"_a, "labels"_a, "probs"_a, "unlearned"_a.none(), "ranked_by"_a.none(),
        "k"_a, "threads"_a,
        "The best k candidates of each row by mean probability, or by `ranked_by`, and all measures.");
  m.def("assess", &assess, "indptr"_a, "labels"_a, "probs"_a, "unlearned"_a.none(), "n_labels"_a, "truth_indptr"_a,
        "truth_labels"_a, "k"_a, "threads"_a,
        "Compares votes with the truth: what is right, and whether uncertainty finds what is wrong.");
}
