// Probabilities beside how often they come true: counted in bins, and moved by a map.
#pragma once

#include <cstdint>
#include <vector>

#include "judgement.h"
#include "parallel.h"
#include "sparse.h"

namespace hedgerow {

// The bins of all counts and maps: 64 an octave from either end of [0, 1], so that small probabilities are told apart
// as well as those that are nearly 1. Below kLowest and within kHighest of 1 there is one bin each.
inline constexpr float kLowestBin = 0x1p-40f;
inline constexpr float kHighestBin = 0x1p-24f;
int calibration_bins();

// Where the bins begin, and the end of the last: from 0 to 1.
std::vector<double> calibration_edges();

// Which candidates are counted together, and which members.
struct CountOptions {
  const std::uint8_t* group;  // of each label; null: all are in one
  int groups;
  const std::uint8_t* allowed;  // rows × members, 0 where a member must not be asked; null: all may
  bool each;                    // count every member on its own, not their mean
  int best;                     // so many most probable labels of a row are counted apart
};

// Adds to counts, of shape (members or 1) × groups × bins × 4: how many of the best candidates, how many of these
// are true, and the same of the others. Candidates as probable as the last of the best are best, too.
// Rows with no member left count nothing. True labels that are no candidates count nowhere.
void count_votes(const VoteRows& votes, const SparseRows& truth, const CountOptions& options, int threads, Watch& watch,
                 std::int64_t* counts);

// Maps that rise from 0, each by its values at the edges, straight between them.
struct CalibrationMaps {
  const double* values;       // (members or 1) × groups × (bins + 1)
  const std::uint8_t* group;  // of each label; null: all are in one
  int groups;
  bool each;  // a map for every member; else one for their mean
  bool odds;  // members move to their mean by one factor on their odds; else all towards 0 or all towards 1
};

// Moves the probabilities of `entries` candidates so that their mean, or each, is what the maps say.
void apply_maps(const std::int32_t* labels, const float* probabilities, std::int64_t entries, int members,
                const CalibrationMaps& maps, int threads, Watch& watch, float* moved);

}  // namespace hedgerow
