// The labels that the members trained so far get wrong.
#pragma once

#include <cstdint>
#include <vector>

#include "label_tree.h"
#include "parallel.h"
#include "sparse.h"

namespace hedgerow {

// Sums up the probabilities that members give to the labels of each row, keeping the `room` highest of a row.
class HardNegatives {
 public:
  HardNegatives(std::int64_t rows, std::int32_t room);

  std::int64_t rows() const { return static_cast<std::int64_t>(sums_.size()); }
  // One more member: its best k labels of each row, row-major, and their probabilities.
  void add(const std::int32_t* labels, const float* probabilities, std::int64_t k, int threads, Watch& watch);
  // Of the best `count` labels of each row, those that Y does not have, ascending.
  OwnedRows wrong(const SparseRows& Y, std::int32_t count) const;

 private:
  struct Sum {
    std::int32_t label;
    float value;
  };
  std::int32_t room_;
  std::vector<std::vector<Sum>> sums_;  // of each row, highest first
};

}  // namespace hedgerow
