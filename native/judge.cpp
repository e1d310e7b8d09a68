#include "judge.h"

#include <algorithm>
#include <vector>

namespace hedgerow {

namespace {

constexpr std::int64_t kEntries = 1 << 13;  // that a worker judges at once

std::vector<float> as_floats(const double* values, std::int64_t size) { return {values, values + size}; }

// Calls work(first entry, entries) for up to kJudgedAtOnce of them at a time, in parallel; make() gives a worker its
// own.
template <class Make>
void for_lanes(std::int64_t entries, int threads, Watch& watch, Make make) {
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    auto work = make();
    for (std::int64_t first = begin; first < end; first += kJudgedAtOnce)
      work(first, std::min<std::int64_t>(kJudgedAtOnce, end - first));
  };
  const std::int64_t block = even_block(entries, kEntries, threads);
  if (block == 0) return;
  const std::int64_t blocks = (entries + block - 1) / block;
  if (blocks == 1) return run(0, entries);
  parallel_for(static_cast<std::size_t>(blocks), threads, watch, [&](std::size_t task, int) {
    const std::int64_t begin = static_cast<std::int64_t>(task) * block;
    run(begin, std::min(entries, begin + block));
  });
}

// Lanes behind the last entry repeat it.
std::int64_t entry_of(std::int64_t first, std::int64_t lane, std::int64_t size) {
  return first + std::min(lane, size - 1);
}

void read_votes(const float* probabilities, std::int64_t first, std::int64_t size, int members, float* votes) {
  for (std::int64_t lane = 0; lane < kJudgedAtOnce; ++lane)
    for (int m = 0; m < members; ++m)
      votes[m * kJudgedAtOnce + lane] = probabilities[entry_of(first, lane, size) * members + m];
}

void write_votes(const float* votes, std::int64_t first, std::int64_t size, int members, float* probabilities) {
  for (std::int64_t lane = 0; lane < size; ++lane)
    for (int m = 0; m < members; ++m) probabilities[(first + lane) * members + m] = votes[m * kJudgedAtOnce + lane];
}

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
  for_lanes(entries, threads, watch, [&] {
    return [&, evidence = std::vector<float>(static_cast<std::size_t>(seen * kJudgedAtOnce)),
            votes = std::vector<float>(static_cast<std::size_t>(members) * kJudgedAtOnce)](std::int64_t first,
                                                                                           std::int64_t size) mutable {
      const JudgeLanes lanes{coefficients.data(), range.data(), seen, members, evidence.data(), votes.data()};
      read_votes(probabilities, first, size, members, lanes.votes);
      for (std::int64_t lane = 0; lane < kJudgedAtOnce; ++lane) {
        const std::int64_t entry = entry_of(first, lane, size);
        for (int s = 0; s < judge.scorers; ++s)
          lanes.evidence[(s + 1) * kJudgedAtOnce + lane] = scores[entry * judge.scorers + s];
        lanes.evidence[(seen - 1) * kJudgedAtOnce + lane] = judge.log_counts[labels[entry]];
      }
      kernels().judge_lanes(lanes);
      write_votes(lanes.votes, first, size, members, judged);
    };
  });
}

void move_members(const double* log_odds, const float* probabilities, std::int64_t entries, int members, int threads,
                  Watch& watch, float* moved) {
  for_lanes(entries, threads, watch, [&] {
    return [&, wanted = std::vector<float>(kJudgedAtOnce),
            votes = std::vector<float>(static_cast<std::size_t>(members) * kJudgedAtOnce)](std::int64_t first,
                                                                                           std::int64_t size) mutable {
      read_votes(probabilities, first, size, members, votes.data());
      for (std::int64_t lane = 0; lane < kJudgedAtOnce; ++lane)
        wanted[static_cast<std::size_t>(lane)] = static_cast<float>(log_odds[entry_of(first, lane, size)]);
      kernels().move_lanes(wanted.data(), votes.data(), members);
      write_votes(votes.data(), first, size, members, moved);
    };
  });
}

}  // namespace hedgerow
