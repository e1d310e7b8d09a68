// Which labels a search brings together: the candidates of a `VoteSearcher`.
#include <algorithm>
#include <cmath>
#include <limits>

#include "vote_search.h"

namespace hedgerow {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
// Of the floor: a label below is nearly as improbable as those that nobody looked at.
constexpr float kCandidateShare = 1e-3f;

}  // namespace

void VoteSearcher::add_candidate(std::int32_t label) {
  if (number_[label] >= 0) return;
  number_[label] = 0;
  candidates_.labels.push_back(label);
}

void VoteSearcher::find_candidates(std::int64_t input) {
  const std::int64_t begin = std::ssize(candidates_.labels);
  const auto find_all = [&](float lowest) {
    for (int tree = 0; tree < forest_->trees(); ++tree) find_scored(tree, input, lowest);
  };
  if (options_.top > 0)
    for (int tree = 0; tree < forest_->trees(); ++tree) find_top(tree, input);
  else if (options_.floor > 0)
    find_all(std::log(kCandidateShare * options_.floor));
  if (options_.top == 0 && std::ssize(candidates_.labels) - begin < std::max(least_candidates_, kSureLabels))
    find_all(kMinusInfinity);
  top_begins_.push_back(std::ssize(top_votes_));
  if (ordered_) std::sort(candidates_.labels.begin() + begin, candidates_.labels.end());
  candidates_.begins.push_back(std::ssize(candidates_.labels));
}

// The labels that a member of a tree gives no less than the lowest log-probability.
void VoteSearcher::find_scored(int tree, std::int64_t input, float lowest) {
  const LabelTree& labels = forest_->model(tree).tree();
  const Visits& visits = descent_.found(tree).layers.back();
  const TreeSubset* subset = options_.subset ? &options_.subset->of(tree) : nullptr;
  for (const std::int64_t visit : visits.of(input)) {
    const Range<std::int32_t> places = children_of(labels, labels.depth() - 1, visits.nodes[visit]);
    const auto allowed = [&](std::int32_t i) { return !subset || subset->has(labels.depth(), places.first + i); };
    const std::int32_t* own = labels.labels().data() + places.first;
    if (lowest == kMinusInfinity) {
      for (std::int32_t i = 0; i < places.size(); ++i)
        if (allowed(i)) add_candidate(own[i]);
      continue;
    }
    positions_.resize(places.size());
    for (std::int64_t voice = 0; voice < visits.voices; ++voice) {
      const float* logs = visits.children(visit) + voice * visits.stride;
      const std::int64_t found = kernels().select_at_least(logs, places.size(), lowest, positions_.data());
      if (subset) {
        for (std::int64_t i = 0; i < found; ++i)
          if (allowed(static_cast<std::int32_t>(positions_[i]))) add_candidate(own[positions_[i]]);
        continue;
      }
      // Without a branch: whether a label is there already cannot be predicted.
      std::vector<std::int32_t>& all = candidates_.labels;
      std::int64_t size = std::ssize(all);
      all.resize(size + found);
      for (std::int64_t i = 0; i < found; ++i) {
        const std::int32_t label = own[positions_[i]];
        all[size] = label;
        size += number_[label] < 0;
        number_[label] = 0;
      }
      all.resize(size);
    }
  }
}

// The best labels of each member of a tree.
void VoteSearcher::find_top(int tree, std::int64_t input) {
  const LabelTree& labels = forest_->model(tree).tree();
  const Visits& visits = descent_.found(tree).layers.back();
  const TreeSubset* subset = options_.subset ? &options_.subset->of(tree) : nullptr;
  for (int voice = 0; voice < forest_->voices(tree); ++voice) {
    best_.reset(std::min(options_.top, labels.nodes(labels.depth())));
    for (const std::int64_t visit : visits.of(input)) {
      const Range<std::int32_t> places = children_of(labels, labels.depth() - 1, visits.nodes[visit]);
      const float* logs = visits.children(visit) + voice * visits.stride;
      if (subset) {
        allowed_.pick(*subset, labels.depth(), places, logs);
        best_.offer(allowed_.logs(), allowed_.size(), allowed_.nodes());
      } else {
        best_.offer(logs, places.size(), labels.labels().data() + places.first);
      }
    }
    for (const Ranked& ranked : best_.finish()) {
      add_candidate(ranked.node());
      top_votes_.push_back({forest_->first_voice(tree) + voice, ranked.node(), ranked.log_probability()});
    }
  }
}

}  // namespace hedgerow
