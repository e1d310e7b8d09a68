#include "best_labels.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "beam_search.h"
#include "unlearned.h"

namespace hedgerow {

namespace {

// Rows that a worker takes at once, and candidates that a ranking is offered at once.
constexpr std::int64_t kRows = 16;
constexpr std::int64_t kOffer = 256;

// Memory that a thread reuses from row to row.
struct RankScratch {
  std::vector<float> scores, room;
  Best best;
};

}  // namespace

void find_best(const VoteRows& votes, std::int32_t k, const float* ranked_by, int threads, Watch& watch,
               const BestLabels& out) {
  std::vector<RankScratch> scratch(static_cast<std::size_t>(std::max(threads, 1)));
  const auto find = [&](std::int64_t row, RankScratch& own) {
    const std::int64_t begin = votes.indptr[row], size = votes.indptr[row + 1] - begin;
    own.scores.resize(kMeasures * static_cast<std::size_t>(size));
    own.room.resize(16 * (static_cast<std::size_t>(votes.members) + 3));
    const auto part = [&](std::int64_t i) { return own.scores.data() + i * size; };
    const Measures all{part(0), part(1), part(2), part(3), part(4)};
    kernels().measure_votes(votes.probabilities + begin * votes.members, votes.members, size, all,
                            out.sums + row * kMeasures, own.room.data());
    if (votes.unlearned) count_as_lack_of_knowledge(votes.unlearned + begin, size, all, out.sums + row * kMeasures);
    const float* scores = ranked_by ? ranked_by + begin : all.probability;
    own.best.reset(k);
    for (std::int64_t at = 0; at < size; at += kOffer)
      own.best.offer(scores + at, std::min(kOffer, size - at), static_cast<std::int32_t>(at));
    const auto& best = own.best.finish();
    if (best.size() < static_cast<std::size_t>(k)) throw std::invalid_argument("ranked_by has a value that is NaN");
    std::int64_t to = row * k;
    for (const Ranked& ranked : best) {
      const std::int64_t from = ranked.node();
      out.labels[to] = votes.candidates[begin + from];
      out.measures.probability[to] = all.probability[from];
      out.measures.total[to] = all.total[from];
      out.measures.data[to] = all.data[from];
      out.measures.knowledge[to] = all.knowledge[from];
      out.measures.variance[to++] = all.variance[from];
    }
  };
  const std::int64_t block = even_block(votes.rows, kRows, threads);
  parallel_for(static_cast<std::size_t>((votes.rows + block - 1) / block), threads, watch,
               [&](std::size_t task, int worker) {
                 const std::int64_t begin = static_cast<std::int64_t>(task) * block;
                 for (std::int64_t row = begin; row < std::min(votes.rows, begin + block); ++row)
                   find(row, scratch[static_cast<std::size_t>(worker)]);
               });
}

}  // namespace hedgerow
