// What one worker needs to solve panels: the rows of a node, and room for weights and duals.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <exception>
#include <span>
#include <stdexcept>
#include <vector>

#include "aligned.h"
#include "chunk.h"
#include "kernels.h"
#include "local_rows.h"
#include "memberships.h"
#include "parallel.h"
#include "trainer.h"

namespace hedgerow {

// Kept from task to task.
struct PanelBench {
  LocalRows rows;
  std::int64_t gathered = -1;  // chunk whose rows are in `rows`
  std::vector<std::int32_t> members;
  std::vector<float> costs, squared_norms, totals;
  Aligned<float> weights, duals;
  std::vector<float> costs_before;
  Aligned<float> rounded;  // with rows held out
  std::vector<std::uint16_t> positives, awake;
  std::vector<std::int32_t> order;

  // The rows `members` of a matrix, and their norms.
  void gather(const SparseRows& X, const float* scales, float bias) {
    rows.gather(X, members, scales);
    const SparseRows local = rows.view();
    squared_norms.resize(members.size());
    for (std::int64_t i = 0; i < local.rows; ++i) {
      const SparseRow x = local[i];
      float square = bias * bias;
      for (std::int64_t j = 0; j < x.size; ++j) square += x.values[j] * x.values[j];
      squared_norms[static_cast<std::size_t>(i)] = square;
    }
  }

  // The problem of some children of a node, ascending; weights and duals are 0. `lists` has the children of each row.
  PanelProblem problem(const TrainOptions& options, const Lists& lists, std::span<const std::int32_t> children,
                       std::uint64_t seed) {
    const SparseRows local = rows.view();
    PanelProblem problem{};
    problem.rows = static_cast<std::int32_t>(local.rows);
    problem.features = static_cast<std::int32_t>(local.columns);
    problem.lanes = static_cast<int>(children.size());
    problem.width = problem.lanes <= 8 ? 8 : 16;
    problem.indptr = local.indptr;
    problem.indices = local.indices;
    problem.values = local.values;
    problem.squared_norms = squared_norms.data();
    problem.costs = costs.data();
    problem.bias = options.bias;
    problem.positive_cost = options.cost * options.positive_cost;
    problem.negative_cost = options.cost * options.negative_cost;
    problem.tolerance = options.tolerance;
    problem.max_passes = options.max_passes;
    problem.loss = options.loss;
    problem.seed = seed;

    const std::size_t count = static_cast<std::size_t>(local.rows), width = static_cast<std::size_t>(problem.width);
    positives.assign(count, 0);
    for (std::size_t i = 0; i < count; ++i) {
      const auto nodes = lists[members[i]];
      auto lane = children.begin();
      for (auto at = std::lower_bound(nodes.begin(), nodes.end(), children.front());
           at != nodes.end() && *at <= children.back(); ++at) {
        while (*lane < *at) ++lane;
        if (*lane == *at) positives[i] = static_cast<std::uint16_t>(positives[i] | 1u << (lane - children.begin()));
      }
    }
    problem.positives = positives.data();
    weights.assign((static_cast<std::size_t>(local.columns) + 1) * width, 0.0f);
    duals.assign(count * width, 0.0f);
    awake.resize(count);
    order.resize(count);
    problem.weights = weights.data();
    problem.duals = duals.data();
    problem.awake = awake.data();
    problem.order = order.data();
    totals.resize(static_cast<std::size_t>(local.columns) + 1);
    problem.totals = totals.data();
    return problem;
  }
};

// Solves a panel, and lets whoever watches stop it.
class WatchedSolver {
 public:
  explicit WatchedSolver(Watch& watch) : watch_(watch) {}

  void solve(PanelProblem& problem) {
    problem.stop_context = this;
    problem.should_stop = [](void* context) {
      auto& here = *static_cast<WatchedSolver*>(context);
      try {
        here.watch_.check();
        return false;
      } catch (...) {
        here.reason_ = std::current_exception();
        return true;
      }
    };
    kernels().solve_panel(problem);
    if (reason_) std::rethrow_exception(reason_);
  }

 private:
  Watch& watch_;
  std::exception_ptr reason_;
};

inline void require_finite(float weight) {
  if (!std::isfinite(weight))
    throw std::domain_error(
        "features, costs or the bias are too large for float32; scale them down, or use normalize=True");
}

// The solved weights of a panel as they are stored, and the biases of its lanes.
inline void keep_weights(const PanelProblem& problem, float threshold, PanelWeights& out, float* bias) {
  const auto features = static_cast<std::size_t>(problem.features), width = static_cast<std::size_t>(problem.width);
  out.masks.resize(features);
  kernels().mark_kept(problem.weights, problem.features, problem.width, problem.lanes, threshold, out.masks.data());
  std::size_t kept = 0;
  for (const std::uint16_t mask : out.masks) kept += static_cast<std::size_t>(std::popcount(mask));
  out.weights.reserve(kept);
  for (std::size_t f = 0; f < features; ++f)
    for (unsigned bits = out.masks[f]; bits; bits &= bits - 1) {
      const float weight = problem.weights[f * width + static_cast<std::size_t>(std::countr_zero(bits))];
      require_finite(weight);
      out.weights.push_back(to_bfloat16(weight));
    }
  for (int lane = 0; lane < problem.lanes; ++lane) {
    bias[lane] = problem.weights[features * width + static_cast<std::size_t>(lane)] * problem.bias;
    require_finite(bias[lane]);
  }
}

}  // namespace hedgerow
