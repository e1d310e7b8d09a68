// The judgement of votes, for Python.
#include "judgement.h"

#include <limits>
#include <memory>

#include "bindings.h"

using namespace hedgerow;
using namespace nb::literals;

namespace {

// The measures of some labels, to be handed to NumPy.
class OwnedMeasures {
 public:
  OwnedMeasures(std::size_t rows, std::size_t columns) : rows_(rows), columns_(columns) {
    for (auto& part : parts_) part = std::make_unique_for_overwrite<float[]>(rows * columns);
  }
  Measures view() const {
    return {parts_[0].get(), parts_[1].get(), parts_[2].get(), parts_[3].get(), parts_[4].get()};
  }
  nb::list to_numpy() {
    nb::list arrays;
    for (auto& part : parts_) arrays.append(matrix(std::move(part), rows_, columns_));
    return arrays;
  }

 private:
  std::size_t rows_, columns_;
  std::unique_ptr<float[]> parts_[kMeasures];
};

nb::tuple judge(const Vector<std::int64_t>& indptr, const Vector<std::int32_t>& labels, const Probabilities& probs,
                std::int64_t n_labels, const Vector<std::int64_t>& truth_indptr,
                const Vector<std::int32_t>& truth_labels, int k, int threads) {
  if (indptr.size() == 0) throw nb::value_error("indptr is empty");
  const std::size_t rows = indptr.size() - 1, columns = static_cast<std::size_t>(k);
  check_rows(indptr, rows, labels.size());
  check_rows(truth_indptr, rows, truth_labels.size());
  if (probs.shape(0) != labels.size() || probs.shape(1) < 1 ||
      probs.shape(1) > static_cast<std::size_t>(std::numeric_limits<int>::max()) || k < 1)
    throw nb::value_error("probs, labels or k do not fit");
  auto auroc = std::make_unique_for_overwrite<double[]>(rows * kMeasures);
  auto aupr = std::make_unique_for_overwrite<double[]>(rows * kMeasures);
  auto sums = std::make_unique_for_overwrite<double[]>(rows * kMeasures);
  auto best = std::make_unique_for_overwrite<std::int32_t[]>(rows * columns);
  auto ranks = std::vector<std::int32_t>(truth_labels.size());
  OwnedMeasures of_best(rows, columns), of_true(1, truth_labels.size());
  {
    PythonWatch watch;
    nb::gil_scoped_release release;
    const VoteRows votes{static_cast<std::int64_t>(rows),
                         n_labels,
                         static_cast<int>(probs.shape(1)),
                         indptr.data(),
                         labels.data(),
                         probs.data()};
    SparseRows truth;
    truth.rows = votes.rows;
    truth.columns = n_labels;
    truth.indptr = truth_indptr.data();
    truth.indices = truth_labels.data();
    judge_votes(votes, truth, k, resolve_threads(threads), watch,
                {auroc.get(), aupr.get(), sums.get(), best.get(), of_best.view(), ranks.data(), of_true.view()});
  }
  return nb::make_tuple(matrix(std::move(auroc), rows, kMeasures), matrix(std::move(aupr), rows, kMeasures),
                        matrix(std::move(sums), rows, kMeasures), matrix(std::move(best), rows, columns),
                        of_best.to_numpy(), to_numpy(std::move(ranks)), of_true.to_numpy());
}

}  // namespace

void bind_judgement(nb::module_& m) {
  m.def("judge", &judge, "indptr"_a, "labels"_a, "probs"_a, "n_labels"_a, "truth_indptr"_a, "truth_labels"_a, "k"_a,
        "threads"_a,
        "Votes beside the truth: (auroc, aupr, sums, best labels, their measures, ranks of the true labels, theirs).");
}
