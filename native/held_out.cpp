#include "held_out.h"

#include <algorithm>
#include <limits>

namespace hedgerow {

namespace {

// Nodes that a row visits in each layer, and children that are scored for it: more add nothing to its best labels.
constexpr std::int32_t kBeam = 20, kMostChildren = 8000;
constexpr std::int32_t kKept = 100;

}  // namespace

HeldOut::HeldOut(const LabelTree& tree, Transform transform, std::span<const std::int32_t> rows, std::int64_t all_rows,
                 const SparseRows* candidates)
    : tree_(tree), transform_(transform), rows_(rows), candidates_(candidates) {
  number_.assign(static_cast<std::size_t>(all_rows), -1);
  for (std::size_t i = 0; i < rows.size(); ++i) number_[static_cast<std::size_t>(rows[i])] = static_cast<int>(i);
  visits_.resize(rows.size());
  next_.resize(rows.size());
  for (auto& visits : visits_) visits.push_back({0, 0.0f, 0});
  votes_.indptr.push_back(0);
  if (candidates_) {
    wanted_ = memberships(*candidates_, tree, {0, 0, 1}, tree.depth());
    place_.assign(static_cast<std::size_t>(candidates_->columns), -1);
    for (std::size_t i = 0; i < tree.labels().size(); ++i)
      if (tree.labels()[i] < candidates_->columns)
        place_[static_cast<std::size_t>(tree.labels()[i])] = static_cast<std::int32_t>(i);
  }
  open_layer();
}

void HeldOut::open_layer() {
  visitors_.assign(static_cast<std::size_t>(tree_.nodes(layer_)), {});
  std::size_t room = 0;
  for (std::size_t number = 0; number < rows_.size(); ++number)
    for (Visit& visit : visits_[number]) {
      visitors_[static_cast<std::size_t>(visit.node)].push_back(rows_[number]);
      visit.scores = room;
      room += static_cast<std::size_t>(children(visit.node));
    }
  scores_.assign(room, -std::numeric_limits<float>::infinity());
}

float* HeldOut::scores(std::int32_t node, std::int32_t row) {
  const auto& visits = visits_[static_cast<std::size_t>(number_[static_cast<std::size_t>(row)])];
  const auto at = std::lower_bound(visits.begin(), visits.end(), node,
                                   [](const Visit& visit, std::int32_t wanted) { return visit.node < wanted; });
  return scores_.data() + at->scores;
}

void HeldOut::descend() {
  for (std::size_t number = 0; number < rows_.size(); ++number) {
    next_[number].clear();
    layer_ + 1 < tree_.depth() ? choose(number, visits_[number]) : finish(number, visits_[number]);
  }
  if (++layer_ == tree_.depth()) return;
  std::swap(visits_, next_);
  open_layer();
}

void HeldOut::look_below(const Visit& visit) {
  const auto first = scores_.begin() + static_cast<std::ptrdiff_t>(visit.scores);
  logs_.assign(first, first + children(visit.node));
  kernels().log_probabilities(logs_.data(), std::ssize(logs_), visit.path, transform_, logs_.data());
}

// The nodes of the next layer that a row comes to: those above its candidates, or the best.
void HeldOut::choose(std::size_t number, const std::vector<Visit>& visits) {
  auto& next = next_[number];
  if (candidates_) {
    const auto wanted = wanted_[static_cast<std::size_t>(layer_) + 1][rows_[number]];
    for (const Visit& visit : visits) {
      look_below(visit);
      const std::int32_t first = tree_.child_begin(layer_, visit.node);
      const auto begin = std::lower_bound(wanted.begin(), wanted.end(), first);
      for (auto at = begin; at != wanted.end() && *at < tree_.child_begin(layer_, visit.node + 1); ++at)
        next.push_back({*at, logs_[static_cast<std::size_t>(*at - first)], 0});
    }
    return;
  }
  best_.reset(std::min(kBeam, tree_.nodes(layer_ + 1)));
  for (const Visit& visit : visits) {
    look_below(visit);
    best_.offer(logs_.data(), std::ssize(logs_), tree_.child_begin(layer_, visit.node));
  }
  std::int32_t below = 0;
  for (const Ranked& ranked : best_.finish()) {
    below += tree_.child_begin(layer_ + 1, ranked.node() + 1) - tree_.child_begin(layer_ + 1, ranked.node());
    if (below > kMostChildren && !next.empty()) break;
    next.push_back({ranked.node(), ranked.log_probability(), 0});
  }
  std::sort(next.begin(), next.end(), [](const Visit& a, const Visit& b) { return a.node < b.node; });
}

void HeldOut::finish(std::size_t number, const std::vector<Visit>& visits) {
  const auto add = [&](const Visit& visit, std::int32_t place) {
    votes_.labels.push_back(tree_.labels()[static_cast<std::size_t>(place)]);
    votes_.parents.push_back(visit.path);
    votes_.scores.push_back(
        scores_[visit.scores + static_cast<std::size_t>(place - tree_.child_begin(layer_, visit.node))]);
  };
  const auto visit_above = [&](std::int32_t place) {
    return std::prev(std::upper_bound(visits.begin(), visits.end(), place, [&](std::int32_t at, const Visit& visit) {
      return at < tree_.child_begin(layer_, visit.node);
    }));
  };
  if (candidates_) {
    const SparseRow own = (*candidates_)[rows_[number]];
    for (std::int64_t i = 0; i < own.size; ++i) {
      const std::int32_t place = place_[static_cast<std::size_t>(own.indices[i])];
      if (place >= 0) {
        add(*visit_above(place), place);
      } else {
        votes_.labels.push_back(own.indices[i]);
        votes_.parents.push_back(-std::numeric_limits<float>::infinity());
        votes_.scores.push_back(-std::numeric_limits<float>::infinity());
      }
    }
  } else {
    best_.reset(kKept);
    for (const Visit& visit : visits) {
      look_below(visit);
      best_.offer(logs_.data(), std::ssize(logs_), tree_.child_begin(layer_, visit.node));
    }
    for (const Ranked& ranked : best_.finish()) add(*visit_above(ranked.node()), ranked.node());
  }
  votes_.indptr.push_back(std::ssize(votes_.labels));
}

}  // namespace hedgerow
