// Candidates in lanes: the members' probabilities of kJudgedAtOnce candidates, a row for each member.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels.h"
#include "parallel.h"

namespace hedgerow {

inline constexpr std::int64_t kLaneEntries = 1 << 13;  // that a worker takes at once

// Calls work(first entry, entries) for up to kJudgedAtOnce of them at a time, in parallel; make() gives a worker its
// own.
template <class Make>
void for_lanes(std::int64_t entries, int threads, Watch& watch, Make make) {
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    auto work = make();
    for (std::int64_t first = begin; first < end; first += kJudgedAtOnce)
      work(first, std::min<std::int64_t>(kJudgedAtOnce, end - first));
  };
  const std::int64_t block = even_block(entries, kLaneEntries, threads);
  if (block == 0) return;
  const std::int64_t blocks = (entries + block - 1) / block;
  if (blocks == 1) return run(0, entries);
  parallel_for(static_cast<std::size_t>(blocks), threads, watch, [&](std::size_t task, int) {
    const std::int64_t begin = static_cast<std::int64_t>(task) * block;
    run(begin, std::min(entries, begin + block));
  });
}

// Lanes behind the last entry repeat it.
inline std::int64_t entry_of(std::int64_t first, std::int64_t lane, std::int64_t size) {
  return first + std::min(lane, size - 1);
}

inline void read_votes(const float* probabilities, std::int64_t first, std::int64_t size, int members, float* votes) {
  const float* from = probabilities + first * members;
  for (int m = 0; m < members; ++m, votes += kJudgedAtOnce) {
    for (std::int64_t lane = 0; lane < size; ++lane) votes[lane] = from[lane * members + m];
    std::fill(votes + size, votes + kJudgedAtOnce, votes[size - 1]);
  }
}

inline void write_votes(const float* votes, std::int64_t first, std::int64_t size, int members, float* probabilities) {
  float* to = probabilities + first * members;
  for (std::int64_t lane = 0; lane < size; ++lane)
    for (int m = 0; m < members; ++m) *to++ = votes[m * kJudgedAtOnce + lane];
}

}  // namespace hedgerow
