// Counting and moving probabilities, for Python.
#include "calibration.h"

#include <nanobind/stl/optional.h>

#include <limits>
#include <memory>
#include <optional>

#include "bindings.h"

using namespace hedgerow;
using namespace nb::literals;

namespace {

using Bytes = Array<std::uint8_t, 2>;
using Values = Array<double, 3>;
using Counts = nb::ndarray<std::int64_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>;

void check_labels(const Vector<std::int32_t>& labels, const Probabilities& probs, const Vector<std::uint8_t>& group,
                  std::size_t groups) {
  if (probs.shape(0) != labels.size() || probs.shape(1) < 1 ||
      probs.shape(1) > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw nb::value_error("probs and labels do not fit");
  for (std::size_t i = 0; i < group.size(); ++i)
    if (group.data()[i] >= groups) throw nb::value_error("a label is in no group");
  if (groups == 1) return;
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels.data()[i] < 0 || static_cast<std::size_t>(labels.data()[i]) >= group.size())
      throw nb::value_error("a candidate is not a label");
}

void count(const Vector<std::int64_t>& indptr, const Vector<std::int32_t>& labels, const Probabilities& probs,
           const Vector<std::int64_t>& truth_indptr, const Vector<std::int32_t>& truth_labels,
           const Vector<std::uint8_t>& group, const std::optional<Bytes>& allowed, bool each, int best,
           const Counts& counts, int threads) {
  if (indptr.size() == 0) throw nb::value_error("indptr is empty");
  const std::size_t rows = indptr.size() - 1, groups = counts.shape(1);
  check_rows(indptr, rows, labels.size());
  check_rows(truth_indptr, rows, truth_labels.size());
  check_labels(labels, probs, group, groups);
  if (counts.shape(2) != static_cast<std::size_t>(calibration_bins()) || counts.shape(3) != 4 || best < 1 ||
      groups < 1 || groups > 256 || counts.shape(0) != (each ? probs.shape(1) : 1))
    throw nb::value_error("counts have another shape");
  if (allowed && (allowed->shape(0) != rows || allowed->shape(1) != probs.shape(1)))
    throw nb::value_error("allowed has another shape");
  PythonWatch watch;
  nb::gil_scoped_release release;
  const VoteRows votes{static_cast<std::int64_t>(rows),
                       static_cast<std::int64_t>(group.size()),
                       static_cast<int>(probs.shape(1)),
                       indptr.data(),
                       labels.data(),
                       probs.data()};
  SparseRows truth;
  truth.rows = votes.rows;
  truth.columns = votes.labels;
  truth.indptr = truth_indptr.data();
  truth.indices = truth_labels.data();
  const CountOptions options{groups > 1 ? group.data() : nullptr, static_cast<int>(groups),
                             allowed ? allowed->data() : nullptr, each, best};
  count_votes(votes, truth, options, resolve_threads(threads), watch, counts.data());
}

nb::ndarray<nb::numpy, float, nb::ndim<2>> apply(const Vector<std::int32_t>& labels, const Probabilities& probs,
                                                 const Vector<std::uint8_t>& group, const Values& values, bool each,
                                                 bool odds, int threads) {
  const std::size_t members = probs.shape(1), groups = values.shape(1);
  check_labels(labels, probs, group, groups);
  if (values.shape(2) != static_cast<std::size_t>(calibration_bins()) + 1 || groups < 1 || groups > 256 ||
      values.shape(0) != (each ? members : 1))
    throw nb::value_error("the maps have another shape");
  auto moved = std::make_unique_for_overwrite<float[]>(labels.size() * members);
  {
    PythonWatch watch;
    nb::gil_scoped_release release;
    const CalibrationMaps maps{values.data(), groups > 1 ? group.data() : nullptr, static_cast<int>(groups), each,
                               odds};
    apply_maps(labels.data(), probs.data(), static_cast<std::int64_t>(labels.size()), static_cast<int>(members), maps,
               resolve_threads(threads), watch, moved.get());
  }
  return matrix(std::move(moved), labels.size(), members);
}

}  // namespace

void bind_calibration(nb::module_& m) {
  m.def(
      "calibration_edges", [] { return to_numpy(calibration_edges()); },
      "Where the bins of calibration begin, and the end of the last.");
  m.def("count_votes", &count, "indptr"_a, "labels"_a, "probs"_a, "truth_indptr"_a, "truth_labels"_a, "group"_a,
        "allowed"_a.none(), "each"_a, "best"_a, "counts"_a, "threads"_a,
        "Adds to counts, (members or 1, groups, bins, 4): best candidates, the true ones, others, the true ones.");
  m.def("apply_maps", &apply, "labels"_a, "probs"_a, "group"_a, "values"_a, "each"_a, "odds"_a, "threads"_a,
        "The probabilities as the maps, of shape (members or 1, groups, bins + 1), move them.");
}
