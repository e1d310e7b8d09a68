#include "vote_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace hedgerow {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr float kUnknown = 1.0f;  // no logarithm of a probability is positive
// Features looked up that are worth a thread: some milliseconds where the chunks are not in cache.
constexpr double kLookupsPerThread = 20000;
// Certificates are sums of rounded numbers; this is more than the rounding.
constexpr double kSlack = 1.0 + 1e-5;

double entropy(double p) { return p <= 0 || p >= 1 ? 0 : -p * std::log(p) - (1 - p) * std::log1p(-p); }

}  // namespace

void VoteSearcher::use(const Forest& forest) {
  forest_ = &forest;
  descent_.use(forest);
  if (serial_ == forest.serial()) return;
  serial_ = forest.serial();
  size_ = 0;
  number_.assign(forest.labels(), -1);
}

std::int32_t VoteSearcher::beam_of(int tree, std::int32_t k) const {
  return std::max(options_.beam, nodes_for(*forest_, tree, options_.subset, std::max(k, options_.top)));
}

std::int32_t VoteSearcher::least_of(int tree, std::int32_t k) const {
  return nodes_for(*forest_, tree, options_.subset, std::max({k, options_.top, kSureLabels}));
}

// How many threads are worth their start.
int VoteSearcher::workers(std::int32_t k, int threads) const {
  const int most = std::min(threads, forest_->trees());
  if (most <= 1) return 1;
  double visits = 0, features = 0;
  for (int tree = 0; tree < forest_->trees(); ++tree) {
    const LabelTree& labels = forest_->model(tree).tree();
    for (int layer = 0; layer < labels.depth(); ++layer) visits += std::min(beam_of(tree, k), labels.nodes(layer));
  }
  const BlockInputs& inputs = descent_.inputs();
  for (std::int64_t input = 0; input < inputs.size(); ++input) features += static_cast<double>(inputs.features(input));
  return static_cast<int>(std::clamp(visits * features / kLookupsPerThread, 1.0, static_cast<double>(most)));
}

void VoteSearcher::start_helpers(const SparseRows& X, std::int64_t begin, std::int64_t end, int helpers, Watch& watch) {
  while (std::ssize(helpers_) < helpers) helpers_.push_back(std::make_unique<Descent>(*forest_));
  for (int helper = 0; helper < helpers; ++helper) {
    helpers_[helper]->use(*forest_);
    helpers_[helper]->prepare(X, begin, end, options_, watch);
  }
}

// Calls walk(descent, tree) for every tree. What a helper finds in a tree is put where this searcher has it.
template <class Walk>
void VoteSearcher::for_trees(int workers, Watch& watch, Walk walk) {
  if (workers <= 1) {
    for (int tree = 0; tree < forest_->trees(); ++tree) walk(descent_, tree);
    return;
  }
  parallel_for(forest_->trees(), workers, watch, [&](std::size_t task, int worker) {
    const int tree = static_cast<int>(task);
    if (worker == 0) return walk(descent_, tree);
    Descent& helper = *helpers_[worker - 1];
    helper.swap_found(tree, descent_);
    walk(helper, tree);
    helper.swap_found(tree, descent_);
  });
}

void VoteSearcher::search(const SparseRows& X, std::int64_t begin, std::int64_t end, std::int32_t k, bool ordered,
                          const VoteOptions& options, int threads, Watch& watch) {
  forget_numbers();
  options_ = options;
  first_row_ = begin;
  if (options_.top > 0) options_.top = std::max(options_.top, k);
  in_order_ = forest_->trees() == 1 && options_.top == 0 && !ordered && !options_.subset;
  descent_.prepare(X, begin, end, options_, watch);
  const int used = workers(k, threads);
  start_helpers(X, begin, end, used - 1, watch);
  for_trees(used, watch, [&](Descent& descent, int tree) {
    descent.descend(tree, beam_of(tree, k), least_of(tree, k));
    descent.follow(tree);
  });
  least_candidates_ = k;
  ordered_ = ordered;
  clear_candidates();
  if (!completes())
    return;  // candidates are found when they are gathered, and what was scored is read from memory once
  for (std::int64_t input = 0; input < end - begin; ++input) {
    find_candidates(input);
    for (const std::int64_t i : part_of(candidates_.begins, input)) number_[candidates_.labels[i]] = -1;
  }
  for_trees(used, watch, [&](Descent& descent, int tree) {
    if (options_.floor > 0)
      descent.complete_above_floor(tree, candidates_);
    else
      descent.complete(tree, candidates_);
  });
}

bool VoteSearcher::completes() const { return options_.missing == Missing::exact && forest_->trees() > 1; }

void VoteSearcher::clear_candidates() {
  candidates_.begins.assign(1, 0);
  candidates_.labels.clear();
  top_begins_.assign(1, 0);
  top_votes_.clear();
}

void VoteSearcher::look(const SparseRows& X, std::int64_t begin, std::int64_t end, const VoteOptions& options,
                        Watch& watch) {
  forget_numbers();
  descent_.prepare(X, begin, end, options, watch);
  for (int tree = 0; tree < forest_->trees(); ++tree) {
    descent_.forget_visits(tree);
    descent_.follow(tree);
  }
}

void VoteSearcher::gather(std::int64_t input) {
  forget_numbers();
  if (!completes()) {
    clear_candidates();
    find_candidates(input);
  }
  const std::int64_t place = completes() ? input : 0;
  const Range<std::int64_t> own = part_of(candidates_.begins, place);
  labels_ = candidates_.labels.data() + own.first;
  size_ = own.size();
  stride_ = (size_ / 16 + 1) * 16;  // the last place is for what is no candidate
  const bool several = forest_->trees() > 1;
  const bool bounds = several && options_.missing == Missing::bound;
  const bool only_top = options_.top > 0 && options_.missing == Missing::delta;
  // What no member of a tree has learned has probability 0.
  matrix_.assign(forest_->members() * stride_, bounds ? kUnknown : kMinusInfinity);
  for (std::int64_t i = 0; i < size_; ++i) number_[labels_[i]] = static_cast<std::int32_t>(i);
  if (only_top)
    for (const std::int64_t i : part_of(top_begins_, place)) {
      const TopVote& vote = top_votes_[i];
      votes_of(vote.member)[number_[vote.label]] = vote.log_probability;
    }
  here_.clear();
  for (int tree = 0; tree < forest_->trees(); ++tree) {
    here_.push_back(descent_.found(tree).frontiers[input]);
    fill(tree, input, only_top);
    if (several && options_.missing == Missing::exact) fill_extra(tree, input);
    if (bounds) fill_bounds(tree, input);
  }
  if (options_.classifiers) fill_classifiers(input);
}

void VoteSearcher::forget_numbers() {
  for (std::int64_t i = 0; i < size_; ++i) number_[labels_[i]] = -1;
  size_ = 0;
}

// Enters what the members of a tree scored. What they scored of no candidate is left behind, like a pruned node.
void VoteSearcher::fill(int tree, std::int64_t input, bool only_top) {
  const LabelTree& labels = forest_->model(tree).tree();
  const Visits& visits = descent_.found(tree).layers.back();
  const TreeSubset* subset = options_.subset ? &options_.subset->of(tree) : nullptr;
  missed_.clear();
  for (const std::int64_t visit : visits.of(input)) {
    const Range<std::int32_t> places = children_of(labels, labels.depth() - 1, visits.nodes[visit]);
    const std::int32_t* own = labels.labels().data() + places.first;
    // Labels that may not be answered are not missed.
    const auto counts = [&](std::int32_t i) { return !subset || subset->has(labels.depth(), places.first + i); };
    const float* logs = visits.children(visit);
    for (int voice = 0; voice < visits.voices; ++voice, logs += visits.stride) {
      float* row = votes_of(forest_->first_voice(tree) + voice);
      if (in_order_) {
        std::copy_n(logs, places.size(), row + number_[own[0]]);
        continue;
      }
      if (only_top) {
        for (std::int32_t i = 0; i < places.size(); ++i) {
          const std::int32_t at = number_[own[i]];
          if (counts(i) && (at < 0 || row[at] == kMinusInfinity)) missed_.push_back(logs[i]);
        }
        continue;
      }
      // Without a branch: which labels are candidates cannot be predicted.
      std::int64_t missed = std::ssize(missed_);
      missed_.resize(missed + places.size());
      for (std::int32_t i = 0; i < places.size(); ++i) {
        const std::int32_t at = number_[own[i]];
        row[at < 0 ? stride_ - 1 : at] = logs[i];
        missed_[missed] = logs[i];
        missed += at < 0 && counts(i);
      }
      missed_.resize(missed);
    }
  }
  if (missed_.empty()) return;
  // The lowest candidates are chosen by their scores, so one that is no number would be left out without a word.
  if (std::any_of(missed_.begin(), missed_.end(), [](float log) { return std::isnan(log); }))
    throw std::invalid_argument("scores of row " + std::to_string(first_row_ + input) +
                                " of X are not finite; scale X and train again");
  Frontier& frontier = here_.back();
  counts_.assign(missed_.size(), 1.0f / static_cast<float>(visits.voices));
  kernels().add_missed(missed_.data(), counts_.data(), std::ssize(missed_), frontier.mass);
  frontier.worst = std::max(frontier.worst, *std::max_element(missed_.begin(), missed_.end()));
}

// Enters what the members of a tree said when they went to the candidates of others. What they met there by the way is
// below pruned nodes, which are counted as left behind already.
void VoteSearcher::fill_extra(int tree, std::int64_t input) {
  const LabelTree& labels = forest_->model(tree).tree();
  const Visits& extra = descent_.found(tree).extra.back();
  for (const std::int64_t visit : extra.of(input)) {
    const Range<std::int32_t> places = children_of(labels, labels.depth() - 1, extra.nodes[visit]);
    const float* logs = extra.children(visit);
    for (const std::int32_t place : places) {
      const std::int32_t at = number_[labels.labels()[place]];
      if (at < 0) continue;
      float* column = votes_of(forest_->first_voice(tree)) + at;
      for (std::int64_t voice = 0; voice < extra.voices; ++voice)
        column[voice * stride_] = logs[voice * extra.stride + place - places.first];
    }
  }
}

// Of a single tree of one voice, which visited the leaves of all candidates.
void VoteSearcher::fill_classifiers(std::int64_t input) {
  const LabelTree& labels = forest_->model(0).tree();
  const Visits& visits = descent_.found(0).layers.back();
  const TreePaths& paths = forest_->paths(0);
  classifiers_.resize(size_);
  visit_of_.resize(labels.nodes(labels.depth() - 1));
  for (const std::int64_t visit : visits.of(input)) visit_of_[visits.nodes[visit]] = visit;
  for (std::int64_t i = 0; i < size_; ++i) {
    const std::int32_t leaf = paths.leaf(labels_[i]);
    const std::int64_t visit = visit_of_[leaf],
                       child = paths.place(labels_[i]) - labels.child_begin(labels.depth() - 1, leaf);
    classifiers_[i] = visits.lowered[visit * visits.stride + child] - visits.paths[visit];
  }
}

// Enters, for candidates that the members of a tree did not meet, the probability of the node where they turned away.
void VoteSearcher::fill_bounds(int tree, std::int64_t input) {
  const TreePaths& paths = forest_->paths(tree);
  const std::vector<Visits>& layers = descent_.found(tree).layers;
  for (std::int64_t i = 0; i < size_; ++i) {
    float* column = votes_of(forest_->first_voice(tree)) + i;
    if (*column != kUnknown) continue;
    std::int32_t node = paths.leaf(labels_[i]);
    const float* log = nullptr;
    int layer = forest_->model(tree).tree().depth() - 1;
    if (node >= 0)
      while ((log = descent_.log_of(tree, layer, node, input)) == nullptr) node = paths.parent(layer--, node);
    for (std::int64_t voice = 0; voice < forest_->voices(tree); ++voice)
      column[voice * stride_] = log ? log[voice * layers[layer - 1].stride] : kMinusInfinity;
  }
}

Certificate VoteSearcher::certificate() const {
  double worst = 0, mass = 0;
  for (int tree = 0; tree < forest_->trees(); ++tree) {
    const double share = static_cast<double>(forest_->voices(tree)) / forest_->members();
    worst += share * std::exp(static_cast<double>(here_[tree].worst));
    mass += share * here_[tree].mass;
  }
  // |h(p) - h(q)| <= h(|p - q|) up to 1/2, and h is concave: equal shares of the mass are the worst case.
  const auto labels = static_cast<double>(options_.subset ? options_.subset->size() : forest_->labels());
  Certificate certificate;
  certificate.probability = static_cast<float>(std::min(1.0, worst * kSlack));
  certificate.uncertainty = static_cast<float>(labels * entropy(std::min(0.5, mass * kSlack / labels)) * kSlack);
  return certificate;
}

}  // namespace hedgerow
