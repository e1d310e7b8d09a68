// Votes as they are stored.
#pragma once

#include <cstdint>

namespace hedgerow {

// Candidates of each row in ascending order, and the probabilities that the members give them.
struct VoteRows {
  std::int64_t rows;
  std::int64_t labels;  // of all there are
  int members;
  const std::int64_t* indptr;
  const std::int32_t* candidates;
  const float* probabilities;               // candidate by candidate, members side by side
  const std::uint8_t* unlearned = nullptr;  // a byte a candidate: nothing was learned of the label
};

}  // namespace hedgerow
