#include "judge.h"

#include <algorithm>
#include <cmath>

namespace hedgerow {

namespace {

constexpr std::int64_t kEntries = 1 << 13;  // that a worker judges at once
constexpr double kLeast = 1e-37;            // no float is smaller without losing digits
constexpr double kNearly1 = 1.0 - 0x1p-20;
constexpr double kMostLogOdds = 20.0;

double surprise(double p) { return std::min(kMostSurprise, std::cbrt(-std::log(std::clamp(p, kLeast, 1.0)))); }

double log_odds(const Judge& judge, double* seen, int count) {
  for (int i = 0; i < count; ++i) seen[i] = std::clamp(seen[i], judge.range[2 * i], judge.range[2 * i + 1]);
  const double* next = judge.coefficients;
  double sum = *next++;
  for (int i = 0; i < count; ++i) sum += *next++ * seen[i];
  for (int i = 0; i < count; ++i)
    for (int j = i; j < count; ++j) sum += *next++ * seen[i] * seen[j];
  for (int i = 0; i + 1 < count; ++i) sum += *next++ * seen[i] * seen[i] * seen[i];
  return std::clamp(sum, -kMostLogOdds, kMostLogOdds);
}

// Multiplies the odds by one factor so that the mean is `wanted`. The mean is a concave function of the factor, so
// Newton's steps from below never go too far.
void move(double wanted, double* odds, int members) {
  double sum = 0;
  for (int m = 0; m < members; ++m) sum += odds[m];
  double factor = wanted * members / sum;
  for (int step = 0; step < 50; ++step) {
    double mean = 0, slope = 0;
    for (int m = 0; m < members; ++m) {
      const double share = 1.0 / (1.0 + odds[m] * factor);
      mean += odds[m] * factor * share;
      slope += odds[m] * share * share;
    }
    const double off = wanted * members - mean;
    if (off <= 1e-7 * wanted * members) break;
    factor += off / slope;
  }
  for (int m = 0; m < members; ++m) odds[m] = odds[m] * factor / (1.0 + odds[m] * factor);
}

}  // namespace

std::int64_t judge_coefficients(int scorers) {
  const std::int64_t seen = scorers + 2;
  return 1 + seen + seen * (seen + 1) / 2 + seen - 1;
}

void judge_candidates(const Judge& judge, const std::int32_t* labels, const float* probabilities, const float* scores,
                      std::int64_t entries, int members, int threads, Watch& watch, float* judged) {
  const int count = judge.scorers + 2;
  const auto work = [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> seen(static_cast<std::size_t>(count)), odds(static_cast<std::size_t>(members));
    for (std::int64_t entry = begin; entry < end; ++entry) {
      const float* own = probabilities + entry * members;
      double sum = 0;
      for (int m = 0; m < members; ++m) sum += static_cast<double>(own[m]);
      seen[0] = surprise(sum / members);
      for (int s = 0; s < judge.scorers; ++s)
        seen[static_cast<std::size_t>(s) + 1] = surprise(static_cast<double>(scores[entry * judge.scorers + s]));
      seen.back() = static_cast<double>(judge.log_counts[labels[entry]]);
      const double wanted = 1.0 / (1.0 + std::exp(-log_odds(judge, seen.data(), count)));
      for (int m = 0; m < members; ++m) {
        const double p = std::clamp(static_cast<double>(own[m]), kLeast, kNearly1);
        odds[static_cast<std::size_t>(m)] = p / (1.0 - p);
      }
      move(wanted, odds.data(), members);
      for (int m = 0; m < members; ++m)
        judged[entry * members + m] = static_cast<float>(odds[static_cast<std::size_t>(m)]);
    }
  };
  const std::int64_t block = even_block(entries, kEntries, threads);
  if (block == 0) return;
  const std::int64_t blocks = (entries + block - 1) / block;
  if (blocks == 1) return work(0, entries);
  parallel_for(static_cast<std::size_t>(blocks), threads, watch, [&](std::size_t task, int) {
    const std::int64_t begin = static_cast<std::int64_t>(task) * block;
    work(begin, std::min(entries, begin + block));
  });
}

}  // namespace hedgerow
