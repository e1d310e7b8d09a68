// From scores to probabilities and measures of uncertainty.
//
// Compiled once for each SIMD level, as a part of kernels.cpp and of nothing else.
#pragma once

#include "kernels.h"
#include "kernels/vectors.h"

namespace hedgerow::KERNEL_LEVEL {

namespace {

inline F16 load_some(const float* p, std::int64_t count) {
  F16 v = {};
  __builtin_memcpy(&v, p, static_cast<unsigned long>(count) * 4);
  return v;
}

template <class Function>
inline void map(const float* values, std::int64_t size, float* out, Function f) {
  std::int64_t i = 0;
  for (; i + 16 <= size; i += 16) store(out + i, f(load<F16>(values + i)));
  if (i < size) {
    const F16 v = f(load_some(values + i, size - i));
    __builtin_memcpy(out + i, &v, static_cast<unsigned long>(size - i) * 4);
  }
}

void log_probabilities(const float* logits, std::int64_t size, float parent, Transform transform, float* logs) {
  if (transform == Transform::l3_hinge) {
    map(logits, size, logs, [=](F16 z) {
      // Not the other way round: a score that is no number must not become a certainty.
      const F16 h = select(z >= 1.0f, all<16>(0.0f), 1.0f - z);
      return parent - h * h * h;
    });
  } else {
    map(logits, size, logs, [=](F16 z) {
      // log sigmoid(z) = min(z, 0) - log1p(exp(-|z|))
      const F16 u = exponential(select(z < 0.0f, z, -z));
      const F16 w = u + 1.0f;
      const F16 exact = w - 1.0f;
      const F16 log1p = select(exact == 0.0f, u, logarithm<16>(w) * (u / exact));
      return parent + select(z >= 0.0f, all<16>(0.0f), z) - log1p;  // as above
    });
  }
}

void exponentials(float* logs, std::int64_t size) {
  map(logs, size, logs, [](F16 x) { return exponential(x); });
}

// -x ln x for a probability x with the logarithm `log`; 0 where x is 0.
template <int N>
inline Floats<N> surprise(const Floats<N>& x, const Floats<N>& log) {
  return select(x > 0.0f, -(x * log), all<N>(0.0f));
}

constexpr float kLeastNormal = 1.17549435e-38f;

template <int N>
inline Floats<N> clamped_log(const Floats<N>& x) {
  return logarithm<N>(larger<N>(x, all<N>(kLeastNormal)));
}

// Binary entropy of p with its logarithm. Of a small p, 1 - p has few digits, so -(1 - p) ln(1 - p) is taken from its
// series there; where all of p are small, that saves a logarithm.
constexpr float kSmall = 0.01f;
template <int N>
inline Floats<N> entropy(const Floats<N>& p, const Floats<N>& log_p) {
  const Floats<N> series = p * (1.0f - p * (0.5f + p * (1.0f / 6.0f)));
  const Ints<N> large = p >= kSmall;
  if (!any(large)) return surprise(p, log_p) + series;
  const Floats<N> rest = 1.0f - p;
  return surprise(p, log_p) + select(large, surprise(rest, clamped_log(rest)), series);
}

// Calls f(position, lanes) for every group of 16; the last may be shorter.
template <class Function>
inline void each_group(std::int64_t size, Function f) {
  for (std::int64_t i = 0; i < size; i += 16) f(i, size - i < 16 ? size - i : 16);
}

inline void store_some(float* p, const F16& v, std::int64_t count) {
  // A copy of unknown length is a slow string instruction; only the last group needs it.
  if (count == 16)
    store(p, v);
  else
    __builtin_memcpy(p, &v, static_cast<unsigned long>(count) * 4);
}

void log_means(const float* logs, std::size_t stride, int members, std::int64_t size, float* out) {
  each_group(size, [&](std::int64_t i, std::int64_t lanes) {
    F16 sum{};
    for (int m = 0; m < members; ++m) {
      const float* at = logs + static_cast<std::size_t>(m) * stride + i;
      sum += exponential(lanes == 16 ? load<F16>(at) : load_some(at, lanes));
    }
    const F16 mean = sum * (1.0f / static_cast<float>(members));
    store_some(out + i, select(mean > 0.0f, clamped_log(mean), all<16>(-kInfinity)), lanes);
  });
}

// Members whose probabilities are kept for the variance.
constexpr int kKept = 32;

void measure(const float* logs, std::size_t stride, int members, std::int64_t size, const Measures& out) {
  const float share = 1.0f / static_cast<float>(members);
  each_group(size, [&](std::int64_t i, std::int64_t lanes) {
    const auto log_of = [&](int m) {
      const float* at = logs + static_cast<std::size_t>(m) * stride + i;
      return lanes == 16 ? load<F16>(at) : load_some(at, lanes);
    };
    F16 sum{}, doubts{};
    F16 kept[kKept];  // probabilities of the first members
    std::uint64_t silent = 0;
    for (int m = 0; m < members; ++m) {
      const F16 log = log_of(m);
      // Most candidates are met by few members, and those that one member met lie together.
      if (m < kKept && !any(~(log <= kLogOfZero))) {
        silent |= std::uint64_t{1} << m;
        continue;
      }
      const F16 p = exponential(log);
      if (m < kKept) kept[m] = p;
      sum += p;
      doubts += entropy(p, log);
    }
    const F16 mean = sum * share;
    F16 squares{};
    for (int m = 0; m < members; ++m) {
      F16 off = -mean;
      if (m >= kKept)
        off = exponential(log_of(m)) - mean;
      else if ((silent >> m & 1) == 0)
        off = kept[m] - mean;
      squares += off * off;
    }
    const F16 total = entropy(mean, clamped_log(mean));
    // Rounding must not make knowledge negative, nor data more than the total.
    const F16 data = members == 1 ? total : smaller<16>(doubts * share, total);
    store_some(out.probability + i, mean, lanes);
    store_some(out.total + i, total, lanes);
    store_some(out.data + i, data, lanes);
    store_some(out.knowledge + i, total - data, lanes);
    store_some(out.variance + i, squares * share, lanes);
  });
}

void add_missed(const float* logs, const float* counts, std::int64_t size, double& mass) {
  F16 masses{};
  each_group(size, [&](std::int64_t i, std::int64_t lanes) {
    const F16 log = lanes == 16 ? load<F16>(logs + i) : load_some(logs + i, lanes);
    const F16 count = lanes == 16 ? load<F16>(counts + i) : load_some(counts + i, lanes);
    masses += exponential(log) * count;
  });
  float sums[16];
  store(sums, masses);
  for (const float sum : sums) mass += static_cast<double>(sum);
}

std::int64_t select_at_least(const float* values, std::int64_t size, float threshold, std::uint32_t* positions) {
  std::int64_t count = 0;
  std::int64_t i = 0;
  for (; i + 16 <= size; i += 16) {
    unsigned mask = collect_bits<16>(load<F16>(values + i) >= threshold);
    for (; mask; mask &= mask - 1)
      positions[count++] = static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(__builtin_ctz(mask));
  }
  for (; i < size; ++i)
    if (values[i] >= threshold) positions[count++] = static_cast<std::uint32_t>(i);
  return count;
}

}  // namespace

}  // namespace hedgerow::KERNEL_LEVEL
