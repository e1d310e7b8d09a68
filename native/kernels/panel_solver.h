// Dual coordinate descent for the lanes of a panel at once.
//
// Compiled once for each SIMD level, as a part of kernels.cpp and of nothing else.
#pragma once

#include "kernels.h"
#include "kernels/vectors.h"

namespace hedgerow::KERNEL_LEVEL {

namespace {

// Four sums hide the latency of the multiply-add.
template <int N>
inline Floats<N> dot(const std::int32_t* indices, const float* values, std::int64_t size, const float* table) {
  Floats<N> a{}, b{}, c{}, d{};
  std::int64_t i = 0;
  for (; i + 4 <= size; i += 4) {
    a += load<Floats<N>>(table + std::int64_t{indices[i]} * N) * values[i];
    b += load<Floats<N>>(table + std::int64_t{indices[i + 1]} * N) * values[i + 1];
    c += load<Floats<N>>(table + std::int64_t{indices[i + 2]} * N) * values[i + 2];
    d += load<Floats<N>>(table + std::int64_t{indices[i + 3]} * N) * values[i + 3];
  }
  for (; i < size; ++i) a += load<Floats<N>>(table + std::int64_t{indices[i]} * N) * values[i];
  return (a + b) + (c + d);
}

template <int N>
inline void add_scaled(const std::int32_t* indices, const float* values, std::int64_t size, Floats<N> step,
                       float* table) {
  for (std::int64_t i = 0; i < size; ++i) {
    float* row = table + std::int64_t{indices[i]} * N;
    store(row, load<Floats<N>>(row) + step * values[i]);
  }
}

void dot_panel(const std::int32_t* indices, const float* values, std::int64_t size, const float* table, int width,
               float* dots) {
  if (width == 8)
    store(dots, dot<8>(indices, values, size, table));
  else
    store(dots, dot<16>(indices, values, size, table));
}

constexpr std::int32_t kRowsBetweenStops = 4096;

class Shuffler {
 public:
  explicit Shuffler(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u) {}

  void shuffle(std::int32_t* items, std::int32_t count) {
    for (std::int32_t i = count - 1; i > 0; --i) {
      const std::int32_t j = static_cast<std::int32_t>(((next() >> 32) * static_cast<std::uint64_t>(i + 1)) >> 32);
      const std::int32_t kept = items[i];
      items[i] = items[j];
      items[j] = kept;
    }
  }

 private:
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

inline void prefetch_row(const PanelProblem& p, std::int32_t row) {
  __builtin_prefetch(p.indices + p.indptr[row]);
  __builtin_prefetch(p.values + p.indptr[row]);
}

// A start near the optimum: all positive rows of a lane get one dual, all negative ones another, the best such pair. It
// puts the bias and the direction between the two means in place, for which coordinate descent from zero needs several
// passes. With P and A the sums of the lane's positive rows and of all rows, the weights are p·P - n·(A - P), and the
// dual objective is a quadratic of p and n.
template <int N>
void start_from_means(PanelProblem& p, std::int32_t usable) {
  const std::int64_t dimensions = std::int64_t{p.features} + 1;
  for (std::int64_t f = 0; f < dimensions; ++f) p.totals[f] = 0;
  Floats<N> positive_cost{};
  float total_cost = 0;
  for (std::int32_t a = 0; a < usable; ++a) {
    const std::int32_t row = p.order[a];
    const float cost = p.costs[row];
    const std::int64_t begin = p.indptr[row], size = p.indptr[row + 1] - begin;
    total_cost += cost;
    for (std::int64_t i = 0; i < size; ++i) p.totals[p.indices[begin + i]] += cost * p.values[begin + i];
    if (p.positives[row] == 0) continue;
    const Floats<N> weight = select(expand_bits<N>(p.positives[row]), all<N>(cost), all<N>(0.0f));
    positive_cost += weight;
    add_scaled<N>(p.indices + begin, p.values + begin, size, weight, p.weights);
  }
  p.totals[p.features] = total_cost * p.bias;
  store(p.weights + std::int64_t{p.features} * N, positive_cost * p.bias);

  Floats<N> pp{}, ap{};
  float aa = 0;
  for (std::int64_t f = 0; f < dimensions; ++f) {
    const Floats<N> sum = load<Floats<N>>(p.weights + f * N);
    pp += sum * sum;
    ap += sum * p.totals[f];
    aa += p.totals[f] * p.totals[f];
  }
  const Floats<N> negative_cost = total_cost - positive_cost;
  const Floats<N> q_positive = pp + positive_cost * (0.5f / p.positive_cost);
  const Floats<N> q_negative = (aa - 2.0f * ap + pp) + negative_cost * (0.5f / p.negative_cost);
  const Floats<N> q_both = pp - ap;  // minus the product of the two sums
  const Floats<N> zero{};
  const Floats<N> determinant = q_positive * q_negative - q_both * q_both;
  const Ints<N> sound = determinant > 1e-6f * q_positive * q_negative;
  Floats<N> positive = select(sound, (positive_cost * q_negative - negative_cost * q_both) / determinant, zero);
  Floats<N> negative = select(sound, (negative_cost * q_positive - positive_cost * q_both) / determinant, zero);
  const Ints<N> no_positive = ~(positive > 0.0f), no_negative = ~(negative > 0.0f);
  const Ints<N> only_positive = no_negative & ~no_positive;
  negative = select(no_positive, select(negative_cost > 0.0f, negative_cost / q_negative, zero), negative);
  positive = select(no_positive, zero, positive);
  positive = select(only_positive, select(positive_cost > 0.0f, positive_cost / q_positive, zero), positive);
  negative = select(only_positive, zero, negative);

  for (std::int64_t f = 0; f < dimensions; ++f) {
    const Floats<N> sum = load<Floats<N>>(p.weights + f * N);
    store(p.weights + f * N, (positive + negative) * sum - negative * p.totals[f]);
  }
  for (std::int32_t a = 0; a < usable; ++a) {
    const std::int32_t row = p.order[a];
    store(p.duals + std::int64_t{row} * N, select(expand_bits<N>(p.positives[row]), positive, negative) * p.costs[row]);
  }
}

// Dual coordinate descent for the squared hinge (Hsieh et al., 2008), all lanes of a row at once. Each lane keeps its
// own duals, its own set of rows that still matter (`awake`) and its own end: a lane that has converged on the rows it
// kept awake waits for the others, then all of them together see every row once more.
template <int N>
void solve_squared_hinge(PanelProblem& p) {
  const unsigned every = (1u << p.lanes) - 1;
  float* bias_row = p.weights + std::int64_t{p.features} * N;
  Shuffler shuffler(p.seed);

  std::int32_t usable = 0;
  for (std::int32_t row = 0; row < p.rows; ++row) {
    // The others are solved already, and are looked at again when the new rows are in.
    const bool first = !p.costs_before || p.costs_before[row] <= 0;
    p.awake[row] = static_cast<std::uint16_t>(first ? every : 0);
    if (p.costs[row] > 0) p.order[usable++] = row;
  }
  if (!p.costs_before) start_from_means<N>(p, usable);

  // A violation this far below the tolerance is not worth writing the weights for.
  const float idle = 0.1f * p.tolerance;
  Floats<N> shrink_above = all<N>(kInfinity);
  unsigned live = every, waiting = 0,
           whole = p.costs_before ? 0 : every;  // whole: lanes whose current pass sees every row
  std::int32_t active = usable;
  p.passes = 0;
  while (live != 0 && p.passes < p.max_passes) {
    ++p.passes;
    shuffler.shuffle(p.order, active);
    Floats<N> highest = all<N>(-kInfinity), lowest = all<N>(kInfinity);
    for (std::int32_t a = 0; a < active; ++a) {
      if (a % kRowsBetweenStops == 0 && p.should_stop(p.stop_context)) return;
      const std::int32_t row = p.order[a];
      const unsigned wanted = p.awake[row] & live;
      if (wanted == 0) {
        --active;
        p.order[a] = p.order[active];
        p.order[active] = row;
        --a;
        continue;
      }
      if (a + 1 < active) prefetch_row(p, p.order[a + 1]);
      const std::int64_t begin = p.indptr[row], size = p.indptr[row + 1] - begin;
      const std::int32_t* indices = p.indices + begin;
      const float* values = p.values + begin;
      const Floats<N> score = dot<N>(indices, values, size, p.weights) + load<Floats<N>>(bias_row) * p.bias;

      const float cost = p.costs[row];
      const float slack_positive = 0.5f / (p.positive_cost * cost), slack_negative = 0.5f / (p.negative_cost * cost);
      const Ints<N> positive = expand_bits<N>(p.positives[row]);
      const Floats<N> sign = select(positive, all<N>(1.0f), all<N>(-1.0f));
      const Floats<N> slack = select(positive, all<N>(slack_positive), all<N>(slack_negative));
      const Floats<N> step = select(positive, all<N>(1.0f / (p.squared_norms[row] + slack_positive)),
                                    all<N>(1.0f / (p.squared_norms[row] + slack_negative)));

      float* duals = p.duals + std::int64_t{row} * N;
      const Floats<N> dual = load<Floats<N>>(duals);
      const Floats<N> gradient = sign * score - 1.0f + dual * slack;
      const Ints<N> at_bound = dual <= 0.0f;
      const Ints<N> here = expand_bits<N>(wanted);
      const Ints<N> asleep = here & at_bound & (gradient > shrink_above);
      p.awake[row] = static_cast<std::uint16_t>(p.awake[row] & ~collect_bits<N>(asleep));
      const Ints<N> acting = here & ~asleep;
      const Floats<N> projected = select(at_bound, smaller<N>(gradient, all<N>(0.0f)), gradient);
      highest = select(acting, larger<N>(highest, projected), highest);
      lowest = select(acting, smaller<N>(lowest, projected), lowest);

      const Floats<N> moved = larger<N>(dual - gradient * step, all<N>(0.0f));
      const Ints<N> moving = acting & ((projected > idle) | (projected < -idle));
      if (collect_bits<N>(moving) == 0) continue;
      store(duals, select(moving, moved, dual));
      const Floats<N> change = select(moving, (moved - dual) * sign, all<N>(0.0f));
      add_scaled<N>(indices, values, size, change, p.weights);
      store(bias_row, load<Floats<N>>(bias_row) + change * p.bias);
    }

    const unsigned converged = live & collect_bits<N>((highest - lowest <= p.tolerance) | (highest < lowest));
    waiting |= converged & ~whole;
    live &= ~converged;
    whole = 0;
    shrink_above = select(highest > 0.0f, highest, all<N>(kInfinity));
    if (live == 0 && waiting != 0) {
      live = whole = waiting;
      waiting = 0;
      shrink_above = all<N>(kInfinity);
      active = usable;
      for (std::int32_t row = 0; row < p.rows; ++row) p.awake[row] = static_cast<std::uint16_t>(live);
    }
  }
}

// Dual coordinate descent for logistic loss (Yu, Huang and Lin, 2011): each dual solves its one-variable problem by a
// few Newton steps. `duals` holds the share of the cost C that the row has used, in (0, C).
template <int N>
void solve_logistic(PanelProblem& p) {
  const unsigned every = (1u << p.lanes) - 1;
  float* bias_row = p.weights + std::int64_t{p.features} * N;
  Shuffler shuffler(p.seed);

  std::int32_t usable = 0;
  for (std::int32_t row = 0; row < p.rows; ++row) {
    if (!(p.costs[row] > 0)) continue;
    p.order[usable++] = row;
    if (p.costs_before && p.costs_before[row] > 0) continue;
    const Ints<N> positive = expand_bits<N>(p.positives[row]);
    const Floats<N> cost =
        select(positive, all<N>(p.positive_cost * p.costs[row]), all<N>(p.negative_cost * p.costs[row]));
    const Floats<N> dual = smaller<N>(cost * 1e-3f, all<N>(1e-6f));
    store(p.duals + std::int64_t{row} * N, dual);
    const Floats<N> change = select(positive, dual, -dual);
    const std::int64_t begin = p.indptr[row], size = p.indptr[row + 1] - begin;
    add_scaled<N>(p.indices + begin, p.values + begin, size, change, p.weights);
    store(bias_row, load<Floats<N>>(bias_row) + change * p.bias);
  }

  unsigned live = every;
  p.passes = 0;
  while (live != 0 && p.passes < p.max_passes) {
    ++p.passes;
    shuffler.shuffle(p.order, usable);
    const Ints<N> acting = expand_bits<N>(live);
    Floats<N> worst = all<N>(0.0f);
    for (std::int32_t a = 0; a < usable; ++a) {
      if (a % kRowsBetweenStops == 0 && p.should_stop(p.stop_context)) return;
      const std::int32_t row = p.order[a];
      if (a + 1 < usable) prefetch_row(p, p.order[a + 1]);
      const std::int64_t begin = p.indptr[row], size = p.indptr[row + 1] - begin;
      const std::int32_t* indices = p.indices + begin;
      const float* values = p.values + begin;
      const Floats<N> score = dot<N>(indices, values, size, p.weights) + load<Floats<N>>(bias_row) * p.bias;

      const Ints<N> positive = expand_bits<N>(p.positives[row]);
      const Floats<N> sign = select(positive, all<N>(1.0f), all<N>(-1.0f));
      const Floats<N> cost =
          select(positive, all<N>(p.positive_cost * p.costs[row]), all<N>(p.negative_cost * p.costs[row]));
      float* duals = p.duals + std::int64_t{row} * N;
      const Floats<N> dual = load<Floats<N>>(duals);
      const Floats<N> margin = sign * score;
      const float curvature = p.squared_norms[row];

      // Work on whichever of dual and C - dual is the smaller: the logarithm is steep there.
      const Ints<N> flipped = (cost - dual - dual) * (0.5f * curvature) + margin < 0.0f;
      const Floats<N> slope = select(flipped, -margin, margin);
      const Floats<N> start = select(flipped, cost - dual, dual);
      Floats<N> z = select(cost - start < 0.5f * cost, 0.1f * start, start);
      Floats<N> gradient = {};
      for (int newton = 0; newton < 12; ++newton) {
        gradient = (z - start) * curvature + slope + logarithm<N>(z) - logarithm<N>(cost - z);
        if (newton == 0) {
          // The optimality gap is measured before the row is touched.
          const Floats<N> gap = select(gradient < 0.0f, -gradient, gradient);
          worst = select(acting, larger<N>(worst, gap), worst);
        }
        const Ints<N> off = ((gradient > 1e-3f) | (gradient < -1e-3f)) & acting;
        if (collect_bits<N>(off) == 0) break;
        const Floats<N> second = cost / ((cost - z) * z) + curvature;
        Floats<N> next = z - gradient / second;
        next = select(next <= 0.0f, z * 0.1f, next);
        next = select(next >= cost, z + (cost - z) * 0.9f, next);
        next = larger<N>(next, all<N>(1e-12f));
        next = smaller<N>(next, cost * (1.0f - 1e-6f));
        z = select(off, next, z);
      }
      const Floats<N> moved = select(flipped, cost - z, z);
      const Floats<N> change = select(acting, (moved - dual) * sign, all<N>(0.0f));
      store(duals, select(acting, moved, dual));
      add_scaled<N>(indices, values, size, change, p.weights);
      store(bias_row, load<Floats<N>>(bias_row) + change * p.bias);
    }
    live &= ~collect_bits<N>(worst <= p.tolerance);
  }
}

template <int N>
void mark_lanes(const float* weights, std::int64_t features, int lanes, float threshold, std::uint16_t* masks) {
  const unsigned every = (1u << lanes) - 1;
  for (std::int64_t f = 0; f < features; ++f) {
    const Floats<N> weight = load<Floats<N>>(weights + f * N);
    const Ints<N> dropped = ((weight < threshold) & (weight > -threshold)) | (weight == 0.0f);
    masks[f] = static_cast<std::uint16_t>(~collect_bits<N>(dropped) & every);
  }
}

void mark_kept(const float* weights, std::int64_t features, int width, int lanes, float threshold,
               std::uint16_t* masks) {
  if (width == 8)
    mark_lanes<8>(weights, features, lanes, threshold, masks);
  else
    mark_lanes<16>(weights, features, lanes, threshold, masks);
}

void solve_panel(PanelProblem& p) {
  if (p.loss == Loss::squared_hinge)
    p.width == 8 ? solve_squared_hinge<8>(p) : solve_squared_hinge<16>(p);
  else
    p.width == 8 ? solve_logistic<8>(p) : solve_logistic<16>(p);
}

}  // namespace

}  // namespace hedgerow::KERNEL_LEVEL
