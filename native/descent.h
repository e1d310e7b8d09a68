// The way of a block of inputs down the trees of a forest.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "beam_search.h"
#include "forest.h"
#include "label_subset.h"
#include "range.h"

namespace hedgerow {

// What stands for the probability that a member gives to a candidate which it did not meet on its way.
enum class Missing : int {
  exact,  // the probability itself: the member goes there
  delta,  // 0, as in the paper
  bound,  // the probability of the node where the member turned away, which is no less
};

inline constexpr std::int32_t kSureLabels = 20;

struct VoteOptions {
  std::int32_t beam = 50;
  std::int32_t top = 0;  // > 0: candidates are the best N labels of each member; 0: all that were scored
  Missing missing = Missing::exact;
  // Go on below every node whose mean probability is above this, whatever the beam; 0 goes everywhere.
  float tolerance = std::numeric_limits<float>::infinity();
  // Do not go below a node whose mean probability is lower, were it among the best, unless k labels need it, or
  // kSureLabels, so that most answers do not depend on k. Labels that no member gives a thousandth of this are no
  // candidates. 0: the beam alone decides.
  float floor = 0;
  bool normalise = true;
  float headroom = 0;  // scores of labels are lowered by this much, so that sure ones can be told apart
  // Do not lower what votes, but keep what the classifiers of the labels say when they are lowered.
  bool classifiers = false;
  int followed = 0;                     // layers in which the reach is wanted
  const LabelSubset* subset = nullptr;  // find only these labels; the reach is that of all
};

// Nodes of a layer that count for the reach, whatever the beam of the search: more would tell no more.
inline constexpr std::int32_t kReachBeam = 4;

// How far the members follow a row down their trees: the sum of the highest energies that a member gives to
// `nodes` nodes of a layer (the first below the root is 1), the mean over the members.
struct ReachOf {
  int layer;
  std::size_t nodes;
};

// The visits of a block of inputs to the nodes of one layer.
struct Visits {
  std::vector<std::int64_t> begins;  // of each input
  std::vector<std::int32_t> nodes;   // ascending for each input
  std::vector<std::int32_t> inputs;
  std::vector<float> paths;    // log-probabilities of the node, a voice each
  std::vector<float> logs;     // of its children: voice by voice, `stride` apart
  std::vector<float> lowered;  // the same of labels whose scores are lowered by the headroom, where that is asked for
  std::int64_t stride = 0;
  std::int64_t voices = 0;

  void clear(int voices_of_tree, std::int32_t widest);
  void add(std::int32_t node, std::int64_t input) {
    nodes.push_back(node);
    inputs.push_back(static_cast<std::int32_t>(input));
  }
  void close_input() { begins.push_back(std::ssize(nodes)); }
  Range<std::int64_t> of(std::int64_t input) const { return part_of(begins, input); }
  // The visit of an input to a node, or -1.
  std::int64_t find(std::int64_t input, std::int32_t node) const;
  const float* children(std::int64_t visit) const { return logs.data() + visit * voices * stride; }
};

// The nodes of one layer that a block of inputs meets in a narrow beam. What the search visited is read from there.
struct Followed {
  std::vector<std::int64_t> begins;  // of each input
  std::vector<std::int32_t> nodes;   // ascending for each input
  std::vector<const float*> logs;    // of their children, as `Visits::children` gives them
  Visits unvisited;                  // by the search
};

// What an input left behind.
struct Frontier {
  float worst = -std::numeric_limits<float>::infinity();  // highest log-probability
  double mass = 0;                                        // sum over the labels of a bound on their probability
};

// The candidates of each input of a block.
struct Candidates {
  std::vector<std::int64_t> begins;
  std::vector<std::int32_t> labels;
};

// The children of a node: nodes of the next layer, or places of labels.
inline Range<std::int32_t> children_of(const LabelTree& tree, int layer, std::int32_t node) {
  return {tree.child_begin(layer, node), tree.child_begin(layer, node + 1)};
}

// One worker's way down; its scratch memory is reused from block to block.
class Descent {
 public:
  // One tree's share of a block.
  struct Found {
    std::vector<Visits> layers;
    std::vector<Visits> extra;  // that only the candidates of other trees asked for
    std::vector<Frontier> frontiers;
    std::vector<Followed> followed;
  };

  explicit Descent(const Forest& forest) { use(forest); }
  void use(const Forest& forest);
  void prepare(const SparseRows& X, std::int64_t begin, std::int64_t end, const VoteOptions& options, Watch& watch);
  const BlockInputs& inputs() const { return inputs_; }
  const Found& found(int tree) const { return found_[tree]; }
  // Trees know nothing of each other, so it does not matter who walked through them.
  void swap_found(int tree, Descent& other) { std::swap(found_[tree], other.found_[tree]); }

  // Keeps the best `least` nodes of a layer whatever their probability, and up to `beam` above the floor.
  void descend(int tree, std::int32_t beam, std::int32_t least);
  // Takes the members of a tree to the candidates that only others met, but not below nodes that are under the floor.
  void complete(int tree, const Candidates& candidates);
  // The same where they lie below nodes that the beam left behind above the floor.
  void complete_above_floor(int tree, const Candidates& candidates);
  // The log-probability that the first voice of a tree gives to a node whose parent was visited, the others' being a
  // stride apart; null if it was not.
  const float* log_of(int tree, int layer, std::int32_t node, std::int64_t input) const;

  // Goes down the narrow beam of the reach, over what `descend` visited, and scores only what it did not.
  void follow(int tree);
  // As if nothing was visited.
  void forget_visits(int tree);
  // The nodes are labels where the tree is not so deep.
  double reach(std::int64_t input, const ReachOf& of);

 private:
  struct Unvisited {
    std::int32_t node;
    const float* logs;  // its log-probabilities, a voice every stride
  };

  void score(int tree, int layer, Visits& visits);
  void choose(int tree, int layer, std::int64_t input, std::int32_t beam, std::int32_t least);
  void add_unvisited(int tree, int layer, std::int64_t input);
  bool has_candidate(const LabelTree& tree, int layer, std::int32_t node) const;
  void find_unvisited(int tree, const Candidates& candidates, std::int64_t input);
  void leave_improbable(int tree, int layer);
  void choose_followed(int tree, int layer, std::int64_t input);
  void enter(int tree, int layer, std::int64_t input, std::int32_t node, const float* path, std::int64_t apart);

  const Forest* forest_ = nullptr;
  std::uint64_t serial_ = 0;  // of the forest that the scratch memory is made for
  VoteOptions options_;
  Watch* watch_ = nullptr;
  const SparseRows* rows_ = nullptr;  // where the inputs come from
  std::int64_t begin_ = 0, end_ = 0;
  BlockInputs inputs_;
  std::vector<Found> found_;
  Best best_;
  AllowedChildren allowed_;
  std::vector<float> means_, missed_, counts_, highest_, root_, lowered_;
  std::vector<unsigned char> kept_;
  std::vector<std::int64_t> order_;
  std::vector<std::int32_t> starts_, chosen_;
  std::vector<Unvisited> unvisited_;
  std::vector<unsigned char> sought_;              // labels that are candidates of an input
  std::vector<unsigned char> met_;                 // leaves of a tree that an input visited
  std::vector<std::vector<std::int32_t>> wanted_;  // nodes of each layer on the way to candidates
};

}  // namespace hedgerow
