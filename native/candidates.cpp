// Which labels a search brings together: the candidates of a `VoteSearcher`.
#include <algorithm>

#include "vote_search.h"

namespace hedgerow {

void VoteSearcher::add_candidate(std::int32_t label) {
  if (number_[label] >= 0) return;
  number_[label] = 0;
  candidates_.labels.push_back(label);
}

void VoteSearcher::find_candidates(std::int64_t input, bool ordered) {
  const std::int64_t begin = std::ssize(candidates_.labels);
  for (int tree = 0; tree < forest_->trees(); ++tree) {
    if (options_.top > 0) {
      find_top(tree, input);
      continue;
    }
    const LabelTree& labels = forest_->model(tree).tree();
    const Visits& visits = descent_.found(tree).layers.back();
    for (const std::int64_t visit : visits.of(input))
      for (const std::int32_t place : children_of(labels, labels.depth() - 1, visits.nodes[visit]))
        add_candidate(labels.labels()[place]);
  }
  top_begins_.push_back(std::ssize(top_votes_));
  if (ordered) std::sort(candidates_.labels.begin() + begin, candidates_.labels.end());
  for (std::int64_t i = begin; i < std::ssize(candidates_.labels); ++i) number_[candidates_.labels[i]] = -1;
  candidates_.begins.push_back(std::ssize(candidates_.labels));
}

// The best labels of each member of a tree.
void VoteSearcher::find_top(int tree, std::int64_t input) {
  const LabelTree& labels = forest_->model(tree).tree();
  const Visits& visits = descent_.found(tree).layers.back();
  for (int voice = 0; voice < forest_->voices(tree); ++voice) {
    best_.reset(std::min(options_.top, labels.nodes(labels.depth())));
    for (const std::int64_t visit : visits.of(input)) {
      const Range<std::int32_t> places = children_of(labels, labels.depth() - 1, visits.nodes[visit]);
      best_.offer(visits.children(visit) + voice * visits.stride, places.size(), labels.labels().data() + places.first);
    }
    for (const Ranked& ranked : best_.finish()) {
      add_candidate(ranked.node());
      top_votes_.push_back({forest_->first_voice(tree) + voice, ranked.node(), ranked.log_probability()});
    }
  }
}

}  // namespace hedgerow
