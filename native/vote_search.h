// Search in a forest: what every member says of every candidate label, and how far it may be from all there is to say.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "beam_search.h"
#include "forest.h"

namespace hedgerow {

// What stands for the probability that a member gives to a candidate which it did not meet on its way.
enum class Missing : int {
  exact,  // the probability itself: the member goes there
  delta,  // 0, as in the paper
  bound,  // the probability of the node where the member turned away, which is no less
};

struct VoteOptions {
  std::int32_t beam = 50;
  std::int32_t top = 0;  // > 0: candidates are the best so many labels of each member; 0: all that were scored
  Missing missing = Missing::exact;
  // Go on below every node whose mean probability is above this, whatever the beam; 0 goes everywhere.
  float tolerance = std::numeric_limits<float>::infinity();
  bool normalise = true;
  int followed = 0;  // layers in which the reach is wanted
};

// Nodes of a layer that count for the reach, whatever the beam of the search: more would tell no more.
inline constexpr std::int32_t kReachBeam = 4;

// How far the members follow a row down their trees: the sum of the highest energies that a member gives to
// `nodes` nodes of a layer (the first below the root is 1), the mean over the members.
struct ReachOf {
  int layer;
  std::size_t nodes;
};

// How far the votes of one input may be from those over all labels.
struct Certificate {
  float probability = 0;  // no label's mean probability is further off
  float uncertainty = 0;  // nor the total uncertainty of the input
};

// The visits of a block of inputs to the nodes of one layer.
struct Visits {
  std::vector<std::int64_t> begins;  // of each input
  std::vector<std::int32_t> nodes;   // ascending for each input
  std::vector<std::int32_t> inputs;
  std::vector<float> paths;  // log-probabilities of the node, a voice each
  std::vector<float> logs;   // of its children: voice by voice, `stride` apart
  std::size_t stride = 0;
  std::size_t voices = 0;

  void clear(std::size_t voices_of_tree, std::int32_t widest);
  void add(std::int32_t node, std::int32_t input);
  void close_input() { begins.push_back(static_cast<std::int64_t>(nodes.size())); }
  // The visit of an input to a node, or -1.
  std::int64_t find(std::int64_t input, std::int32_t node) const;
  const float* children(std::int64_t visit) const {
    return logs.data() + static_cast<std::size_t>(visit) * voices * stride;
  }
};

// The nodes of one layer that a block of inputs meets in a narrow beam. What the search visited is read from there.
struct Followed {
  std::vector<std::int64_t> begins;  // of each input
  std::vector<std::int32_t> nodes;   // ascending for each input
  std::vector<const float*> logs;    // of their children, as `Visits::children` gives them
  Visits unvisited;                  // by the search
};

// One worker's search over blocks of inputs; its scratch memory is reused from call to call.
class VoteSearcher {
 public:
  explicit VoteSearcher(const Forest& forest) { use(forest); }
  void use(const Forest& forest);

  // Searches rows [begin, end). `k` is how many labels must be found at least; `ordered` asks for candidates in
  // ascending order. At most `threads` threads share the trees, where there is enough to do for them.
  void search(const SparseRows& X, std::int64_t begin, std::int64_t end, std::int32_t k, bool ordered,
              const VoteOptions& options, int threads, Watch& watch);

  // Goes down as far as the reach asks for, for rows [begin, end), without looking for votes.
  void look(const SparseRows& X, std::int64_t begin, std::int64_t end, const VoteOptions& options, Watch& watch);
  // For an input of the block that was searched or looked at. The nodes are labels where the tree is not so deep.
  double reach(std::int64_t input, const ReachOf& of);

  // Brings together the votes on one input of the block, numbered from 0.
  void gather(std::int64_t input);
  // The candidates of that input, and the members' log-probabilities: member m's of candidate i at m · stride() + i.
  const std::int32_t* candidates() const { return labels_; }
  std::int64_t size() const { return size_; }
  // Where a candidate stands among them.
  std::int64_t number(std::int32_t label) const { return number_[static_cast<std::size_t>(label)]; }
  const float* logs() const { return matrix_.data(); }
  std::size_t stride() const { return stride_; }
  Certificate certificate() const;

 private:
  struct Frontier {
    float worst = -std::numeric_limits<float>::infinity();  // highest log-probability that was left behind
    double mass = 0;  // sum over the labels left behind of a bound on their probability
  };
  // A label among the best of a member.
  struct TopVote {
    int member;
    std::int32_t label;
    float log_probability;
  };
  // One tree's share of a block.
  struct Found {
    std::vector<Visits> layers, extra;
    std::vector<Frontier> frontiers;
    std::vector<Followed> followed;
  };

  void prepare(const SparseRows& X, std::int64_t begin, std::int64_t end, const VoteOptions& options, Watch& watch);
  int workers(std::int32_t k, int threads) const;
  template <class Walk>
  void for_trees(int workers, Walk walk);
  std::int32_t beam_of(int tree, std::int32_t k) const;
  void descend(int tree, std::int32_t beam);
  void follow(int tree);
  void choose_followed(int tree, int layer, std::int64_t input);
  void enter(int tree, int layer, std::int64_t input, std::int32_t node, const float* path, std::size_t apart);
  void score(int tree, int layer, Visits& visits);
  void choose(int tree, int layer, std::int64_t input, std::int32_t beam);
  void find_candidates(std::int64_t input, bool ordered);
  void complete(int tree, const VoteSearcher& leader);
  const float* log_of(int tree, int layer, std::int32_t node, std::int64_t input) const;
  void fill(int tree, const Visits& visits, std::int64_t input, bool only_top);
  void fill_extra(int tree, std::int64_t input);
  void fill_bounds(int tree, std::int64_t input);
  void forget_numbers();

  const Forest* forest_ = nullptr;
  std::uint64_t serial_ = 0;  // of the forest that the scratch memory is made for
  VoteOptions options_;
  Watch* watch_ = nullptr;
  const SparseRows* rows_ = nullptr;  // where the inputs come from
  std::int64_t begin_ = 0, end_ = 0;
  BlockInputs inputs_;
  std::vector<std::unique_ptr<VoteSearcher>> helpers_;  // searchers of the other threads
  std::vector<Found> found_;
  Best best_;
  std::vector<float> means_;
  std::vector<float> highest_, root_;
  std::vector<std::int32_t> chosen_;
  std::vector<unsigned char> kept_;
  std::vector<std::int64_t> order_;
  std::vector<std::int32_t> starts_;
  std::vector<float> missed_, counts_;
  std::vector<std::int64_t> candidate_begins_;
  std::vector<std::int32_t> all_candidates_;
  std::vector<std::int64_t> top_begins_;
  std::vector<TopVote> top_votes_;
  std::vector<std::int32_t> number_;  // of a label among the candidates of an input, or -1
  std::vector<unsigned char> met_;    // leaves of a tree that an input visited

  const std::int32_t* labels_ = nullptr;
  std::int64_t size_ = 0;
  bool in_order_ = false;  // candidates are in the order in which a single tree scored them
  std::size_t stride_ = 0;
  std::vector<float> matrix_;
  std::vector<Frontier> here_;
};

}  // namespace hedgerow
