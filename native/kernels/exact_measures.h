// The measures of votes in double precision: for numbers that people look at and decide by.
//
// Compiled once for each SIMD level, as a part of kernels.cpp and of nothing else.
#pragma once

#include "kernels.h"
#include "kernels/vectors.h"
#include "kernels/vote_measures.h"

namespace hedgerow::KERNEL_LEVEL {

namespace {

constexpr int kLabels = 16;  // measured at once
constexpr int kInRegister = kRegister / 2;

struct Doubles {
  static constexpr int kParts = kLabels / kInRegister;
  typedef double Part __attribute__((vector_size(kInRegister * 8)));
  typedef std::uint64_t Bits __attribute__((vector_size(kInRegister * 8)));
  Part parts[kParts];
};

template <class F>
[[gnu::always_inline]] inline Doubles each_part(F f) {
  Doubles out;
  UNROLL for (int i = 0; i < Doubles::kParts; ++i) out.parts[i] = f(i);
  return out;
}

// Natural logarithm of a positive normal number: 2 atanh(s) for s = (m - 1) / (m + 1), m being the mantissa between
// sqrt(1/2) and sqrt(2). The polynomial was fitted to the rest of the series after 2 s.
[[gnu::always_inline]] inline Doubles::Part logarithm(Doubles::Part x) {
  using Part = Doubles::Part;
  using Bits = Doubles::Bits;
  const Bits bits = (Bits)x;
  // The exponent as the last digits of a number around 2^52.
  Part exponent = (Part)((bits >> 52) | 0x4330000000000000u) - (4503599627370496.0 + 1022.0);
  Part m = (Part)((bits & 0x000fffffffffffffu) | 0x3fe0000000000000u);  // in [0.5, 1)
  const auto low = m < 0.70710678118654752;
  exponent = low ? exponent - 1.0 : exponent;
  m = low ? m + m : m;
  const Part f = m - 1.0;
  const Part s = f / (m + 1.0);
  const Part z = s * s;
  Part p = z * 0.14616449685043406 + 0.15331721600556042;
  p = p * z + 0.18182889125261723;
  p = p * z + 0.2222221113479508;
  p = p * z + 0.28571428625975487;
  p = p * z + 0.39999999999899505;
  p = p * z + 0.666666666666667;
  return exponent * 0x1.62e42feep-1 + (exponent * 0x1.a39ef35793c76p-33 + (s * z * p + (s + s)));
}

// -(1 - p) ln(1 - p). Where all of p are small, as of most candidates, a series saves a logarithm.
[[gnu::always_inline]] inline Doubles surprise_of_rest(const Doubles& probabilities) {
  using Part = Doubles::Part;
  auto large = probabilities.parts[0] >= 0x1p-10;
  UNROLL for (int i = 1; i < Doubles::kParts; ++i) large |= probabilities.parts[i] >= 0x1p-10;
  bool some_large = false;
  for (int lane = 0; lane < kInRegister; ++lane) some_large |= large[lane] != 0;
  return each_part([&](int i) {
    const Part p = probabilities.parts[i];
    if (!some_large) return p * (1.0 - p * (0.5 + p * (1.0 / 6 + p * (1.0 / 12 + p * (1.0 / 20)))));
    // What 1 - p loses of a small p is added again.
    const Part rest = 1.0 - p;
    return -(rest * (logarithm(rest) + ((1.0 - rest) - p)));
  });
}

// Binary entropy, 0 at both ends.
[[gnu::always_inline]] inline Doubles binary_entropy(const Doubles& p) {
  using Part = Doubles::Part;
  const Doubles inside =
      each_part([&](int i) { return (p.parts[i] > 0.0) & (p.parts[i] < 1.0) ? p.parts[i] : Part{} + 0x1p-11; });
  const Doubles rest = surprise_of_rest(inside);
  return each_part([&](int i) {
    const Part entropy = rest.parts[i] - inside.parts[i] * logarithm(inside.parts[i]);
    return (p.parts[i] > 0.0) & (p.parts[i] < 1.0) ? entropy : Part{};
  });
}

inline Doubles to_doubles(const float* from) {
  typedef float Singles __attribute__((vector_size(kInRegister * 4)));
  return each_part([&](int i) {
    Singles part;
    __builtin_memcpy(&part, from + i * kInRegister, sizeof(part));
    return __builtin_convertvector(part, Doubles::Part);
  });
}

inline void store_and_sum(double* to, const Doubles& values, std::int64_t labels, double& sum) {
  double apart[kLabels];
  __builtin_memcpy(apart, &values, sizeof(apart));
  for (std::int64_t i = 0; i < labels; ++i) {
    to[i] = apart[i];
    sum += apart[i];
  }
}

void measure_exactly(const float* probs, int members, std::int64_t size, const ExactMeasures& out, double* sums,
                     float* room) {
  for (int i = 0; i < kMeasures; ++i) sums[i] = 0;
  const double count = members;
  for (std::int64_t begin = 0; begin < size; begin += kLabels) {
    const std::int64_t labels = size - begin < kLabels ? size - begin : kLabels;
    turn(probs + begin * members, members, labels, room);
    Doubles mean{}, data{}, variance{};
    for (int member = 0; member < members; ++member) {
      const Doubles p = to_doubles(room + kLabels * member);
      const Doubles entropy = binary_entropy(p);
      mean = each_part([&](int i) { return mean.parts[i] + p.parts[i]; });
      data = each_part([&](int i) { return data.parts[i] + entropy.parts[i]; });
    }
    mean = each_part([&](int i) { return mean.parts[i] / count; });
    const Doubles total = binary_entropy(mean);
    // Rounding must not make knowledge negative.
    data = each_part([&](int i) {
      const Doubles::Part average = data.parts[i] / count;
      return average < total.parts[i] ? average : total.parts[i];
    });
    for (int member = 0; member < members; ++member) {
      const Doubles p = to_doubles(room + kLabels * member);
      variance = each_part([&](int i) {
        const Doubles::Part off = p.parts[i] - mean.parts[i];
        return variance.parts[i] + off * off;
      });
    }
    variance = each_part([&](int i) { return variance.parts[i] / count; });
    const Doubles knowledge = each_part([&](int i) { return total.parts[i] - data.parts[i]; });
    store_and_sum(out.probability + begin, mean, labels, sums[0]);
    store_and_sum(out.total + begin, total, labels, sums[1]);
    store_and_sum(out.data + begin, data, labels, sums[2]);
    store_and_sum(out.knowledge + begin, knowledge, labels, sums[3]);
    store_and_sum(out.variance + begin, variance, labels, sums[4]);
  }
}

}  // namespace

}  // namespace hedgerow::KERNEL_LEVEL
