// Vectors of numbers in as many registers as a SIMD level needs, and functions of them.
//
// Compiled once for each SIMD level, as a part of kernels.cpp and of nothing else.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels.h"

namespace hedgerow::KERNEL_LEVEL {

namespace {

#if defined(__AVX512F__)
constexpr int kRegister = 16;  // floats in a register
#elif defined(__AVX2__)
constexpr int kRegister = 8;
#else
constexpr int kRegister = 4;
#endif

// N numbers in as many registers as this level needs. (GCC's own vectors wider than a register live in memory.)
template <class T, int N>
struct Vec {
  static constexpr int kWidth = N < kRegister ? N : kRegister;
  static constexpr int kParts = N / kWidth;
  typedef T Part __attribute__((vector_size(kWidth * 4)));
  Part parts[kParts];
};
template <int N>
using Floats = Vec<float, N>;
template <int N>
using Ints = Vec<std::int32_t, N>;  // also masks: all bits set where true

using F16 = Floats<16>;
using I16 = Ints<16>;
using U16 = Vec<std::uint32_t, 16>;

#define UNROLL _Pragma("GCC unroll 4")

template <class To, class F>
inline To combine(F f) {
  To out;
  UNROLL for (int i = 0; i < To::kParts; ++i) out.parts[i] = f(i);
  return out;
}

// Vectors with vectors and with plain numbers.
#define BINARY(op)                                                              \
  template <class T, int N>                                                     \
  inline Vec<T, N> operator op(const Vec<T, N>& a, const Vec<T, N>& b) {        \
    return combine<Vec<T, N>>([&](int i) { return a.parts[i] op b.parts[i]; }); \
  }                                                                             \
  template <class T, int N>                                                     \
  inline Vec<T, N> operator op(const Vec<T, N>& a, T b) {                       \
    return combine<Vec<T, N>>([&](int i) { return a.parts[i] op b; });          \
  }                                                                             \
  template <class T, int N>                                                     \
  inline Vec<T, N> operator op(T a, const Vec<T, N>& b) {                       \
    return combine<Vec<T, N>>([&](int i) { return a op b.parts[i]; });          \
  }
BINARY(+)
BINARY(-)
BINARY(*)
BINARY(/)
BINARY(&)
BINARY(|)
#undef BINARY

#define COMPARE(op)                                                           \
  template <int N>                                                            \
  inline Ints<N> operator op(const Floats<N>& a, const Floats<N>& b) {        \
    return combine<Ints<N>>([&](int i) { return a.parts[i] op b.parts[i]; }); \
  }                                                                           \
  template <int N>                                                            \
  inline Ints<N> operator op(const Floats<N>& a, float b) {                   \
    return combine<Ints<N>>([&](int i) { return a.parts[i] op b; });          \
  }
COMPARE(<)
COMPARE(>)
COMPARE(<=)
COMPARE(>=)
COMPARE(==)
#undef COMPARE

template <class T, int N>
inline Vec<T, N> operator<<(const Vec<T, N>& a, int count) {
  return combine<Vec<T, N>>([&](int i) { return a.parts[i] << count; });
}

template <class T, int N>
inline Vec<T, N> operator>>(const Vec<T, N>& a, int count) {
  return combine<Vec<T, N>>([&](int i) { return a.parts[i] >> count; });
}

template <int N>
inline Ints<N> operator~(const Ints<N>& a) {
  return combine<Ints<N>>([&](int i) { return ~a.parts[i]; });
}

template <int N>
inline Floats<N> operator-(const Floats<N>& a) {
  return combine<Floats<N>>([&](int i) { return -a.parts[i]; });
}

template <class T, int N>
inline Vec<T, N>& operator+=(Vec<T, N>& a, const Vec<T, N>& b) {
  return a = a + b;
}

// a where the mask is set, else b
template <int N>
inline Floats<N> select(const Ints<N>& mask, const Floats<N>& a, const Floats<N>& b) {
  return combine<Floats<N>>([&](int i) { return mask.parts[i] ? a.parts[i] : b.parts[i]; });
}

template <class To, class From>
inline To cast_bits(const From& from) {
  return combine<To>([&](int i) { return (typename To::Part)from.parts[i]; });
}

template <class To, class From>
inline To convert(const From& from) {
  return combine<To>([&](int i) { return __builtin_convertvector(from.parts[i], typename To::Part); });
}

// Register by register: a copy of the whole would go through the stack.
template <class V>
inline V load(const void* p) {
  return combine<V>([&](int i) {
    typename V::Part part;
    __builtin_memcpy(&part, static_cast<const char*>(p) + i * sizeof(part), sizeof(part));
    return part;
  });
}

template <class V>
inline void store(void* p, const V& v) {
  UNROLL for (int i = 0; i < V::kParts; ++i)
      __builtin_memcpy(static_cast<char*>(p) + i * sizeof(v.parts[i]), &v.parts[i], sizeof(v.parts[i]));
}

template <int N>
inline Floats<N> all(float value) {
  return combine<Floats<N>>([&](int) { return typename Floats<N>::Part{} + value; });
}

// A mask with the lanes of the set bits.
template <int N>
inline Ints<N> expand_bits(unsigned bits) {
  using Part = typename Ints<N>::Part;
  return combine<Ints<N>>([&](int i) {
    Part lane;
    for (int j = 0; j < Ints<N>::kWidth; ++j) lane[j] = static_cast<std::int32_t>(1u << (i * Ints<N>::kWidth + j));
    return ((Part{} + static_cast<std::int32_t>(bits)) & lane) != 0;
  });
}

template <int N>
inline unsigned collect_bits(const Ints<N>& mask) {
  using Part = typename Ints<N>::Part;
  unsigned bits = 0;
  UNROLL for (int i = 0; i < Ints<N>::kParts; ++i) {
    const Part part = mask.parts[i];
    unsigned here = 0;
#if defined(__AVX512DQ__)
    if constexpr (sizeof(Part) == 64) here = _mm512_movepi32_mask((__m512i)part);
    if constexpr (sizeof(Part) == 32) here = static_cast<unsigned>(_mm256_movemask_ps((__m256)part));
#elif defined(__AVX2__)
    here = static_cast<unsigned>(_mm256_movemask_ps((__m256)part));
#elif defined(__SSE2__)
    here = static_cast<unsigned>(_mm_movemask_ps((__m128)part));
#else
    for (int j = 0; j < Ints<N>::kWidth; ++j) here |= (part[j] & 1u) << j;
#endif
    bits |= here << (i * Ints<N>::kWidth);
  }
  return bits;
}

template <int N>
inline bool any(const Ints<N>& mask) {
  Ints<Ints<N>::kWidth> joined{mask.parts[0]};
  UNROLL for (int i = 1; i < Ints<N>::kParts; ++i) joined.parts[0] |= mask.parts[i];
  return collect_bits<Ints<N>::kWidth>(joined) != 0;
}

template <int N>
inline Floats<N> larger(const Floats<N>& a, const Floats<N>& b) {
  return select(a > b, a, b);
}

template <int N>
inline Floats<N> smaller(const Floats<N>& a, const Floats<N>& b) {
  return select(a < b, a, b);
}

constexpr float kInfinity = __builtin_inff();
constexpr float kLogOfZero = -87.3f;  // the exponential of this and of all below is 0

// exp by 2^n · exp(r), |r| <= ln(2)/2, polynomial of degree 6; below the smallest normal number it is 0. What is no
// number stays none: so stand the operands of `larger` and `smaller`.
template <int N>
[[gnu::always_inline]] inline Floats<N> exponential(Floats<N> x) {
  const Ints<N> dead = x <= kLogOfZero;
  x = smaller<N>(all<N>(88.0f), larger<N>(all<N>(kLogOfZero), x));
  const Floats<N> rounder = all<N>(12582912.0f);  // 1.5 · 2^23: adding it rounds to an integer
  const Floats<N> n = (x * 1.44269504088896341f + rounder) - rounder;
  const Floats<N> r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Floats<N> p = all<N>(1.3888889e-3f);
  p = p * r + 8.3333333e-3f;
  p = p * r + 4.1666667e-2f;
  p = p * r + 1.6666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const Ints<N> exponent = (convert<Ints<N>>(n) + 127) << 23;
  return select(dead, all<N>(0.0f), p * cast_bits<Floats<N>>(exponent));
}

// Natural logarithm of a positive normal number (Cephes' polynomial). Called and not inlined, it would load all its
// constants each time.
template <int N>
[[gnu::always_inline]] inline Floats<N> logarithm(Floats<N> x) {
  const Ints<N> bits = cast_bits<Ints<N>>(x);
  Ints<N> exponent = (bits >> 23) - 126;
  Floats<N> m = cast_bits<Floats<N>>((bits & 0x007fffff) | 0x3f000000);  // in [0.5, 1)
  const Ints<N> low = m < 0.707106781186547524f;
  exponent = exponent + low;  // low is -1 where true
  m = select(low, m + m, m) - 1.0f;
  const Floats<N> z = m * m;
  Floats<N> p = all<N>(7.0376836292e-2f);
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const Floats<N> e = convert<Floats<N>>(exponent);
  Floats<N> y = m * z * p;
  y = y + e * -2.12194440e-4f;
  y = y - z * 0.5f;
  return m + y + e * 0.693359375f;
}

}  // namespace

}  // namespace hedgerow::KERNEL_LEVEL
