// Compiled once per SIMD level; KERNEL_LEVEL names the namespace. See kernels.h and CMakeLists.txt for the rules.
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hedgerow::KERNEL_LEVEL {

namespace {

// ---------------------------------------------------------------------------------------------- vectors of lanes

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
inline Floats<N> larger(const Floats<N>& a, const Floats<N>& b) {
  return select(a > b, a, b);
}

template <int N>
inline Floats<N> smaller(const Floats<N>& a, const Floats<N>& b) {
  return select(a < b, a, b);
}

constexpr float kInfinity = __builtin_inff();

// exp by 2^n · exp(r), |r| <= ln(2)/2, polynomial of degree 6; below the smallest normal number it is 0.
inline F16 exponential(F16 x) {
  const I16 alive = x > -87.3f;
  x = smaller<16>(larger<16>(x, all<16>(-87.3f)), all<16>(88.0f));
  const F16 rounder = all<16>(12582912.0f);  // 1.5 · 2^23: adding it rounds to an integer
  const F16 n = (x * 1.44269504088896341f + rounder) - rounder;
  const F16 r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  F16 p = all<16>(1.3888889e-3f);
  p = p * r + 8.3333333e-3f;
  p = p * r + 4.1666667e-2f;
  p = p * r + 1.6666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const I16 exponent = (convert<I16>(n) + 127) << 23;
  return select(alive, p * cast_bits<F16>(exponent), all<16>(0.0f));
}

// Natural logarithm of a positive normal number (Cephes' polynomial).
template <int N>
inline Floats<N> logarithm(Floats<N> x) {
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

// ---------------------------------------------------------------------------------------------- dot products

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

// ---------------------------------------------------------------------------------------------- panel solver

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
    p.awake[row] = static_cast<std::uint16_t>(every);
    if (p.costs[row] > 0) p.order[usable++] = row;
  }
  start_from_means<N>(p, usable);

  // A violation this far below the tolerance is not worth writing the weights for.
  const float idle = 0.1f * p.tolerance;
  Floats<N> shrink_above = all<N>(kInfinity);
  unsigned live = every, waiting = 0, whole = every;  // whole: lanes whose current pass sees every row
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
      ++p.visits;
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

void solve_panel(PanelProblem& p) {
  if (p.loss == Loss::squared_hinge)
    p.width == 8 ? solve_squared_hinge<8>(p) : solve_squared_hinge<16>(p);
  else
    p.width == 8 ? solve_logistic<8>(p) : solve_logistic<16>(p);
}

// ---------------------------------------------------------------------------------------------- chunk scores

inline std::uint64_t home_of(const ChunkView& chunk, std::uint32_t hash) {
  return (std::uint64_t{hash} * chunk.homes) >> chunk.hash_bits;
}

// The slots of a bucket with this key, two bits each.
inline unsigned matching_slots(const Bucket& bucket, std::uint16_t key) {
  constexpr unsigned kKeyBits = (1u << 2 * Bucket::kSlots) - 1;
#if defined(__AVX2__)
  const __m256i same =
      _mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i*)bucket.keys), _mm256_set1_epi16((short)key));
  return static_cast<unsigned>(_mm256_movemask_epi8(same)) & kKeyBits;
#elif defined(__SSE2__)
  const __m128i wanted = _mm_set1_epi16((short)key);
  const __m128i low = _mm_cmpeq_epi16(_mm_loadu_si128((const __m128i*)bucket.keys), wanted);
  const __m128i high = _mm_cmpeq_epi16(_mm_loadu_si128((const __m128i*)bucket.keys + 1), wanted);
  return (static_cast<unsigned>(_mm_movemask_epi8(low)) | static_cast<unsigned>(_mm_movemask_epi8(high)) << 16) &
         kKeyBits;
#else
  unsigned slots = 0;
  for (int slot = 0; slot < Bucket::kSlots; ++slot) slots |= (bucket.keys[slot] == key ? 3u : 0u) << 2 * slot;
  return slots;
#endif
}

// For each feature of the input, the code of its row. No branch depends on the data but for the rare bucket that
// overflows: whether a feature is missing cannot be predicted. An unused slot is marked kNoRow. Buckets and rows are
// fetched ahead, since this way is for chunks that are visited once.
inline void find_rows(const ChunkView& chunk, const std::uint32_t* hashes, std::int64_t size, std::uint32_t* codes) {
  for (std::int64_t i = 0; i < size; ++i) __builtin_prefetch(chunk.buckets + home_of(chunk, hashes[i]));
  for (std::int64_t i = 0; i < size; ++i) {
    const Bucket* bucket = chunk.buckets + home_of(chunk, hashes[i]);
    const std::uint16_t key = static_cast<std::uint16_t>(hashes[i]);
    unsigned slots = matching_slots(*bucket, key);
    while (__builtin_expect(bucket->overflows & static_cast<std::uint32_t>(slots == 0), 0))
      slots = matching_slots(*++bucket, key);
    // A missing feature reads past the last slot, into the base, and has its kind set by hand.
    const unsigned slot = static_cast<unsigned>(__builtin_ctz(slots | 1u << 2 * Bucket::kSlots)) >> 1;
    std::uint16_t spot;
    __builtin_memcpy(&spot, (const char*)bucket + sizeof(bucket->keys) + 2 * slot, 2);
    const std::uint32_t missing = static_cast<std::uint32_t>(slots == 0) * kNoRow;
    const std::uint32_t offset = bucket->base + (static_cast<std::uint32_t>(spot >> 2) << chunk.unit_shift);
    __builtin_prefetch(chunk.payload + offset);
    __builtin_prefetch(chunk.payload + offset + 64);
    codes[i] = (offset & ((1u << kCodeKindShift) - 1)) | ((spot & 3u) | missing) << kCodeKindShift;
  }
}

inline void look_up_rows(const std::uint32_t* table, const std::uint32_t* hashes, std::int64_t size,
                         std::uint32_t* codes) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= size; i += 16)
    _mm512_storeu_si512(codes + i, _mm512_i32gather_epi32(_mm512_loadu_si512(hashes + i), table, 4));
#endif
  for (; i < size; ++i) codes[i] = table[hashes[i]];
}

// Sorts the rows found by their kind, in order.
inline void sort_by_kind(const float* values, std::int64_t size, Hits& hits) {
  for (std::int64_t& count : hits.counts) count = 0;
  std::int64_t i = 0;
#if defined(__AVX512F__)
  const __m512i low_bits = _mm512_set1_epi32((1 << kCodeKindShift) - 1);
  for (; i + 16 <= size; i += 16) {
    const __m512i codes = _mm512_loadu_si512(hits.codes + i);
    const __m512i kinds = _mm512_srli_epi32(codes, kCodeKindShift);
    const __m512i offsets = _mm512_and_si512(codes, low_bits);
    const __m512 here = _mm512_loadu_ps(values + i);
    UNROLL for (int kind = 0; kind < int{kNoRow}; ++kind) {
      const __mmask16 mask = _mm512_cmpeq_epi32_mask(kinds, _mm512_set1_epi32(kind));
      // Compress in the register and store all of it: compressing into memory is slow on some machines.
      _mm512_storeu_si512(hits.offsets[kind] + hits.counts[kind], _mm512_maskz_compress_epi32(mask, offsets));
      _mm512_storeu_ps(hits.values[kind] + hits.counts[kind], _mm512_maskz_compress_ps(mask, here));
      hits.counts[kind] += __builtin_popcount(mask);
    }
  }
#endif
  for (; i < size; ++i) {
    const std::uint32_t kind = hits.codes[i] >> kCodeKindShift;
    UNROLL for (std::uint32_t k = 0; k < kNoRow; ++k) {
      hits.offsets[k][hits.counts[k]] = hits.codes[i] & ((1u << kCodeKindShift) - 1);
      hits.values[k][hits.counts[k]] = values[i];
      hits.counts[k] += k == kind;
    }
  }
}

inline F16 bf16_low(const U16& pairs) { return cast_bits<F16>(pairs << 16); }
inline F16 bf16_high(const U16& pairs) { return cast_bits<F16>(pairs & 0xffff0000u); }

// Sixteen bfloat16 in order.
inline F16 widen(const unsigned char* p) {
  typedef std::uint16_t Words __attribute__((vector_size(U16::kWidth * 2)));
  const U16 wide = combine<U16>([&](int i) {
    Words words;
    __builtin_memcpy(&words, p + i * sizeof(Words), sizeof(Words));
    return __builtin_convertvector(words, U16::Part);
  });
  return cast_bits<F16>(wide << 16);
}

#if defined(__AVX2__) && !defined(__AVX512VBMI2__)
// For each mask of eight words, the shuffle that spreads packed words to the places of the set bits.
struct SpreadTable {
  unsigned char source[256][16];
  constexpr SpreadTable() : source() {
    for (int mask = 0; mask < 256; ++mask)
      for (int word = 0, next = 0; word < 8; ++word) {
        const bool set = (mask >> word) & 1;
        source[mask][2 * word] = static_cast<unsigned char>(set ? 2 * next : 0x80);
        source[mask][2 * word + 1] = static_cast<unsigned char>(set ? 2 * next + 1 : 0x80);
        next += set;
      }
  }
};
constexpr SpreadTable kSpread;
#endif

// The next packed words, spread to the places of the set bits among 32 words; zero elsewhere.
inline U16 spread(const unsigned char* p, std::uint32_t mask) {
#if defined(__AVX512VBMI2__)
  return {{(U16::Part)_mm512_maskz_expand_epi16(mask, _mm512_loadu_si512(p))}};
#elif defined(__AVX2__)
  __m128i words[4];
  UNROLL for (int i = 0; i < 4; ++i) {
    const unsigned part = (mask >> 8 * i) & 255u;
    words[i] =
        _mm_shuffle_epi8(_mm_loadu_si128((const __m128i*)p), _mm_loadu_si128((const __m128i*)kSpread.source[part]));
    p += 2 * __builtin_popcount(part);
  }
  const __m256i low = _mm256_set_m128i(words[1], words[0]), high = _mm256_set_m128i(words[3], words[2]);
#if defined(__AVX512F__)
  return {{(U16::Part)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)}};
#else
  return {{(U16::Part)low, (U16::Part)high}};
#endif
#else
  std::uint16_t words[32] = {};
  for (; mask; mask &= mask - 1, p += 2) __builtin_memcpy(words + __builtin_ctz(mask), p, 2);
  return load<U16>(words);
#endif
}

// Adds the dense and masked rows into register accumulators for G groups (the last may be idle when it is odd).
template <int G>
void add_vector_rows(const unsigned char* payload, int groups, const Hits& hits, float* sums) {
  static_assert(G % 2 == 0);
  F16 acc[G];
  for (int g = 0; g < G; ++g) acc[g] = load<F16>(sums + 16 * g);
  const int paired = groups == G ? G : G - 2;  // a last odd group stands alone in dense rows
  for (std::int64_t i = 0; i < hits.counts[kDenseRow]; ++i) {
    const unsigned char* p = payload + hits.offsets[kDenseRow][i];
    const float x = hits.values[kDenseRow][i];
#pragma GCC unroll 8
    for (int g = 0; g < G - 2; g += 2) {
      const U16 pairs = load<U16>(p + 32 * g);
      acc[g] += bf16_low(pairs) * x;
      acc[g + 1] += bf16_high(pairs) * x;
    }
    if (paired == G) {
      const U16 pairs = load<U16>(p + 32 * (G - 2));
      acc[G - 2] += bf16_low(pairs) * x;
      acc[G - 1] += bf16_high(pairs) * x;
    } else {
      acc[G - 2] += widen(p + 32 * (G - 2)) * x;
    }
  }
  for (std::int64_t i = 0; i < hits.counts[kMaskedRow]; ++i) {
    const unsigned char* masks = payload + hits.offsets[kMaskedRow][i];
    const unsigned char* p = masks + 2 * G;
    const float x = hits.values[kMaskedRow][i];
#pragma GCC unroll 8
    for (int g = 0; g < G; g += 2) {
      std::uint32_t mask;
      __builtin_memcpy(&mask, masks + 2 * g, 4);
      const U16 pairs = spread(p, mask);
      acc[g] += bf16_low(pairs) * x;
      acc[g + 1] += bf16_high(pairs) * x;
      p += 2 * __builtin_popcount(mask);
    }
  }
  for (int g = 0; g < G; ++g) store(sums + 16 * g, acc[g]);
}

// The same for any number of groups, with the sums in memory.
void add_vector_rows_wide(const unsigned char* payload, int groups, const Hits& hits, float* sums) {
  const auto add = [&](int g, const U16& pairs, float value) {
    store(sums + 16 * g, load<F16>(sums + 16 * g) + bf16_low(pairs) * value);
    store(sums + 16 * g + 16, load<F16>(sums + 16 * g + 16) + bf16_high(pairs) * value);
  };
  for (std::int64_t i = 0; i < hits.counts[kDenseRow]; ++i) {
    const unsigned char* p = payload + hits.offsets[kDenseRow][i];
    const float x = hits.values[kDenseRow][i];
    int g = 0;
    for (; g + 1 < groups; g += 2) add(g, load<U16>(p + 32 * g), x);
    if (g < groups) store(sums + 16 * g, load<F16>(sums + 16 * g) + widen(p + 32 * g) * x);
  }
  for (std::int64_t i = 0; i < hits.counts[kMaskedRow]; ++i) {
    const unsigned char* masks = payload + hits.offsets[kMaskedRow][i];
    const unsigned char* p = masks + 4 * ((groups + 1) / 2);
    for (int g = 0; g < groups; g += 2) {
      std::uint32_t mask;
      __builtin_memcpy(&mask, masks + 2 * g, 4);
      if (mask == 0) continue;
      add(g, spread(p, mask), hits.values[kMaskedRow][i]);
      p += 2 * __builtin_popcount(mask);
    }
  }
}

inline float bf16_at(const unsigned char* p) {
  std::uint16_t word;
  __builtin_memcpy(&word, p, 2);
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(word) << 16);
}

void add_pair_rows(const unsigned char* payload, const Hits& hits, float* sums) {
  for (std::int64_t i = 0; i < hits.counts[kPairRow]; ++i) {
    const unsigned char* row = payload + hits.offsets[kPairRow][i];
    const float x = hits.values[kPairRow][i];
    sums[row[0]] += bf16_at(row + 2) * x;
    sums[row[1]] += bf16_at(row + 4) * x;
  }
}

void find_hits(const ChunkView& chunk, const std::uint32_t* hashes, const float* values, std::int64_t size,
               Hits& hits) {
  find_rows(chunk, hashes, size, hits.codes);
  sort_by_kind(values, size, hits);
}

void look_up_hits(const ChunkView& chunk, const std::uint32_t* table, const std::uint32_t* numbers, const float* values,
                  std::int64_t size, Hits& hits) {
  look_up_rows(table, numbers, size, hits.codes);
  sort_by_kind(values, size, hits);
  for (std::uint32_t kind = 0; kind < kNoRow; ++kind)
    for (std::int64_t i = 0; i < hits.counts[kind]; ++i) __builtin_prefetch(chunk.payload + hits.offsets[kind][i]);
}

// Adds the rows of `hits`, the input's values times their weights, to the sums.
void add_rows(const ChunkView& chunk, const Hits& hits, float* sums) {
  const int groups = static_cast<int>(chunk.groups);
  add_pair_rows(chunk.payload, hits, sums);
  const auto add = groups <= 2   ? add_vector_rows<2>
                   : groups <= 4 ? add_vector_rows<4>
                   : groups <= 6 ? add_vector_rows<6>
                   : groups <= 8 ? add_vector_rows<8>
                                 : add_vector_rows_wide;
  if (hits.counts[kMaskedRow] + hits.counts[kDenseRow] > 0) add(chunk.payload, groups, hits, sums);
}

void score_chunk(const ChunkView& chunk, const Hits& hits, float* logits) {
  const int groups = static_cast<int>(chunk.groups);
  for (int g = 0; g < groups; ++g) store(logits + 16 * g, load<F16>(chunk.bias + 16 * g));
  if (groups % 2 == 1) store(logits + 16 * groups, all<16>(0.0f));
  add_rows(chunk, hits, logits);
}

// Adds one row to the sums.
inline void add_row(const ChunkView& chunk, std::uint32_t kind, std::uint32_t offset, float x, float* sums) {
  const unsigned char* row = chunk.payload + offset;
  const int groups = static_cast<int>(chunk.groups);
  if (kind == kPairRow) {
    sums[row[0]] += bf16_at(row + 2) * x;
    sums[row[1]] += bf16_at(row + 4) * x;
    return;
  }
  const auto add = [&](int g, const U16& pairs) {
    store(sums + 16 * g, load<F16>(sums + 16 * g) + bf16_low(pairs) * x);
    store(sums + 16 * g + 16, load<F16>(sums + 16 * g + 16) + bf16_high(pairs) * x);
  };
  if (kind == kDenseRow) {
    int g = 0;
    for (; g + 1 < groups; g += 2) add(g, load<U16>(row + 32 * g));
    if (g < groups) store(sums + 16 * g, load<F16>(sums + 16 * g) + widen(row + 32 * g) * x);
    return;
  }
  const unsigned char* p = row + 4 * ((groups + 1) / 2);
  for (int g = 0; g < groups; g += 2) {
    std::uint32_t mask;
    __builtin_memcpy(&mask, row + 2 * g, 4);
    if (mask == 0) continue;
    add(g, spread(p, mask));
    p += 2 * __builtin_popcount(mask);
  }
}

// Which entry of the masks each row draws.
inline void draw_entries(const std::uint32_t* offsets, std::int64_t size, std::uint32_t seed, std::uint32_t* entries) {
  std::int64_t i = 0;
  for (; i + 16 <= size; i += 16) {
    U16 draw = load<U16>(offsets + i);
    draw = combine<U16>([&](int part) { return (draw.parts[part] ^ seed) * 0x9e3779b1u; });
    draw = combine<U16>([&](int part) { return (draw.parts[part] ^ (draw.parts[part] >> 15)) * 0x85ebca77u; });
    store(entries + i, draw >> (32 - Thinning::kEntryBits));
  }
  for (; i < size; ++i) {
    std::uint32_t draw = (offsets[i] ^ seed) * 0x9e3779b1u;
    draw = (draw ^ (draw >> 15)) * 0x85ebca77u;
    entries[i] = draw >> (32 - Thinning::kEntryBits);
  }
}

// A pass is the whole less what it drops, so the work grows with the rows that are dropped and not with the passes.
void score_thinned(const ChunkView& chunk, const Hits& hits, const Thinning& thinning, std::size_t stride, float* whole,
                   float* logits) {
  const int groups = static_cast<int>(chunk.groups), padded = (groups + 1) / 2 * 2;
  for (int g = 0; g < padded; ++g) store(whole + 16 * g, all<16>(0.0f));
  add_rows(chunk, hits, whole);
  for (int g = 0; g < groups; ++g)
    store(whole + 16 * g, load<F16>(chunk.bias + 16 * g) + load<F16>(whole + 16 * g) * thinning.scale);
  for (int pass = 0; pass < thinning.passes; ++pass)
    for (int g = 0; g < padded; ++g)
      store(logits + static_cast<std::size_t>(pass) * stride + 16 * g, load<F16>(whole + 16 * g));
  for (std::uint32_t kind = 0; kind < kNoRow; ++kind) {
    const std::uint32_t* offsets = hits.offsets[kind];
    draw_entries(offsets, hits.counts[kind], thinning.seed, hits.codes);
    for (int word = 0; word < thinning.words; ++word) {
      float* first = logits + 32 * static_cast<std::size_t>(word) * stride;
      for (std::int64_t i = 0; i < hits.counts[kind]; ++i) {
        std::uint32_t bits =
            thinning
                .masks[hits.codes[i] * static_cast<std::uint32_t>(thinning.words) + static_cast<std::uint32_t>(word)];
        const float x = -hits.values[kind][i] * thinning.scale;
        for (; bits; bits &= bits - 1)
          add_row(chunk, kind, offsets[i], x, first + static_cast<std::size_t>(__builtin_ctz(bits)) * stride);
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------- lanes of numbers

inline F16 load_some(const float* p, std::int64_t count) {
  F16 v = {};
  __builtin_memcpy(&v, p, static_cast<unsigned long>(count) * 4);
  return v;
}

template <class Function>
inline void map_in_place(float* values, std::int64_t size, Function f) {
  std::int64_t i = 0;
  for (; i + 16 <= size; i += 16) store(values + i, f(load<F16>(values + i)));
  if (i < size) {
    const F16 v = f(load_some(values + i, size - i));
    __builtin_memcpy(values + i, &v, static_cast<unsigned long>(size - i) * 4);
  }
}

void log_probabilities(float* logits, std::int64_t size, float parent, Transform transform) {
  if (transform == Transform::l3_hinge) {
    map_in_place(logits, size, [=](F16 z) {
      // Not the other way round: a score that is no number must not become a certainty.
      const F16 h = select(z >= 1.0f, all<16>(0.0f), 1.0f - z);
      return parent - h * h * h;
    });
  } else {
    map_in_place(logits, size, [=](F16 z) {
      // log sigmoid(z) = min(z, 0) - log1p(exp(-|z|))
      const F16 u = exponential(select(z < 0.0f, z, -z));
      const F16 w = u + 1.0f;
      const F16 exact = w - 1.0f;
      const F16 log1p = select(exact == 0.0f, u, logarithm<16>(w) * (u / exact));
      return parent + smaller<16>(z, all<16>(0.0f)) - log1p;
    });
  }
}

void exponentials(float* logs, std::int64_t size) {
  map_in_place(logs, size, [](F16 x) { return exponential(x); });
}

// -x ln x for a probability x with the logarithm `log`; 0 where x is 0.
inline F16 surprise(const F16& x, const F16& log) { return select(x > 0.0f, -(x * log), all<16>(0.0f)); }

inline F16 clamped_log(const F16& x) { return logarithm<16>(larger<16>(x, all<16>(1.2e-38f))); }

// Binary entropy of p with its logarithm.
inline F16 entropy(const F16& p, const F16& log_p) {
  const F16 rest = 1.0f - p;
  return surprise(p, log_p) + surprise(rest, clamped_log(rest));
}

// Calls f(position, lanes) for every group of 16; the last may be shorter.
template <class Function>
inline void each_group(std::int64_t size, Function f) {
  for (std::int64_t i = 0; i < size; i += 16) f(i, size - i < 16 ? size - i : 16);
}

inline void store_some(float* p, const F16& v, std::int64_t count) {
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

void measure(const float* logs, std::size_t stride, int members, std::int64_t size, const Measures& out) {
  const float share = 1.0f / static_cast<float>(members);
  each_group(size, [&](std::int64_t i, std::int64_t lanes) {
    const auto log_of = [&](int m) {
      const float* at = logs + static_cast<std::size_t>(m) * stride + i;
      return lanes == 16 ? load<F16>(at) : load_some(at, lanes);
    };
    F16 sum{}, doubts{};
    for (int m = 0; m < members; ++m) {
      const F16 log = log_of(m);
      const F16 p = exponential(log);
      sum += p;
      doubts += entropy(p, log);
    }
    const F16 mean = sum * share;
    F16 squares{};
    for (int m = 0; m < members; ++m) {
      const F16 off = exponential(log_of(m)) - mean;
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

#define NAME_OF(level) NAME_OF_(level)
#define NAME_OF_(level) #level

}  // namespace

extern const Kernels table;
const Kernels table = {NAME_OF(KERNEL_LEVEL), solve_panel,       dot_panel,    find_hits, look_up_hits, score_chunk,
                       score_thinned,         log_probabilities, exponentials, log_means, measure,      add_missed,
                       select_at_least};

}  // namespace hedgerow::KERNEL_LEVEL
