// The inputs of a block, hashed once, and the scratch memory to score chunks for them.
#pragma once

#include <cstdint>
#include <vector>

#include "dropout.h"
#include "kernels.h"
#include "sparse.h"
#include "tree_model.h"

namespace hedgerow {

// What scales a row to length 1, where it is to be `normalise`d. Throws std::invalid_argument where its values are too
// large to score.
float scale_of(const SparseRow& x, std::int64_t row, bool normalise);

class BlockInputs {
 public:
  void prepare(const TreeModel& model, const SparseRows& X, std::int64_t begin, std::int64_t end, bool normalise);
  // Whether inputs were prepared for a model, or for one that sees the same features.
  bool suit(const TreeModel& model) const { return model.expected() == expected_; }
  std::int64_t size() const { return static_cast<std::int64_t>(inputs_.size()); }
  // Features of an input.
  std::int64_t features(std::int64_t input) const { return inputs_[static_cast<std::size_t>(input)].size; }

  // Tells that a node's chunk is about to be looked up so many times in a row.
  void approach(const ChunkView& chunk, std::int64_t lookups);
  // Forgets the chunk last approached. Must be called while its model is there.
  void leave();
  // Logits of the children of a node for one input, in memory that the next call overwrites. Those of the next member
  // (with a dropout, of the next pass) are `stride` numbers further on.
  float* score(const TreeModel& model, int layer, std::int32_t node, std::int64_t input, const Dropout* dropout,
               std::size_t& stride);

 private:
  struct Input {
    std::size_t begin;
    std::int64_t size;
    bool as_expected;  // ends with all features that models expect
  };
  void number_features(int hash_bits);
  void make_room(std::size_t features);
  void lay_out(std::size_t count);

  std::vector<Input> inputs_;
  ExpectedFeatures expected_;
  std::vector<std::uint32_t> hashes_;
  std::vector<float> values_;
  std::size_t room_ = 0;
  std::vector<Hits> hits_{1};  // of an input; behind them those that passes of a dropout leave out
  std::vector<std::uint32_t> codes_, offsets_;
  std::vector<float> hit_values_;
  // Features of a large block, numbered from the most frequent on: a table of a chunk's rows by these numbers is small,
  // and most lookups fall into its first few lines.
  std::vector<std::uint32_t> numbers_;         // of each entry, like hashes_
  std::vector<std::uint32_t> number_of_hash_;  // 0 if the block does not have it
  std::vector<std::uint32_t> counts_, distinct_;
  std::vector<std::uint32_t> table_;  // the code of every number's row in `tabulated_`; none has number 0
  const ChunkView* tabulated_ = nullptr;
  std::vector<float> logits_;
};

// Leaves at the end of a scope, however it ends.
class Leaving {
 public:
  explicit Leaving(BlockInputs& inputs) : inputs_(inputs) {}
  ~Leaving() { inputs_.leave(); }
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

 private:
  BlockInputs& inputs_;
};

}  // namespace hedgerow
