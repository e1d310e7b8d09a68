// The measures of votes as they are stored, and how many labels lie above a score.
//
// Compiled once for each SIMD level, as a part of kernels.cpp and of nothing else.
#pragma once

#include "kernels.h"
#include "kernels/measures.h"
#include "kernels/vectors.h"

namespace hedgerow::KERNEL_LEVEL {

namespace {

// log(1 + u) for u >= 0
inline F16 log_of_one_more(const F16& u) {
  const F16 w = u + 1.0f;
  const F16 exact = w - 1.0f;
  return select(exact == 0.0f, u, logarithm<16>(w) * (u / exact));
}

// ln(1 + e^z) for the logit z that alone would give the probability p with the logarithm `log`. A logit is finite: p
// counts as no more than 1 - kFromOne.
constexpr float kFromOne = 1e-7f;
inline F16 energy_of(const F16& p, const F16& log, Transform transform) {
  if (transform == Transform::l3_hinge) {
    const F16 root = exponential(logarithm<16>(larger<16>(-log, all<16>(kFromOne))) * (1.0f / 3.0f));
    return log_of_one_more(exponential(1.0f - root));
  }
  // 1 + e^z = 1 / (1 - p). What 1 - p rounds away is made good by the second factor.
  const F16 rest = 1.0f - p;
  const F16 exact = 1.0f - rest;
  const F16 factor = select(exact == 0.0f, all<16>(1.0f), p / exact);
  const F16 whole = -logarithm<16>(larger<16>(rest, all<16>(kFromOne))) * factor;
  return select(exact == 0.0f, larger<16>(p, all<16>(kLeastNormal)), whole);
}

// Lane by lane in double precision: a sum over thousands of labels keeps its digits.
inline void add_lanes(double* sums, const F16& values) {
  float lanes[16];
  store(lanes, values);
  for (int i = 0; i < 16; ++i) sums[i] += static_cast<double>(lanes[i]);
}

// Two members at once where a register holds 16 labels: a logarithm is a long chain, and two of them overlap.
constexpr int kAtOnce = kRegister == 16 ? 2 : 1;

// The probabilities of 16 labels turned round: member by member, labels side by side. Of fewer, the rest are 0, and so
// is a member more, where they are taken two at a time.
inline void turn(const float* probs, int members, std::int64_t lanes, float* room) {
  typedef float Four __attribute__((vector_size(16)));
  int m = 0;
  if (lanes == 16) {
    for (; m + 4 <= members; m += 4)
      for (int lane = 0; lane < 16; lane += 4) {
        Four a, b, c, d;
        const float* from = probs + lane * static_cast<std::int64_t>(members) + m;
        __builtin_memcpy(&a, from, 16);
        __builtin_memcpy(&b, from + members, 16);
        __builtin_memcpy(&c, from + 2 * static_cast<std::int64_t>(members), 16);
        __builtin_memcpy(&d, from + 3 * static_cast<std::int64_t>(members), 16);
        const Four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
        const Four ef = __builtin_shufflevector(a, b, 2, 6, 3, 7), gh = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        const Four turned[4] = {
            __builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
            __builtin_shufflevector(ef, gh, 0, 1, 4, 5), __builtin_shufflevector(ef, gh, 2, 3, 6, 7)};
        for (int i = 0; i < 4; ++i) __builtin_memcpy(room + 16 * (m + i) + lane, &turned[i], 16);
      }
  }
  for (; m < members; ++m)
    for (int lane = 0; lane < 16; ++lane)
      room[16 * m + lane] = lane < lanes ? probs[lane * static_cast<std::int64_t>(members) + m] : 0.0f;
  store(room + 16 * m, F16{});
}

void measure_votes(const float* probs, int members, std::int64_t size, Transform transform, const Measures& out,
                   double* sums, float* room) {
  const float share = 1.0f / static_cast<float>(members);
  double lanes_of[kVoteSums][16] = {};
  each_group(size, [&](std::int64_t i, std::int64_t lanes) {
    turn(probs + i * members, members, lanes, room);
    F16 sum{}, doubts{};
    for (int m = 0; m < members; m += kAtOnce) {
      using Some = Floats<16 * kAtOnce>;
      const Some p = load<Some>(room + 16 * m);
      const Some doubt = entropy(p, clamped_log(p));
      float apart[16 * kAtOnce];
      store(apart, doubt);
      UNROLL for (int next = 0; next < kAtOnce; ++next) {
        sum += load<F16>(room + 16 * (m + next));
        doubts += load<F16>(apart + 16 * next);
      }
    }
    const F16 mean = sum * share;
    F16 squares{};
    for (int m = 0; m < members; ++m) {
      const F16 off = load<F16>(room + 16 * m) - mean;
      squares += off * off;
    }
    const F16 log = clamped_log(mean);
    const F16 total = entropy(mean, log);
    // Rounding must not make knowledge negative, nor data more than the total.
    const F16 data = members == 1 ? total : smaller<16>(doubts * share, total);
    const F16 knowledge = total - data, variance = squares * share;
    F16 energy = energy_of(mean, log, transform);
    if (lanes < 16) energy = select(expand_bits<16>((1u << lanes) - 1), energy, all<16>(0.0f));
    store_some(out.probability + i, mean, lanes);
    store_some(out.total + i, total, lanes);
    store_some(out.data + i, data, lanes);
    store_some(out.knowledge + i, knowledge, lanes);
    store_some(out.variance + i, variance, lanes);
    add_lanes(lanes_of[0], mean);
    add_lanes(lanes_of[1], total);
    add_lanes(lanes_of[2], data);
    add_lanes(lanes_of[3], knowledge);
    add_lanes(lanes_of[4], variance);
    add_lanes(lanes_of[5], energy);
  });
  for (int i = 0; i < kVoteSums; ++i) {
    sums[i] = 0;
    for (const double sum : lanes_of[i]) sums[i] += sum;
  }
}

inline std::int64_t count_of(const I16& minus_counts) {
  std::int32_t lanes[16];
  store(lanes, minus_counts);
  std::int64_t count = 0;
  for (const std::int32_t lane : lanes) count -= lane;
  return count;
}

void count_at_least(const float* values, std::int64_t size, float threshold, std::int64_t& above, std::int64_t& equal) {
  I16 higher{}, same{};  // a mask is -1 where it is set
  std::int64_t i = 0;
  for (; i + 16 <= size; i += 16) {
    const F16 v = load<F16>(values + i);
    higher += v > threshold;
    same += v == threshold;
  }
  above = count_of(higher);
  equal = count_of(same);
  for (; i < size; ++i) {
    above += values[i] > threshold;
    equal += values[i] == threshold;
  }
}

}  // namespace

}  // namespace hedgerow::KERNEL_LEVEL
