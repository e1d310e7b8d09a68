// The measures of votes as they are stored, and how many labels lie above a score.
//
// Compiled once for each SIMD level, as a part of kernels.cpp and of nothing else.
#pragma once

#include "kernels.h"
#include "kernels/measures.h"
#include "kernels/vectors.h"

namespace hedgerow::KERNEL_LEVEL {

namespace {

// As many labels as fill four registers: logarithms and exponentials are long chains, and four of them overlap.
constexpr int kWide = 4 * kRegister;
using Wide = Floats<kWide>;

inline Wide load_wide(const float* from, std::int64_t lanes) {
  if (lanes == kWide) return load<Wide>(from);
  float padded[kWide] = {};
  __builtin_memcpy(padded, from, static_cast<unsigned long>(lanes) * 4);
  return load<Wide>(padded);
}

// Stores some lanes and adds them up: 16 sums in double precision, in the same order at every SIMD level.
inline void store_and_add(float* to, const Wide& values, std::int64_t lanes, double* sums) {
  float apart[kWide];
  store(apart, values);
  if (lanes == kWide)
    store(to, values);
  else
    __builtin_memcpy(to, apart, static_cast<unsigned long>(lanes) * 4);
  for (std::int64_t i = lanes; i < kWide; ++i) apart[i] = 0.0f;
  for (int begin = 0; begin < kWide; begin += 16)
    for (int i = 0; i < 16; ++i) sums[i] += static_cast<double>(apart[begin + i]);
}

// Members that are taken at once, for the same reason.
constexpr int kAtOnce = kWide / 16;

// Four labels of four members turned round.
inline void turn_square(const float* probs, std::int64_t members, float* room) {
  typedef float Four __attribute__((vector_size(16)));
  Four a, b, c, d;
  __builtin_memcpy(&a, probs, 16);
  __builtin_memcpy(&b, probs + members, 16);
  __builtin_memcpy(&c, probs + 2 * members, 16);
  __builtin_memcpy(&d, probs + 3 * members, 16);
  const Four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Four ef = __builtin_shufflevector(a, b, 2, 6, 3, 7), gh = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Four turned[4] = {__builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                          __builtin_shufflevector(ef, gh, 0, 1, 4, 5), __builtin_shufflevector(ef, gh, 2, 3, 6, 7)};
  for (int i = 0; i < 4; ++i) __builtin_memcpy(room + 16 * i, &turned[i], 16);
}

// The probabilities of 16 labels turned round: member by member, labels side by side. Of fewer, the rest are 0, and so
// are the members that fill up the last ones taken at once.
inline void turn(const float* probs, std::int64_t members, std::int64_t lanes, float* room) {
  for (int more = 0; more < kAtOnce - 1; ++more) store(room + 16 * (members + more), F16{});
  if (lanes < 16 || members < 4) {
    for (std::int64_t m = 0; m < members; ++m) {
      store(room + 16 * m, F16{});
      for (std::int64_t lane = 0; lane < lanes; ++lane) room[16 * m + lane] = probs[lane * members + m];
    }
    return;
  }
  // The last square overlaps the one before.
  for (std::int64_t m = 0; m < members; m += 4) {
    const std::int64_t first = m + 4 <= members ? m : members - 4;
    for (std::int64_t lane = 0; lane < 16; lane += 4)
      turn_square(probs + lane * members + first, members, room + 16 * first + lane);
  }
}

// What each member says: the mean, the mean of the members' doubts, the variance.
void measure_members(const float* probs, int members, std::int64_t size, const Measures& out, float* room) {
  if (size == 0) return;  // there may be no memory to copy nothing to
  if (members == 1) {
    __builtin_memcpy(out.probability, probs, static_cast<unsigned long>(size) * 4);
    __builtin_memset(out.variance, 0, static_cast<unsigned long>(size) * 4);
    return;  // its doubt is the total
  }
  const float share = 1.0f / static_cast<float>(members);
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
    store_some(out.probability + i, mean, lanes);
    store_some(out.data + i, doubts * share, lanes);
    store_some(out.variance + i, squares * share, lanes);
  });
}

void measure_votes(const float* probs, int members, std::int64_t size, const Measures& out, double* sums, float* room) {
  measure_members(probs, members, size, out, room);
  double lanes_of[kMeasures][16] = {};
  for (std::int64_t i = 0; i < size; i += kWide) {
    const std::int64_t lanes = size - i < kWide ? size - i : kWide;
    const Wide mean = load_wide(out.probability + i, lanes);
    const Wide total = entropy(mean, clamped_log(mean));
    // Rounding must not make knowledge negative, nor data more than the total.
    const Wide data = members == 1 ? total : smaller(load_wide(out.data + i, lanes), total);
    store_and_add(out.probability + i, mean, lanes, lanes_of[0]);
    store_and_add(out.total + i, total, lanes, lanes_of[1]);
    store_and_add(out.data + i, data, lanes, lanes_of[2]);
    store_and_add(out.knowledge + i, total - data, lanes, lanes_of[3]);
    store_and_add(out.variance + i, load_wide(out.variance + i, lanes), lanes, lanes_of[4]);
  }
  for (int i = 0; i < kMeasures; ++i) {
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
