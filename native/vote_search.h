// Search in a forest: what every member says of every candidate label, and how far it may be from all there is to say.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "descent.h"
#include "forest.h"

namespace hedgerow {

// How far the votes of one input may be from those over all labels.
struct Certificate {
  float probability = 0;  // no label's mean probability is further off
  float uncertainty = 0;  // nor the total uncertainty of the input
};

// One worker's search over blocks of inputs; its scratch memory is reused from call to call.
class VoteSearcher {
 public:
  explicit VoteSearcher(const Forest& forest) : descent_(forest) { use(forest); }
  void use(const Forest& forest);

  // Searches rows [begin, end). `k` is how many labels must be found at least; `ordered` asks for candidates in
  // ascending order. At most `threads` threads share the trees, where there is enough to do for them.
  void search(const SparseRows& X, std::int64_t begin, std::int64_t end, std::int32_t k, bool ordered,
              const VoteOptions& options, int threads, Watch& watch);

  // Goes down as far as the reach asks for, for rows [begin, end), without looking for votes.
  void look(const SparseRows& X, std::int64_t begin, std::int64_t end, const VoteOptions& options, Watch& watch);
  // For an input of the block that was searched or looked at.
  double reach(std::int64_t input, const ReachOf& of) { return descent_.reach(input, of); }

  // Brings together the votes on one input of the block, numbered from 0.
  void gather(std::int64_t input);
  // The candidates of that input, and the members' log-probabilities: member m's of candidate i at m · stride() + i.
  const std::int32_t* candidates() const { return labels_; }
  std::int64_t size() const { return size_; }
  // Where a candidate stands among them.
  std::int64_t number(std::int32_t label) const { return number_[label]; }
  const float* logs() const { return matrix_.data(); }
  std::size_t stride() const { return static_cast<std::size_t>(stride_); }
  // Where the classifiers of labels were asked for: their log-probabilities of the candidates, without the way there.
  const float* classifiers() const { return classifiers_.data(); }
  Certificate certificate() const;

 private:
  // A label among the best of a member.
  struct TopVote {
    int member;
    std::int32_t label;
    float log_probability;
  };

  int workers(std::int32_t k, int threads) const;
  void start_helpers(const SparseRows& X, std::int64_t begin, std::int64_t end, int helpers, Watch& watch);
  template <class Walk>
  void for_trees(int workers, Watch& watch, Walk walk);
  std::int32_t beam_of(int tree, std::int32_t k) const;
  // Nodes of a layer to keep whatever their probability.
  std::int32_t least_of(int tree, std::int32_t k) const;
  // Whether members go to candidates that only others met.
  bool completes() const;
  void clear_candidates();
  // Adds the candidates of the next input, which `number_` then marks.
  void find_candidates(std::int64_t input);
  void find_scored(int tree, std::int64_t input, float lowest);
  void find_top(int tree, std::int64_t input);
  void add_candidate(std::int32_t label);
  void fill(int tree, std::int64_t input, bool only_top);
  void fill_extra(int tree, std::int64_t input);
  void fill_bounds(int tree, std::int64_t input);
  void fill_classifiers(std::int64_t input);
  void forget_numbers();
  float* votes_of(int member) { return matrix_.data() + member * stride_; }

  const Forest* forest_ = nullptr;
  std::uint64_t serial_ = 0;  // of the forest that the scratch memory is made for
  VoteOptions options_;
  std::int32_t least_candidates_ = 0;
  bool ordered_ = false;        // candidates ascend
  std::int64_t first_row_ = 0;  // of the block
  Descent descent_;
  std::vector<std::unique_ptr<Descent>> helpers_;  // of the other threads
  Candidates candidates_;
  std::vector<std::int64_t> top_begins_;
  std::vector<TopVote> top_votes_;
  Best best_;
  AllowedChildren allowed_;
  std::vector<std::uint32_t> positions_;
  std::vector<float> missed_, counts_;
  std::vector<std::int32_t> number_;  // of a label among the candidates of an input, or -1

  const std::int32_t* labels_ = nullptr;
  std::int64_t size_ = 0;
  bool in_order_ = false;  // candidates are in the order in which a single tree scored them
  std::int64_t stride_ = 0;
  std::vector<float> matrix_, classifiers_;
  std::vector<std::int64_t> visit_of_;  // of an input to each leaf of a single tree
  std::vector<Frontier> here_;
};

}  // namespace hedgerow
