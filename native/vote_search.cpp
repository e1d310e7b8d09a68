#include "vote_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace hedgerow {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr float kUnknown = 1.0f;  // no logarithm of a probability is positive
constexpr int kVisitsBetweenChecks = 64;
// Features looked up that are worth a thread: some milliseconds where the chunks are not in cache.
constexpr double kLookupsPerThread = 20000;
// Certificates are sums of rounded numbers; this is more than the rounding.
constexpr double kSlack = 1.0 + 1e-5;

double entropy(double p) { return p <= 0 || p >= 1 ? 0 : -p * std::log(p) - (1 - p) * std::log1p(-p); }

}  // namespace

void Visits::clear(std::size_t voices_of_tree, std::int32_t widest) {
  voices = voices_of_tree;
  stride = static_cast<std::size_t>(widest);
  begins.assign(1, 0);
  nodes.clear();
  inputs.clear();
  paths.clear();
}

void Visits::add(std::int32_t node, std::int32_t input) {
  nodes.push_back(node);
  inputs.push_back(input);
}

std::int64_t Visits::find(std::int64_t input, std::int32_t node) const {
  const auto first = nodes.begin() + begins[static_cast<std::size_t>(input)];
  const auto last = nodes.begin() + begins[static_cast<std::size_t>(input) + 1];
  const auto at = std::lower_bound(first, last, node);
  return at != last && *at == node ? at - nodes.begin() : -1;
}

void VoteSearcher::use(const Forest& forest) {
  forest_ = &forest;
  if (serial_ == forest.serial()) return;
  serial_ = forest.serial();
  size_ = 0;
  kept_.clear();
  found_.clear();
  found_.resize(static_cast<std::size_t>(forest.trees()));
  for (int tree = 0; tree < forest.trees(); ++tree) {
    Found& found = found_[static_cast<std::size_t>(tree)];
    found.layers.resize(static_cast<std::size_t>(forest.model(tree).tree().depth()));
    found.extra.resize(found.layers.size());
  }
  number_.assign(static_cast<std::size_t>(forest.labels()), -1);
}

void VoteSearcher::prepare(const SparseRows& X, std::int64_t begin, std::int64_t end, const VoteOptions& options,
                           Watch& watch) {
  forget_numbers();
  options_ = options;
  watch_ = &watch;
  rows_ = &X;
  begin_ = begin;
  end_ = end;
  inputs_.prepare(forest_->model(0), X, begin, end, options.normalise);
}

std::int32_t VoteSearcher::beam_of(int tree, std::int32_t k) const {
  return std::max(options_.beam, forest_->model(tree).tree().nodes_for(std::max(k, options_.top)));
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
  for (std::int64_t input = 0; input < inputs_.size(); ++input)
    features += static_cast<double>(inputs_.features(input));
  return static_cast<int>(std::clamp(visits * features / kLookupsPerThread, 1.0, static_cast<double>(most)));
}

// Calls walk(searcher, tree) for every tree. What a helper finds in a tree is put where this searcher has it: trees
// know nothing of each other, so it does not matter who walked through them.
template <class Walk>
void VoteSearcher::for_trees(int workers, Walk walk) {
  if (workers <= 1) {
    for (int tree = 0; tree < forest_->trees(); ++tree) walk(*this, tree);
    return;
  }
  parallel_for(static_cast<std::size_t>(forest_->trees()), workers, *watch_, [&](std::size_t tree, int worker) {
    if (worker == 0) return walk(*this, static_cast<int>(tree));
    VoteSearcher& helper = *helpers_[static_cast<std::size_t>(worker) - 1];
    std::swap(helper.found_[tree], found_[tree]);
    walk(helper, static_cast<int>(tree));
    std::swap(helper.found_[tree], found_[tree]);
  });
}

void VoteSearcher::search(const SparseRows& X, std::int64_t begin, std::int64_t end, std::int32_t k, bool ordered,
                          const VoteOptions& options, int threads, Watch& watch) {
  VoteOptions own = options;
  if (own.top > 0) own.top = std::max(own.top, k);
  prepare(X, begin, end, own, watch);
  in_order_ = forest_->trees() == 1 && own.top == 0 && !ordered;
  const int used = workers(k, threads);
  while (helpers_.size() + 1 < static_cast<std::size_t>(used))
    helpers_.push_back(std::make_unique<VoteSearcher>(*forest_));
  for (int helper = 0; helper + 1 < used; ++helper) {
    helpers_[static_cast<std::size_t>(helper)]->use(*forest_);
    helpers_[static_cast<std::size_t>(helper)]->prepare(X, begin, end, own, watch);
  }
  for_trees(used, [&](VoteSearcher& searcher, int tree) {
    searcher.descend(tree, beam_of(tree, k));
    searcher.follow(tree);
  });
  candidate_begins_.assign(1, 0);
  all_candidates_.clear();
  top_begins_.assign(1, 0);
  top_votes_.clear();
  for (std::int64_t input = 0; input < inputs_.size(); ++input) find_candidates(input, ordered);
  if (options_.missing == Missing::exact && forest_->trees() > 1)
    for_trees(used, [&](VoteSearcher& searcher, int tree) { searcher.complete(tree, *this); });
}

void VoteSearcher::descend(int tree, std::int32_t beam) {
  const TreePaths& paths = forest_->paths(tree);
  const std::size_t voices = static_cast<std::size_t>(forest_->voices(tree));
  Found& found = found_[static_cast<std::size_t>(tree)];
  const int depth = forest_->model(tree).tree().depth();
  found.frontiers.assign(static_cast<std::size_t>(inputs_.size()), Frontier{});
  for (int layer = 0; layer < depth; ++layer) {
    Visits& visits = found.layers[static_cast<std::size_t>(layer)];
    visits.clear(voices, paths.widest(layer));
    for (std::int64_t input = 0; input < inputs_.size(); ++input) {
      if (layer == 0) {
        visits.add(0, static_cast<std::int32_t>(input));
        visits.paths.insert(visits.paths.end(), voices, 0.0f);
      } else {
        choose(tree, layer, input, beam);
      }
      visits.close_input();
    }
    score(tree, layer, visits);
  }
}

// Scores the children of all visited nodes, in the order of nodes, so that a chunk is hot while it is used.
void VoteSearcher::score(int tree, int layer, Visits& visits) {
  const TreeModel& model = forest_->model(tree);
  if (!inputs_.suit(model)) inputs_.prepare(model, *rows_, begin_, end_, options_.normalise);
  const std::size_t voices = visits.voices, count = visits.nodes.size();
  if (visits.logs.size() < count * voices * visits.stride) visits.logs.resize(count * voices * visits.stride);
  order_.resize(count);
  starts_.assign(static_cast<std::size_t>(model.tree().nodes(layer)) + 1, 0);
  for (const std::int32_t node : visits.nodes) ++starts_[static_cast<std::size_t>(node) + 1];
  for (std::size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
  for (std::size_t visit = 0; visit < count; ++visit)
    order_[static_cast<std::size_t>(starts_[static_cast<std::size_t>(visits.nodes[visit])]++)] =
        static_cast<std::int64_t>(visit);
  const Kernels& simd = kernels();
  const Leaving leaving(inputs_);
  for (std::size_t i = 0; i < count; ++i) {
    if (i % kVisitsBetweenChecks == 0) watch_->check();
    const std::size_t visit = static_cast<std::size_t>(order_[i]);
    const std::int32_t node = visits.nodes[visit];
    if (i == 0 || visits.nodes[static_cast<std::size_t>(order_[i - 1])] != node) {
      std::int64_t lookups = 0;
      for (std::size_t j = i; j < count && visits.nodes[static_cast<std::size_t>(order_[j])] == node; ++j)
        lookups += inputs_.features(visits.inputs[static_cast<std::size_t>(order_[j])]);
      inputs_.approach(model.chunk(layer, node), lookups);
    }
    const std::int32_t children = model.tree().child_begin(layer, node + 1) - model.tree().child_begin(layer, node);
    std::size_t apart;
    float* logits = inputs_.score(model, layer, node, visits.inputs[visit], forest_->dropout(), apart);
    for (std::size_t voice = 0; voice < voices; ++voice) {
      simd.log_probabilities(logits + voice * apart, children, visits.paths[visit * voices + voice], model.transform());
      std::copy_n(logits + voice * apart, children, visits.logs.data() + (visit * voices + voice) * visits.stride);
    }
  }
}

// Chooses the nodes of a layer that an input visits among the children of those it visited above: the best `beam`,
// and whatever is above the tolerance. What is left behind is the frontier.
void VoteSearcher::choose(int tree, int layer, std::int64_t input, std::int32_t beam) {
  const LabelTree& labels = forest_->model(tree).tree();
  const TreePaths& paths = forest_->paths(tree);
  Found& found = found_[static_cast<std::size_t>(tree)];
  const Visits& above = found.layers[static_cast<std::size_t>(layer) - 1];
  Visits& here = found.layers[static_cast<std::size_t>(layer)];
  const std::size_t voices = above.voices;
  const std::int64_t begin = above.begins[static_cast<std::size_t>(input)];
  const std::int64_t end = above.begins[static_cast<std::size_t>(input) + 1];
  const auto children_of = [&](std::int64_t visit) {
    const std::int32_t node = above.nodes[static_cast<std::size_t>(visit)];
    return labels.child_begin(layer - 1, node + 1) - labels.child_begin(layer - 1, node);
  };
  const auto first_child = [&](std::int64_t visit) {
    return labels.child_begin(layer - 1, above.nodes[static_cast<std::size_t>(visit)]);
  };

  // Members that share a tree share the way down it: the one that is best for their mean.
  const std::size_t width = above.stride;
  means_.resize(static_cast<std::size_t>(end - begin) * width);
  std::int64_t scored = 0;
  best_.reset(std::min(beam, labels.nodes(layer)));
  for (std::int64_t visit = begin; visit < end; ++visit) {
    float* means = means_.data() + static_cast<std::size_t>(visit - begin) * width;
    const std::int32_t children = children_of(visit);
    if (voices == 1)
      std::copy_n(above.children(visit), children, means);
    else
      kernels().log_means(above.children(visit), above.stride, static_cast<int>(voices), children, means);
    best_.offer(means, children, first_child(visit));
    scored += children;
  }
  const auto& best = best_.finish();
  if (static_cast<std::int64_t>(best.size()) < std::min<std::int64_t>(beam, scored))
    throw std::invalid_argument("scores of an input are not finite; scale X and train anew");
  kept_.resize(static_cast<std::size_t>(labels.nodes(layer)), 0);
  for (const Ranked& ranked : best) kept_[static_cast<std::size_t>(ranked.node())] = 1;

  const float tolerance = std::log(options_.tolerance);
  Frontier& frontier = found.frontiers[static_cast<std::size_t>(input)];
  missed_.clear();
  counts_.clear();
  for (std::int64_t visit = begin; visit < end; ++visit) {
    const float* means = means_.data() + static_cast<std::size_t>(visit - begin) * width;
    const std::int32_t first = first_child(visit);
    for (std::int32_t child = 0; child < children_of(visit); ++child) {
      if (kept_[static_cast<std::size_t>(first + child)] || means[child] > tolerance || options_.tolerance <= 0) {
        here.add(first + child, static_cast<std::int32_t>(input));
        for (std::size_t voice = 0; voice < voices; ++voice)
          here.paths.push_back(above.children(visit)[voice * above.stride + static_cast<std::size_t>(child)]);
      } else {
        missed_.push_back(means[child]);
        counts_.push_back(paths.labels_below(layer, first + child));
        frontier.worst = std::max(frontier.worst, means[child]);
      }
    }
  }
  kernels().add_missed(missed_.data(), counts_.data(), static_cast<std::int64_t>(missed_.size()), frontier.mass);
  for (const Ranked& ranked : best) kept_[static_cast<std::size_t>(ranked.node())] = 0;
}

void VoteSearcher::find_candidates(std::int64_t input, bool ordered) {
  const std::size_t begin = all_candidates_.size();
  const auto add = [&](std::int32_t label) {
    if (number_[static_cast<std::size_t>(label)] >= 0) return;
    number_[static_cast<std::size_t>(label)] = 0;
    all_candidates_.push_back(label);
  };
  for (int tree = 0; tree < forest_->trees(); ++tree) {
    const LabelTree& labels = forest_->model(tree).tree();
    const Visits& visits = found_[static_cast<std::size_t>(tree)].layers.back();
    const std::int64_t first = visits.begins[static_cast<std::size_t>(input)];
    const std::int64_t last = visits.begins[static_cast<std::size_t>(input) + 1];
    const int layer = labels.depth() - 1;
    const auto place = [&](std::int64_t visit) {
      return labels.child_begin(layer, visits.nodes[static_cast<std::size_t>(visit)]);
    };
    const auto end = [&](std::int64_t visit) {
      return labels.child_begin(layer, visits.nodes[static_cast<std::size_t>(visit)] + 1);
    };
    if (options_.top == 0) {
      for (std::int64_t visit = first; visit < last; ++visit)
        for (std::int32_t at = place(visit); at < end(visit); ++at) add(labels.labels()[static_cast<std::size_t>(at)]);
      continue;
    }
    for (std::size_t voice = 0; voice < visits.voices; ++voice) {
      best_.reset(std::min(options_.top, labels.nodes(labels.depth())));
      for (std::int64_t visit = first; visit < last; ++visit)
        best_.offer(visits.children(visit) + voice * visits.stride, end(visit) - place(visit),
                    labels.labels().data() + place(visit));
      for (const Ranked& ranked : best_.finish()) {
        add(ranked.node());
        top_votes_.push_back(
            {forest_->first_voice(tree) + static_cast<int>(voice), ranked.node(), ranked.log_probability()});
      }
    }
  }
  top_begins_.push_back(static_cast<std::int64_t>(top_votes_.size()));
  if (ordered) std::sort(all_candidates_.begin() + static_cast<std::ptrdiff_t>(begin), all_candidates_.end());
  for (std::size_t i = begin; i < all_candidates_.size(); ++i)
    number_[static_cast<std::size_t>(all_candidates_[i])] = -1;
  candidate_begins_.push_back(static_cast<std::int64_t>(all_candidates_.size()));
}

// Takes the members of a tree to the candidates of the leader that only others met.
void VoteSearcher::complete(int tree, const VoteSearcher& leader) {
  const LabelTree& labels = forest_->model(tree).tree();
  const TreePaths& paths = forest_->paths(tree);
  Found& found = found_[static_cast<std::size_t>(tree)];
  const int depth = labels.depth();
  const std::size_t voices = static_cast<std::size_t>(forest_->voices(tree));
  for (int layer = 0; layer < depth; ++layer)
    found.extra[static_cast<std::size_t>(layer)].clear(voices, paths.widest(layer));
  // From the leaves up: the nodes on the way that have not been visited.
  met_.assign(static_cast<std::size_t>(labels.nodes(depth - 1)), 0);
  std::vector<std::vector<std::int32_t>> wanted(static_cast<std::size_t>(depth));
  const Visits& last = found.layers.back();
  for (std::int64_t input = 0; input < inputs_.size(); ++input) {
    const auto mark = [&](unsigned char value) {
      for (std::int64_t visit = last.begins[static_cast<std::size_t>(input)];
           visit < last.begins[static_cast<std::size_t>(input) + 1]; ++visit)
        met_[static_cast<std::size_t>(last.nodes[static_cast<std::size_t>(visit)])] = value;
      for (const std::int32_t leaf : wanted.back()) met_[static_cast<std::size_t>(leaf)] = value;
    };
    mark(1);
    for (std::int64_t i = leader.candidate_begins_[static_cast<std::size_t>(input)];
         i < leader.candidate_begins_[static_cast<std::size_t>(input) + 1]; ++i) {
      const std::int32_t leaf = paths.leaf(leader.all_candidates_[static_cast<std::size_t>(i)]);
      if (leaf < 0 || met_[static_cast<std::size_t>(leaf)]) continue;
      met_[static_cast<std::size_t>(leaf)] = 1;
      wanted.back().push_back(leaf);
    }
    mark(0);
    std::sort(wanted.back().begin(), wanted.back().end());
    for (int layer = depth - 1; layer > 0; --layer) {
      auto& above = wanted[static_cast<std::size_t>(layer) - 1];
      for (const std::int32_t node : wanted[static_cast<std::size_t>(layer)]) {
        const std::int32_t parent = paths.parent(layer, node);
        if ((above.empty() || above.back() != parent) &&
            found.layers[static_cast<std::size_t>(layer) - 1].find(input, parent) < 0)
          above.push_back(parent);
      }
    }
    for (int layer = 0; layer < depth; ++layer) {
      Visits& extra = found.extra[static_cast<std::size_t>(layer)];
      for (const std::int32_t node : wanted[static_cast<std::size_t>(layer)])
        extra.add(node, static_cast<std::int32_t>(input));
      extra.close_input();
      wanted[static_cast<std::size_t>(layer)].clear();
    }
  }
  for (int layer = 0; layer < depth; ++layer) {
    Visits& extra = found.extra[static_cast<std::size_t>(layer)];
    extra.paths.resize(extra.nodes.size() * voices);
    for (std::size_t visit = 0; visit < extra.nodes.size(); ++visit) {
      const float* log = log_of(tree, layer, extra.nodes[visit], extra.inputs[visit]);
      for (std::size_t voice = 0; voice < voices; ++voice)
        extra.paths[visit * voices + voice] = log[voice * found.layers[static_cast<std::size_t>(layer) - 1].stride];
    }
    score(tree, layer, extra);
  }
}

// The log-probability that the first voice of a tree gives to a node whose parent was visited, the others' being a
// stride apart; null if it was not.
const float* VoteSearcher::log_of(int tree, int layer, std::int32_t node, std::int64_t input) const {
  const Found& found = found_[static_cast<std::size_t>(tree)];
  const std::int32_t parent = forest_->paths(tree).parent(layer, node);
  const std::int32_t child = node - forest_->model(tree).tree().child_begin(layer - 1, parent);
  const Visits* visits = &found.layers[static_cast<std::size_t>(layer) - 1];
  std::int64_t visit = visits->find(input, parent);
  if (visit < 0 && options_.missing == Missing::exact) {
    visits = &found.extra[static_cast<std::size_t>(layer) - 1];
    visit = visits->find(input, parent);
  }
  return visit < 0 ? nullptr : visits->children(visit) + child;
}

void VoteSearcher::gather(std::int64_t input) {
  forget_numbers();
  const std::int64_t begin = candidate_begins_[static_cast<std::size_t>(input)];
  labels_ = all_candidates_.data() + begin;
  size_ = candidate_begins_[static_cast<std::size_t>(input) + 1] - begin;
  stride_ = static_cast<std::size_t>(size_ + 15) / 16 * 16;
  const bool several = forest_->trees() > 1;
  const bool bounds = several && options_.missing == Missing::bound;
  const bool only_top = options_.top > 0 && options_.missing == Missing::delta;
  // What no member of a tree has learned has probability 0.
  matrix_.assign(static_cast<std::size_t>(forest_->members()) * stride_, bounds ? kUnknown : kMinusInfinity);
  for (std::int64_t i = 0; i < size_; ++i) number_[static_cast<std::size_t>(labels_[i])] = static_cast<std::int32_t>(i);
  if (only_top)
    for (std::int64_t i = top_begins_[static_cast<std::size_t>(input)];
         i < top_begins_[static_cast<std::size_t>(input) + 1]; ++i) {
      const TopVote& vote = top_votes_[static_cast<std::size_t>(i)];
      matrix_[static_cast<std::size_t>(vote.member) * stride_ +
              static_cast<std::size_t>(number_[static_cast<std::size_t>(vote.label)])] = vote.log_probability;
    }
  here_.clear();
  for (int tree = 0; tree < forest_->trees(); ++tree) {
    const Found& found = found_[static_cast<std::size_t>(tree)];
    here_.push_back(found.frontiers[static_cast<std::size_t>(input)]);
    fill(tree, found.layers.back(), input, only_top);
    if (several && options_.missing == Missing::exact) fill_extra(tree, input);
    if (bounds) fill_bounds(tree, input);
  }
}

void VoteSearcher::forget_numbers() {
  for (std::int64_t i = 0; i < size_; ++i) number_[static_cast<std::size_t>(labels_[i])] = -1;
  size_ = 0;
}

// Enters what the members of a tree scored. What they scored of no candidate is left behind, like a pruned node.
void VoteSearcher::fill(int tree, const Visits& visits, std::int64_t input, bool only_top) {
  const LabelTree& labels = forest_->model(tree).tree();
  const std::size_t first_voice = static_cast<std::size_t>(forest_->first_voice(tree));
  missed_.clear();
  for (std::int64_t visit = visits.begins[static_cast<std::size_t>(input)];
       visit < visits.begins[static_cast<std::size_t>(input) + 1]; ++visit) {
    const std::int32_t node = visits.nodes[static_cast<std::size_t>(visit)];
    const std::int32_t begin = labels.child_begin(labels.depth() - 1, node);
    const std::int32_t count = labels.child_begin(labels.depth() - 1, node + 1) - begin;
    const std::int32_t* own = labels.labels().data() + begin;
    for (std::size_t voice = 0; voice < visits.voices; ++voice) {
      const float* logs = visits.children(visit) + voice * visits.stride;
      float* row = matrix_.data() + (first_voice + voice) * stride_;
      if (in_order_) {
        std::copy_n(logs, count, row + number_[static_cast<std::size_t>(own[0])]);
        continue;
      }
      for (std::int32_t i = 0; i < count; ++i) {
        const std::int32_t at = number_[static_cast<std::size_t>(own[i])];
        if (at >= 0 && !only_top)
          row[at] = logs[i];
        else if (at < 0 || row[at] == kMinusInfinity)
          missed_.push_back(logs[i]);
      }
    }
  }
  if (missed_.empty()) return;
  Frontier& frontier = here_.back();
  counts_.assign(missed_.size(), 1.0f / static_cast<float>(visits.voices));
  kernels().add_missed(missed_.data(), counts_.data(), static_cast<std::int64_t>(missed_.size()), frontier.mass);
  frontier.worst = std::max(frontier.worst, *std::max_element(missed_.begin(), missed_.end()));
}

// Enters what the members of a tree said when they went to the candidates of others. What they met there by the way is
// below pruned nodes, which are counted as left behind already.
void VoteSearcher::fill_extra(int tree, std::int64_t input) {
  const LabelTree& labels = forest_->model(tree).tree();
  const Visits& extra = found_[static_cast<std::size_t>(tree)].extra.back();
  for (std::int64_t visit = extra.begins[static_cast<std::size_t>(input)];
       visit < extra.begins[static_cast<std::size_t>(input) + 1]; ++visit) {
    const std::int32_t node = extra.nodes[static_cast<std::size_t>(visit)];
    const std::int32_t begin = labels.child_begin(labels.depth() - 1, node);
    const std::int32_t end = labels.child_begin(labels.depth() - 1, node + 1);
    for (std::int32_t place = begin; place < end; ++place) {
      const std::int32_t at = number_[static_cast<std::size_t>(labels.labels()[static_cast<std::size_t>(place)])];
      if (at < 0) continue;
      for (std::size_t voice = 0; voice < extra.voices; ++voice)
        matrix_[(static_cast<std::size_t>(forest_->first_voice(tree)) + voice) * stride_ +
                static_cast<std::size_t>(at)] =
            extra.children(visit)[voice * extra.stride + static_cast<std::size_t>(place - begin)];
    }
  }
}

// Enters, for candidates that the members of a tree did not meet, the probability of the node where they turned away.
void VoteSearcher::fill_bounds(int tree, std::int64_t input) {
  const TreePaths& paths = forest_->paths(tree);
  const Found& found = found_[static_cast<std::size_t>(tree)];
  const std::size_t voices = static_cast<std::size_t>(forest_->voices(tree));
  for (std::int64_t i = 0; i < size_; ++i) {
    float* column = matrix_.data() + static_cast<std::size_t>(forest_->first_voice(tree)) * stride_ + i;
    if (*column != kUnknown) continue;
    std::int32_t node = paths.leaf(labels_[i]);
    const float* log = nullptr;
    int layer = forest_->model(tree).tree().depth() - 1;
    if (node >= 0)
      while ((log = log_of(tree, layer, node, input)) == nullptr) node = paths.parent(layer--, node);
    for (std::size_t voice = 0; voice < voices; ++voice)
      column[voice * stride_] =
          log ? log[voice * found.layers[static_cast<std::size_t>(layer) - 1].stride] : kMinusInfinity;
  }
}

Certificate VoteSearcher::certificate() const {
  double worst = 0, mass = 0;
  for (int tree = 0; tree < forest_->trees(); ++tree) {
    const Frontier& frontier = here_[static_cast<std::size_t>(tree)];
    const double share = static_cast<double>(forest_->voices(tree)) / forest_->members();
    worst += share * std::exp(static_cast<double>(frontier.worst));
    mass += share * frontier.mass;
  }
  // |h(p) - h(q)| <= h(|p - q|) up to 1/2, and h is concave: equal shares of the mass are the worst case.
  const double labels = forest_->labels();
  Certificate certificate;
  certificate.probability = static_cast<float>(std::min(1.0, worst * kSlack));
  certificate.uncertainty = static_cast<float>(labels * entropy(std::min(0.5, mass * kSlack / labels)) * kSlack);
  return certificate;
}

}  // namespace hedgerow
