#include "judgement.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <vector>

#include "beam_search.h"
#include "unlearned.h"

namespace hedgerow {

namespace {

// Up to so many scores are compared with all candidates one after the other; more are sorted first.
constexpr std::size_t kFew = 32;
// Rows that a worker takes at once, and candidates that a ranking is offered at once.
constexpr std::int64_t kRows = 16;
constexpr std::int64_t kOffer = 256;

// One worker's judgement of rows; its scratch memory is reused from row to row.
class Judge {
 public:
  Judge(const VoteRows& votes, const SparseRows& truth, std::int32_t k, const Judgements& out)
      : votes_(votes), truth_(truth), k_(k), out_(out) {}

  void judge(std::int64_t row) {
    candidates_ = votes_.candidates + votes_.indptr[row];
    size_ = votes_.indptr[row + 1] - votes_.indptr[row];
    measure(row);
    find_true(row);
    rank(row);
    find_wrong();
    const std::int64_t wrong = static_cast<std::int64_t>(wrong_.size()) + outside_;
    for (int score = 0; score < kMeasures; ++score) {
      double& auroc = out_.auroc[row * kMeasures + score];
      double& aupr = out_.aupr[row * kMeasures + score];
      auroc = aupr = std::numeric_limits<double>::quiet_NaN();
      if (wrong > 0 && wrong < votes_.labels) weigh(part(score), wrong, auroc, aupr);
    }
  }

 private:
  // A score that some wrong labels have.
  struct Level {
    float score;
    std::int64_t wrong;
    std::int64_t above, equal;  // labels with a higher score, and with this one
  };

  float* part(int score) { return scores_.data() + static_cast<std::size_t>(score) * static_cast<std::size_t>(size_); }
  Measures measures() { return {part(0), part(1), part(2), part(3), part(4)}; }

  void measure(std::int64_t row) {
    scores_.resize(kMeasures * static_cast<std::size_t>(size_));
    room_.resize(16 * (static_cast<std::size_t>(votes_.members) + 3));
    kernels().measure_votes(votes_.probabilities + votes_.indptr[row] * votes_.members, votes_.members, size_,
                            measures(), out_.sums + row * kMeasures, room_.data());
    if (votes_.unlearned)
      count_as_lack_of_knowledge(votes_.unlearned + votes_.indptr[row], size_, measures(), out_.sums + row * kMeasures);
  }

  // Where a label stands among the candidates, or -1.
  std::int64_t find(std::int32_t label) const {
    const std::int32_t* at = std::lower_bound(candidates_, candidates_ + size_, label);
    return at != candidates_ + size_ && *at == label ? at - candidates_ : -1;
  }

  void copy(std::int64_t from, const Measures& to, std::int64_t at) {
    const Measures all = measures();
    to.probability[at] = from < 0 ? 0.0f : all.probability[from];
    to.total[at] = from < 0 ? 0.0f : all.total[from];
    to.data[at] = from < 0 ? 0.0f : all.data[from];
    to.knowledge[at] = from < 0 ? 0.0f : all.knowledge[from];
    to.variance[at] = from < 0 ? 0.0f : all.variance[from];
  }

  void find_true(std::int64_t row) {
    true_.clear();
    outside_ = 0;
    for (std::int64_t entry = truth_.indptr[row]; entry < truth_.indptr[row + 1]; ++entry) {
      const std::int64_t at = find(truth_.indices[entry]);
      copy(at, out_.of_true, entry);
      if (at < 0)
        ++outside_;
      else
        true_.push_back(at);
      out_.ranks[entry] = 0;
    }
  }

  void rank(std::int64_t row) {
    const std::int64_t asked = truth_.indptr[row + 1] - truth_.indptr[row];
    // Every true label has a rank. Few are looked for, many are sorted with all the others.
    const std::int64_t wanted = true_.size() > kFew ? size_ : std::max<std::int64_t>(k_, asked);
    const float* means = part(0);
    best_.reset(static_cast<std::int32_t>(std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(size_, 1))));
    for (std::int64_t begin = 0; begin < size_; begin += kOffer)
      best_.offer(means + begin, std::min(kOffer, size_ - begin), static_cast<std::int32_t>(begin));
    ranked_ = &best_.finish();

    const std::int64_t found = static_cast<std::int64_t>(ranked_->size());
    for (std::int64_t i = 0; i < k_; ++i) {
      const std::int32_t place = i < found ? (*ranked_)[static_cast<std::size_t>(i)].node() : -1;
      out_.best[row * k_ + i] = place < 0 ? -1 : candidates_[place];
      copy(place, out_.of_best, row * k_ + i);
    }
    auto at = true_.begin();
    for (std::int64_t entry = truth_.indptr[row]; entry < truth_.indptr[row + 1]; ++entry)
      if (at != true_.end() && candidates_[*at] == truth_.indices[entry])
        out_.ranks[entry] = static_cast<std::int32_t>(rank_of(*at++));
    predicted_.clear();
    for (std::int64_t i = 0; i < std::min(asked, found); ++i)
      predicted_.push_back((*ranked_)[static_cast<std::size_t>(i)].node());
    std::sort(predicted_.begin(), predicted_.end());
  }

  std::int64_t rank_of(std::int64_t candidate) {
    const float* means = part(0);
    const auto place = std::lower_bound(ranked_->begin(), ranked_->end(),
                                        Ranked(means[candidate], static_cast<std::int32_t>(candidate)));
    if (place != ranked_->end()) return place - ranked_->begin() + 1;
    // It is worse than all that were kept. Of the same probability, the lower label is better.
    std::int64_t above, equal, before, ignored;
    kernels().count_at_least(means, size_, means[candidate], above, ignored);
    kernels().count_at_least(means, candidate, means[candidate], before, equal);
    return above + equal + 1;
  }

  // Wrong is what is predicted or true, but not both.
  void find_wrong() {
    wrong_.clear();
    std::set_symmetric_difference(predicted_.begin(), predicted_.end(), true_.begin(), true_.end(),
                                  std::back_inserter(wrong_));
  }

  void weigh(const float* scores, std::int64_t wrong, double& auroc, double& aupr) {
    // The wrong labels from the highest score down; those that are no candidates have the lowest there is.
    sorted_.clear();
    for (const std::int64_t at : wrong_) sorted_.push_back(scores[at]);
    std::sort(sorted_.begin(), sorted_.end(), std::greater<>());
    levels_.clear();
    for (const float score : sorted_) {
      if (levels_.empty() || levels_.back().score != score) levels_.push_back({score, 0, 0, 0});
      ++levels_.back().wrong;
    }
    if (outside_ > 0) {
      if (levels_.empty() || levels_.back().score != 0.0f) levels_.push_back({0.0f, 0, 0, 0});
      levels_.back().wrong += outside_;
    }
    if (levels_.size() <= kFew)
      for (Level& level : levels_) kernels().count_at_least(scores, size_, level.score, level.above, level.equal);
    else
      sort_in(scores);
    if (levels_.back().score == 0.0f) levels_.back().equal += votes_.labels - size_;

    const std::int64_t right = votes_.labels - wrong;
    std::int64_t wrong_above = 0;
    double half_pairs = 0;  // whole numbers: exact up to 2^53
    double precisions = 0;
    for (const Level& level : levels_) {
      const std::int64_t right_above = level.above - wrong_above, right_equal = level.equal - level.wrong;
      const std::int64_t right_below = right - right_above - right_equal;
      half_pairs += static_cast<double>(level.wrong) * static_cast<double>(2 * right_below + right_equal);
      wrong_above += level.wrong;
      precisions += static_cast<double>(level.wrong) * static_cast<double>(wrong_above) /
                    static_cast<double>(level.above + level.equal);
    }
    auroc = half_pairs / (2.0 * static_cast<double>(wrong) * static_cast<double>(right));
    aupr = precisions / static_cast<double>(wrong);
  }

  // Counts the candidates above and at every level, in one pass.
  void sort_in(const float* scores) {
    positions_.resize(static_cast<std::size_t>(size_));
    const std::int64_t found = kernels().select_at_least(scores, size_, levels_.back().score, positions_.data());
    for (std::int64_t i = 0; i < found; ++i) {
      const float score = scores[positions_[static_cast<std::size_t>(i)]];
      const auto level =
          std::partition_point(levels_.begin(), levels_.end(), [=](const Level& other) { return other.score > score; });
      ++(level->score == score ? level->equal : level->above);
    }
    std::int64_t before = 0;
    for (Level& level : levels_) {
      level.above += before;
      before = level.above + level.equal;
    }
  }

  const VoteRows& votes_;
  const SparseRows& truth_;
  const std::int32_t k_;
  const Judgements& out_;

  const std::int32_t* candidates_ = nullptr;
  std::int64_t size_ = 0;
  std::vector<float> scores_, room_;                    // the measures of all candidates, one after the other
  std::vector<std::int64_t> true_, predicted_, wrong_;  // places among the candidates, ascending
  std::int64_t outside_ = 0;                            // true labels that are no candidates
  Best best_;
  const std::vector<Ranked>* ranked_ = nullptr;  // places among the candidates, which are in the order of labels
  std::vector<float> sorted_;
  std::vector<Level> levels_;
  std::vector<std::uint32_t> positions_;
};

}  // namespace

void judge_votes(const VoteRows& votes, const SparseRows& truth, std::int32_t k, int threads, Watch& watch,
                 const Judgements& out) {
  const std::int64_t block = even_block(votes.rows, kRows, threads);
  const std::int64_t blocks = (votes.rows + block - 1) / block;
  std::vector<Judge> judges(static_cast<std::size_t>(std::max(threads, 1)), Judge(votes, truth, k, out));
  parallel_for(static_cast<std::size_t>(blocks), threads, watch, [&](std::size_t task, int worker) {
    const std::int64_t begin = static_cast<std::int64_t>(task) * block, end = std::min(votes.rows, begin + block);
    for (std::int64_t row = begin; row < end; ++row) judges[static_cast<std::size_t>(worker)].judge(row);
  });
}

}  // namespace hedgerow
