// The judge's answers on some candidates at once, one in each lane.
//
// Compiled once for each SIMD level, as a part of kernels.cpp and of nothing else.
#pragma once

#include "kernels.h"
#include "kernels/vectors.h"

namespace hedgerow::KERNEL_LEVEL {

namespace {

constexpr float kLeastHeard = 1e-37f;  // no float is smaller without losing digits
// The least and the most that a member can say, so that a float holds the factor that moves one to the other.
constexpr float kLeastMoved = 1e-30f, kMostMoved = 1.0f - 0x1p-20f;
// Calibration takes what is less for this: members that are sure that a label is wrong differ by many powers of ten,
// which means nothing, and would count as disagreement once the mean is lifted.
constexpr float kLeastCalibrated = 2e-6f;
constexpr float kLargest = 3e38f;
constexpr float kMeanWithin = 3e-6f;  // of what is wanted, or of what it lacks to 1
constexpr int kMostSteps = 60;

// cbrt(-ln p), from a logarithm and an exponential, with a step of Newton's for the last digits.
inline F16 surprise_of(F16 p) {
  const F16 x = -logarithm<16>(smaller<16>(larger<16>(p, all<16>(kLeastHeard)), all<16>(1.0f)));
  const Ints<16> none = x <= 1e-30f;
  const F16 y = exponential(logarithm<16>(select(none, all<16>(1.0f), x)) * (1.0f / 3.0f));
  const F16 root = y - (y * y * y - x) / (y * y * 3.0f);
  return select(none, all<16>(0.0f), smaller<16>(root, all<16>(static_cast<float>(kMostSurprise))));
}

// A polynomial as judge.h says.
inline F16 log_odds_of(const JudgeLanes& lanes) {
  const int seen = lanes.seen;
  F16 numbers[kMostSeen];
  for (int i = 0; i < seen; ++i)
    numbers[i] = larger<16>(smaller<16>(load<F16>(lanes.evidence + i * kJudgedAtOnce), all<16>(lanes.range[2 * i + 1])),
                            all<16>(lanes.range[2 * i]));
  const float* linear = lanes.coefficients + 1;
  const float* products = linear + seen;
  const float* cubes = products + seen * (seen + 1) / 2;
  F16 sum = all<16>(lanes.coefficients[0]);
  for (int i = 0; i < seen; ++i) {
    F16 slope = all<16>(linear[i]);
    for (int j = i; j < seen; ++j) slope = slope + numbers[j] * *products++;
    if (i + 1 < seen) slope = slope + numbers[i] * numbers[i] * cubes[i];
    sum = sum + slope * numbers[i];
  }
  return larger<16>(smaller<16>(sum, all<16>(kMostLogOdds)), all<16>(kLeastLogOdds));
}

// Multiplies the odds of all members by one factor so that their mean is `wanted`; `sum` is that of their
// probabilities. The first guess is exact where all say the same. The mean is a concave function of the factor, so one
// of Newton's steps may go too far down, and those after it never go too far up. Distances are relative to what is
// nearer, 0 or 1. A lane ends with a step more than it needs, unless nearly all are certain, where a step would be
// large and change nothing. Odds that became infinite are certain.
inline void move_odds(F16 wanted, F16 sum, float* votes, int members) {
  const F16 mean = larger<16>(sum / static_cast<float>(members), all<16>(kLeastMoved)), lacking = 1.0f - wanted;
  F16 odds_sum = all<16>(0.0f);
  for (int m = 0; m < members; ++m) odds_sum = odds_sum + load<F16>(votes + m * kJudgedAtOnce);
  const F16 least = wanted * static_cast<float>(members) / odds_sum;
  const F16 guess = wanted / larger<16>(lacking, all<16>(kLeastMoved)) * (1.0f - mean) / mean;
  F16 factor = larger<16>(smaller<16>(guess, all<16>(kLargest)), least);
  const Ints<16> high = wanted > 0.5f, certain = wanted >= 1.0f;
  const F16 goal = select(high, lacking, wanted) * static_cast<float>(members), within = goal * kMeanWithin;
  Ints<16> open = ~certain;
  for (int step = 0; step < kMostSteps && any<16>(open); ++step) {
    F16 reached = all<16>(0.0f), slope = all<16>(0.0f);
    for (int m = 0; m < members; ++m) {
      const F16 own = load<F16>(votes + m * kJudgedAtOnce), odds = own * factor;
      const F16 share = 1.0f / (odds + 1.0f);
      reached = reached + select(high, share, select(odds < 1.0f, odds * share, 1.0f - share));
      slope = slope + odds * share * share;  // of the factor's logarithm, which no small odds can make vanish
    }
    const F16 off = select(high, reached - goal, goal - reached);
    const F16 way = off / larger<16>(slope, all<16>(kLeastHeard)) * factor;
    const Ints<16> apart = (off > within) | (off < -within);
    const Ints<16> small = (way <= factor * 0.5f) & (way >= factor * -0.5f);
    const F16 next = larger<16>(smaller<16>(factor + way, all<16>(kLargest)), least);
    factor = select(open & (apart | small), next, factor);
    open = open & apart;
  }
  for (int m = 0; m < members; ++m) {
    const F16 odds = load<F16>(votes + m * kJudgedAtOnce) * factor;
    const F16 share = 1.0f / (odds + 1.0f);
    store(votes + m * kJudgedAtOnce, select(certain, all<16>(1.0f), select(odds < 1.0f, odds * share, 1.0f - share)));
  }
}

// Odds in place of probabilities, of which none is below `least`; returns the sum of what they were.
inline F16 as_odds(float* votes, int members, float least) {
  F16 sum = all<16>(0.0f);
  for (int m = 0; m < members; ++m) {
    float* own = votes + m * kJudgedAtOnce;
    const F16 given = load<F16>(own);
    sum = sum + given;
    const F16 p = smaller<16>(larger<16>(given, all<16>(least)), all<16>(kMostMoved));
    store(own, p / (1.0f - p));
  }
  return sum;
}

inline F16 probability_of(F16 log_odds) { return 1.0f / (exponential(-log_odds) + 1.0f); }

void move_lanes(const float* log_odds, float* votes, int members) {
  const F16 sum = as_odds(votes, members, kLeastMoved);
  const F16 wanted = larger<16>(smaller<16>(load<F16>(log_odds), all<16>(kMostLogOdds)), all<16>(kLeastLogOdds));
  move_odds(probability_of(wanted), sum, votes, members);
}

void move_means(const float* wanted, float* votes, int members) {
  const F16 sum = as_odds(votes, members, kLeastCalibrated);
  move_odds(load<F16>(wanted), sum, votes, members);
}

void judge_lanes(const JudgeLanes& lanes) {
  const F16 sum = as_odds(lanes.votes, lanes.members, kLeastMoved);
  store(lanes.evidence, surprise_of(sum / static_cast<float>(lanes.members)));
  for (int i = 1; i + 1 < lanes.seen; ++i) {
    float* scores = lanes.evidence + i * kJudgedAtOnce;
    store(scores, surprise_of(load<F16>(scores)));
  }
  move_odds(probability_of(log_odds_of(lanes)), sum, lanes.votes, lanes.members);
}

}  // namespace

}  // namespace hedgerow::KERNEL_LEVEL
