#include "judge.h"

#include <algorithm>
#include <vector>

namespace hedgerow {

namespace {

constexpr std::int64_t kEntries = 1 << 13;  // that a worker judges at once

std::vector<float> as_floats(const double* values, std::int64_t size) { return {values, values + size}; }

}  // namespace

std::int64_t judge_coefficients(int scorers) {
  const std::int64_t seen = scorers + 2;
  return 1 + seen + seen * (seen + 1) / 2 + seen - 1;
}

void judge_candidates(const Judge& judge, const std::int32_t* labels, const float* probabilities, const float* scores,
                      std::int64_t entries, int members, int threads, Watch& watch, float* judged) {
  const int seen = judge.scorers + 2;
  const std::vector<float> coefficients = as_floats(judge.coefficients, judge_coefficients(judge.scorers));
  const std::vector<float> range = as_floats(judge.range, 2 * seen);
  const auto work = [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> evidence(static_cast<std::size_t>(seen * kJudgedAtOnce));
    std::vector<float> votes(static_cast<std::size_t>(members) * kJudgedAtOnce);
    const JudgeLanes lanes{coefficients.data(), range.data(), seen, members, evidence.data(), votes.data()};
    for (std::int64_t first = begin; first < end; first += kJudgedAtOnce) {
      for (std::int64_t lane = 0; lane < kJudgedAtOnce; ++lane) {
        const std::int64_t entry = std::min(first + lane, end - 1);  // lanes behind the end repeat the last one
        for (int m = 0; m < members; ++m) lanes.votes[m * kJudgedAtOnce + lane] = probabilities[entry * members + m];
        for (int s = 0; s < judge.scorers; ++s)
          lanes.evidence[(s + 1) * kJudgedAtOnce + lane] = scores[entry * judge.scorers + s];
        lanes.evidence[(seen - 1) * kJudgedAtOnce + lane] = judge.log_counts[labels[entry]];
      }
      kernels().judge_lanes(lanes);
      for (std::int64_t entry = first; entry < std::min(end, first + kJudgedAtOnce); ++entry)
        for (int m = 0; m < members; ++m)
          judged[entry * members + m] = lanes.votes[m * kJudgedAtOnce + (entry - first)];
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
