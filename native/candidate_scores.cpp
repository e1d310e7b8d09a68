#include "candidate_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "descent.h"
#include "kept_searcher.h"

namespace hedgerow {

namespace {

constexpr std::int64_t kMostBlock = 1024;
constexpr std::int64_t kBlockBytes = std::int64_t{64} << 20;
// The score of a label that its classifier does not see in an input: the margin of the hinge loss.
constexpr float kPlainNo = -1.0f;
// What a node below the floor counts as, of the floor: what is there is mostly much less probable.
constexpr float kShareOfFloor = 1e-3f;

// So many rows that what a worker keeps of them stays within bounds, wherever their candidates are.
std::int64_t block_size(const Forest& forest, const SparseRows& X, const CandidateRows& candidates, int threads) {
  const std::int64_t each = X.rows ? candidates.indptr[X.rows] / X.rows + 1 : 1;
  std::int64_t bytes = 1;
  for (int tree = 0; tree < forest.trees(); ++tree) {
    const LabelTree& labels = forest.model(tree).tree();
    for (int layer = 0; layer < labels.depth(); ++layer)
      bytes += std::min<std::int64_t>(each, labels.nodes(layer)) * forest.paths(tree).widest(layer) *
               forest.voices(tree) * static_cast<std::int64_t>(sizeof(float));
  }
  return even_block(X.rows, std::clamp<std::int64_t>(kBlockBytes / bytes, 1, kMostBlock), threads);
}

class CandidateScorer {
 public:
  explicit CandidateScorer(const Forest& forest) : descent_(forest) { use(forest); }

  void use(const Forest& forest) {
    forest_ = &forest;
    descent_.use(forest);
  }

  void score(const SparseRows& X, const CandidateRows& candidates, std::int64_t begin, std::int64_t end,
             const VoteOptions& options, Watch& watch, const CandidateScores& scores) {
    const std::int64_t first = candidates.indptr[begin];
    block_.begins.assign(candidates.indptr + begin, candidates.indptr + end + 1);
    for (std::int64_t& at : block_.begins) at -= first;
    block_.labels.assign(candidates.labels + first, candidates.labels + candidates.indptr[end]);
    const std::int64_t members = forest_->members();
    const std::int64_t entries = std::ssize(block_.labels) * members;
    float* out = scores.probabilities + first * members;
    float* own = scores.own + first * members;
    std::fill_n(out, entries, -std::numeric_limits<float>::infinity());
    std::fill_n(own, entries, -std::numeric_limits<float>::infinity());
    bool prepared = false;
    for (int tree = 0; tree < forest_->trees(); ++tree) {
      if (const LabelLists* lists = forest_->lists(tree)) {
        watch.check();
        score_listed(*lists, tree, X, begin, options, out, own);
        continue;
      }
      if (!std::exchange(prepared, true)) descent_.prepare(X, begin, end, options, watch);
      descent_.forget_visits(tree);
      descent_.complete(tree, block_);
      read_visits(tree, end - begin, options, out, own);
    }
    kernels().exponentials(out, entries);
    kernels().exponentials(own, entries);
    const float* const lost = std::find_if(out, out + entries, [](float p) { return std::isnan(p); });
    if (lost == out + entries) return;
    const auto ends = block_.begins.begin() + 1;
    const auto row = std::upper_bound(ends, block_.begins.end(), (lost - out) / members) - ends;
    throw std::invalid_argument("scores of row " + std::to_string(begin + row) +
                                " of X are not finite; scale X and train again");
  }

 private:
  // What a tree's members say, from their visits to the leaves of candidates.
  void read_visits(int tree, std::int64_t inputs, const VoteOptions& options, float* out, float* own) {
    const LabelTree& labels = forest_->model(tree).tree();
    const TreePaths& paths = forest_->paths(tree);
    const Visits& last = descent_.found(tree).extra.back();
    // Of labels that nobody went to: all the same.
    float no = kPlainNo - options.headroom;
    kernels().log_probabilities(&no, 1, 0.0f, forest_->model(tree).transform(), &no);
    const float no_way = std::log(kShareOfFloor * options.floor) + no;
    const std::int64_t members = forest_->members(), first = forest_->first_voice(tree);
    visit_of_.assign(static_cast<std::size_t>(labels.nodes(labels.depth() - 1)), -1);
    for (std::int64_t input = 0; input < inputs; ++input) {
      for (const std::int64_t visit : last.of(input))
        visit_of_[static_cast<std::size_t>(last.nodes[static_cast<std::size_t>(visit)])] = visit;
      for (const std::int64_t i : part_of(block_.begins, input)) {
        const std::int32_t label = block_.labels[static_cast<std::size_t>(i)];
        const std::int32_t leaf = paths.leaf(label);
        if (leaf < 0) continue;
        const std::int64_t visit = visit_of_[static_cast<std::size_t>(leaf)];
        if (visit < 0) {
          std::fill_n(out + i * members + first, last.voices, no_way);
          std::fill_n(own + i * members + first, last.voices, no);
          continue;
        }
        const float* log = last.children(visit) + paths.place(label) - labels.child_begin(labels.depth() - 1, leaf);
        for (std::int64_t voice = 0; voice < last.voices; ++voice, log += last.stride) {
          const std::int64_t at = i * members + first + voice;
          out[at] = *log;
          own[at] = *log - last.paths[static_cast<std::size_t>(visit * last.voices + voice)];
        }
      }
      for (const std::int64_t visit : last.of(input))
        visit_of_[static_cast<std::size_t>(last.nodes[static_cast<std::size_t>(visit)])] = -1;
    }
  }

  // The way to the leaves is certain there.
  void score_listed(const LabelLists& lists, int tree, const SparseRows& X, std::int64_t begin,
                    const VoteOptions& options, float* out, float* own) {
    const TreePaths& paths = forest_->paths(tree);
    scores_.resize(lists.room());
    for (std::int64_t input = 0; input + 1 < std::ssize(block_.begins); ++input) {
      const SparseRow x = X[begin + input];
      lists.score(x, scale_of(x, begin + input, options.normalise), scores_);
      const Range<std::int64_t> entries = part_of(block_.begins, input);
      logs_.resize(static_cast<std::size_t>(entries.size()));
      const auto each = [&](auto use) {
        for (const std::int64_t i : entries)
          if (const std::int32_t label = block_.labels[static_cast<std::size_t>(i)]; paths.leaf(label) >= 0)
            use(i, logs_[static_cast<std::size_t>(i - entries.first)], static_cast<std::size_t>(paths.place(label)));
      };
      each([&](std::int64_t, float& log, std::size_t place) { log = scores_[place] - options.headroom; });
      kernels().log_probabilities(logs_.data(), entries.size(), 0.0f, forest_->model(tree).transform(), logs_.data());
      each([&](std::int64_t i, float& log, std::size_t) {
        out[i * forest_->members() + forest_->first_voice(tree)] = log;
        own[i * forest_->members() + forest_->first_voice(tree)] = log;
      });
    }
  }

  const Forest* forest_ = nullptr;
  Descent descent_;
  Candidates block_;
  std::vector<float> scores_, logs_;
  std::vector<std::int64_t> visit_of_;  // of an input to each leaf
};

}  // namespace

void score_candidates(const Forest& forest, const SparseRows& X, const CandidateRows& candidates,
                      const VoteOptions& options, int threads, Watch& watch, const CandidateScores& scores) {
  if (X.rows == 1) {
    with_kept_searcher<CandidateScorer>(
        forest, [&](CandidateScorer& scorer) { scorer.score(X, candidates, 0, 1, options, watch, scores); });
    return;
  }
  const std::int64_t block = block_size(forest, X, candidates, threads);
  std::vector<std::unique_ptr<CandidateScorer>> scorers(static_cast<std::size_t>(threads));
  parallel_for(static_cast<std::size_t>((X.rows + block - 1) / block), threads, watch,
               [&](std::size_t task, int worker) {
                 auto& scorer = scorers[static_cast<std::size_t>(worker)];
                 if (!scorer) scorer = std::make_unique<CandidateScorer>(forest);
                 const std::int64_t begin = static_cast<std::int64_t>(task) * block;
                 scorer->score(X, candidates, begin, std::min(X.rows, begin + block), options, watch, scores);
               });
}

}  // namespace hedgerow
