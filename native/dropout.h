// MC dropout: several passes over one model, each of which leaves out a share of its weights.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.h"

namespace hedgerow {

// A pass drops whole rows of a chunk: all weights of one feature at one node. Each weight is dropped with the same
// chance as if it were drawn alone, independently of the other features, and the passes are the same for every input,
// like the members of an ensemble.
class Dropout {
 public:
  static constexpr int kMostPasses = 4096;
  // Throws std::invalid_argument unless there are 1 to kMostPasses passes and 0 <= share < 1.
  Dropout(float share, int passes, std::uint64_t seed);
  int passes() const { return passes_; }
  // What the passes drop of a chunk.
  Thinning thinning(std::uint64_t chunk) const;

 private:
  float share_;
  int passes_;
  std::uint64_t seed_;
  std::vector<std::uint32_t> masks_;
};

}  // namespace hedgerow
