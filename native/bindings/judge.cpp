// The learned judge of candidates, for Python.
#include "judge.h"

#include <limits>
#include <memory>

#include "bindings.h"
#include "boosted_trees.h"

using namespace hedgerow;
using namespace nb::literals;

namespace {

Numpy<float, 2> judge(const Vector<std::int32_t>& labels, const Probabilities& probs, const Probabilities& scores,
                      const Vector<double>& coefficients, const Vector<double>& range, const Vector<float>& log_counts,
                      int threads) {
  const std::size_t entries = labels.size(), members = probs.shape(1), scorers = scores.shape(1);
  if (probs.shape(0) != entries || scores.shape(0) != entries || members < 1 ||
      std::max(members, scorers) > static_cast<std::size_t>(std::numeric_limits<std::int16_t>::max()))
    throw nb::value_error("labels, probs and scores do not fit");
  if (static_cast<std::int64_t>(coefficients.size()) != judge_coefficients(static_cast<int>(scorers)))
    throw nb::value_error("the judge has another number of coefficients");
  if (scorers + 2 > kMostSeen) throw nb::value_error("there are more scorers than a judge can hear");
  if (range.size() != 2 * (scorers + 2)) throw nb::value_error("the judge has another range");
  for (std::size_t i = 0; i < range.size(); i += 2)
    if (!(range.data()[i] <= range.data()[i + 1])) throw nb::value_error("the judge has an empty range");
  check_labels(labels, log_counts.size());
  auto judged = std::make_unique_for_overwrite<float[]>(entries * members);
  {
    PythonWatch watch;
    nb::gil_scoped_release release;
    judge_candidates({static_cast<int>(scorers), coefficients.data(), range.data(), log_counts.data()}, labels.data(),
                     probs.data(), scores.data(), static_cast<std::int64_t>(entries), static_cast<int>(members),
                     resolve_threads(threads), watch, judged.get());
  }
  return matrix(std::move(judged), entries, members);
}

Numpy<float, 2> move(const Vector<double>& log_odds, const Probabilities& probs, int threads) {
  const std::size_t entries = log_odds.size(), members = probs.shape(1);
  if (probs.shape(0) != entries || members < 1 ||
      members > static_cast<std::size_t>(std::numeric_limits<std::int16_t>::max()))
    throw nb::value_error("log_odds and probs do not fit");
  auto moved = std::make_unique_for_overwrite<float[]>(entries * members);
  {
    PythonWatch watch;
    nb::gil_scoped_release release;
    move_members(log_odds.data(), probs.data(), static_cast<std::int64_t>(entries), static_cast<int>(members),
                 resolve_threads(threads), watch, moved.get());
  }
  return matrix(std::move(moved), entries, members);
}

Numpy<double, 1> sum_trees(const Vector<std::int64_t>& begins, const Vector<std::int32_t>& features,
                           const Vector<double>& thresholds, const Vector<std::int32_t>& left,
                           const Vector<std::int32_t>& right, const Array<float, 2>& values, int threads) {
  const std::size_t nodes = features.size(), rows = values.shape(0), width = values.shape(1);
  if (begins.size() < 1 || thresholds.size() != nodes || left.size() != nodes || right.size() != nodes)
    throw nb::value_error("the arrays of the trees do not fit");
  const BoostedTrees trees{begins.data(),   static_cast<std::int64_t>(begins.size()) - 1,
                           features.data(), thresholds.data(),
                           left.data(),     right.data()};
  if (!is_sound(trees, static_cast<std::int64_t>(nodes), static_cast<std::int64_t>(width)))
    throw nb::value_error("the trees have nodes that lead nowhere");
  auto sums = std::make_unique_for_overwrite<double[]>(rows);
  {
    PythonWatch watch;
    nb::gil_scoped_release release;
    boosted_sums(trees, values.data(), static_cast<std::int64_t>(rows), static_cast<std::int64_t>(width),
                 resolve_threads(threads), watch, sums.get());
  }
  return vector(std::move(sums), rows);
}

}  // namespace

void bind_judge(nb::module_& m) {
  m.def("judge_candidates", &judge, "labels"_a, "probs"_a, "scores"_a, "coefficients"_a, "range"_a, "log_counts"_a,
        "threads"_a, "What the judge makes of the members' probabilities of candidates: (candidates, members).");
  m.def("move_members", &move, "log_odds"_a, "probs"_a, "threads"_a,
        "The members' probabilities of candidates, moved by one factor on their odds to where their mean has these"
        " log-odds.");
  m.def("sum_boosted_trees", &sum_trees, "begins"_a, "features"_a, "thresholds"_a, "left"_a, "right"_a, "values"_a,
        "threads"_a, "The sum of the leaves that each row of `values` ends in: (rows,).");
}
