#include "judge.h"

#include <vector>

#include "vote_lanes.h"

namespace hedgerow {

namespace {

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
  for_lanes(entries, threads, watch, [&] {
    return [&, evidence = std::vector<float>(static_cast<std::size_t>(seen * kJudgedAtOnce)),
            votes = std::vector<float>(static_cast<std::size_t>(members) * kJudgedAtOnce)](std::int64_t first,
                                                                                           std::int64_t size) mutable {
      const JudgeLanes lanes{coefficients.data(), range.data(), seen, members, evidence.data(), votes.data()};
      read_votes(probabilities, first, size, members, lanes.votes);
      read_votes(scores, first, size, judge.scorers, lanes.evidence + kJudgedAtOnce);
      for (std::int64_t lane = 0; lane < kJudgedAtOnce; ++lane)
        lanes.evidence[(seen - 1) * kJudgedAtOnce + lane] = judge.log_counts[labels[entry_of(first, lane, size)]];
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
