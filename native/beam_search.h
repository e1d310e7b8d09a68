// Search in a trained tree, from the root down: beam, best-first, or everything.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "block_inputs.h"
#include "label_subset.h"
#include "parallel.h"
#include "sparse.h"
#include "tree_model.h"

namespace hedgerow {

// A node or label with the logarithm of its probability, in one integer whose order is the ranking: higher probability
// first, ties to the lower number. So the best k are one set, in whatever order they were found.
class Ranked {
 public:
  Ranked() = default;
  Ranked(float log_probability, std::int32_t node)
      : key_(std::uint64_t{to_ordered(log_probability + 0.0f)} << 32 | ~static_cast<std::uint32_t>(node)) {}
  float log_probability() const { return from_ordered(static_cast<std::uint32_t>(key_ >> 32)); }
  std::int32_t node() const { return static_cast<std::int32_t>(~static_cast<std::uint32_t>(key_)); }
  bool operator<(const Ranked& other) const { return key_ > other.key_; }  // better first

 private:
  // Floats as unsigned integers in the same order.
  static std::uint32_t to_ordered(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  }
  static float from_ordered(std::uint32_t ordered) {
    return std::bit_cast<float>(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
  }

  std::uint64_t key_ = 0;
};

// Keeps the best `limit` of what it is offered.
class Best {
 public:
  void reset(std::int32_t limit);
  std::int32_t limit() const { return limit_; }
  // Anything below this cannot get in.
  float threshold() const { return threshold_; }
  // The worst of the best so far, or minus infinity while there is room.
  float worst();
  void offer(const float* log_probabilities, std::int64_t count, std::int32_t first_node);
  void offer(const float* log_probabilities, std::int64_t count, const std::int32_t* nodes);
  // Whatever another one with the same limit kept.
  void offer(const Best& other);
  // The best, sorted.
  const std::vector<Ranked>& finish();

 private:
  template <class NodeAt>
  void offer_nodes(const float* log_probabilities, std::int64_t count, NodeAt node_at);
  void prune();

  std::int32_t limit_ = 0;
  float threshold_ = 0;
  std::vector<Ranked> items_;
  std::vector<std::uint32_t> positions_;
};

struct SearchOptions {
  std::int32_t beam = 50;
  std::int32_t k = 100;
  bool normalise = true;               // scale inputs to length 1
  bool best_first = false;             // search on until the best k are exact; the beam does not matter then
  const TreeSubset* subset = nullptr;  // find only these labels
};

// One worker's search over blocks of inputs, in a model of one member; its scratch memory is reused from call to call.
class Searcher {
 public:
  explicit Searcher(const TreeModel& model) : model_(&model) {}
  void use(const TreeModel& model) { model_ = &model; }

  // The best nodes of layer `layer` (the labels, if it is the depth of the tree) for rows [begin, end).
  // emit(row, ranked) is called in the order of rows. For a single row with much to do, up to `threads` share it.
  template <class Emit>
  void search(const SparseRows& X, std::int64_t begin, std::int64_t end, int layer, const SearchOptions& options,
              Watch& watch, Emit emit, int threads = 1) {
    inputs_.prepare(*model_, X, begin, end, options.normalise);
    threads_ = end - begin == 1 ? threads : 1;
    rows_ = &X;
    row_ = begin;
    subset_ = options.subset;
    prepared_helpers_ = 0;
    if (options.best_first && layer == model_->tree().depth()) {
      for (std::int64_t row = begin; row < end; ++row) emit(row, best_first(row - begin, options.k, watch));
      return;
    }
    descend(layer, options, watch);
    for (std::int64_t row = begin; row < end; ++row) emit(row, best_[static_cast<std::size_t>(row - begin)].finish());
  }

 private:
  struct Pair {
    std::int32_t node;
    std::int32_t input;
    float log_probability;
  };

  void descend(int layer, const SearchOptions& options, Watch& watch);
  void visit(int layer, const std::vector<Pair>& visits, Watch& watch);
  void offer_children(int layer, const Pair& pair);
  // Offers the children of a node: nodes by their place, and labels by their number, which decides ties.
  void offer(Best& best, int layer, std::int32_t node, const float* logs);
  // Visits of a single input, shared by several threads.
  void visit_together(int layer, int threads, bool normalise, Watch& watch);
  const std::vector<Ranked>& best_first(std::int64_t input, std::int32_t k, Watch& watch);
  // Log-probabilities of the children of a node.
  const float* score(int layer, std::int32_t node, float log_probability, std::int64_t input);
  std::int32_t children(int layer, std::int32_t node) const {
    return model_->tree().child_begin(layer, node + 1) - model_->tree().child_begin(layer, node);
  }

  const TreeModel* model_;
  const TreeSubset* subset_ = nullptr;
  AllowedChildren allowed_;
  BlockInputs inputs_;
  std::vector<Best> best_;
  std::vector<Pair> pairs_, sorted_;
  std::vector<std::int32_t> starts_;
  std::int64_t visited_ = 0;
  const SparseRows* rows_ = nullptr;
  std::int64_t row_ = 0;
  int threads_ = 1;
  std::vector<Searcher> helpers_;
  std::size_t prepared_helpers_ = 0;  // those that know the row
};

// The labels and probabilities of the best k for every row, row-major, in rank order.
void top_labels(const TreeModel& model, const SparseRows& X, const SearchOptions& options, int threads, Watch& watch,
                std::int32_t* labels, float* probabilities);

// The best k nodes of a layer for every row as a beam finds them, row-major, and the logarithms of their probabilities.
// Where fewer are found, the rest is node -1 of probability 0.
void top_nodes(const TreeModel& model, const SparseRows& X, int layer, std::int32_t k, std::int32_t beam,
               bool normalise, int threads, Watch& watch, std::int32_t* nodes, float* logs);

}  // namespace hedgerow
