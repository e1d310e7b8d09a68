#include "uncertainty.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

#include "kept_searcher.h"

namespace hedgerow {

namespace {

constexpr std::int64_t kMostBlock = 4096;
constexpr std::int64_t kBlockBytes = std::int64_t{96} << 20;

// With a floor fewer nodes are visited than the beam allows, so blocks may be larger, and chunks are read less often.
// Inputs that fill the beam all the same take this many times the bytes.
constexpr std::int64_t kShareAboveFloor = 4;

// So many inputs that what a worker keeps of them stays within bounds. With a tolerance it may visit any node.
std::int64_t block_size(const Forest& forest, const SparseRows& X, std::int32_t k, const VoteOptions& options,
                        int threads) {
  std::int64_t bytes = 1;
  const std::int64_t kept = options.classifiers ? 2 : 1;  // numbers for each child
  for (int tree = 0; tree < forest.trees(); ++tree) {
    const LabelTree& labels = forest.model(tree).tree();
    const std::int64_t beam =
        std::isfinite(options.tolerance)
            ? std::numeric_limits<std::int64_t>::max()
            : std::max(options.beam, nodes_for(forest, tree, options.subset, std::max(k, options.top)));
    for (int layer = 0; layer < labels.depth(); ++layer)
      bytes += std::min<std::int64_t>(beam, labels.nodes(layer)) * forest.paths(tree).widest(layer) *
               forest.voices(tree) * kept * static_cast<std::int64_t>(sizeof(float));
  }
  const std::int64_t most = options.floor > 0 ? kShareAboveFloor * kBlockBytes : kBlockBytes;
  return even_block(X.rows, std::min(most / bytes, kMostBlock), threads);
}

// Calls work(searcher, first row, last row, task) for each block.
template <class Work>
void for_blocks(const Forest& forest, const SparseRows& X, int threads, Watch& watch, std::int64_t block, Work work) {
  if (X.rows == 1) {
    // No lock, and no thread but those that share the trees.
    with_kept_searcher<VoteSearcher>(forest, [&](VoteSearcher& searcher) { work(searcher, 0, 1, 0); });
    return;
  }
  std::vector<std::unique_ptr<VoteSearcher>> searchers(static_cast<std::size_t>(threads));
  const std::int64_t blocks = (X.rows + block - 1) / block;
  watch.plan(static_cast<double>(blocks));
  parallel_for(static_cast<std::size_t>(blocks), threads, watch, [&](std::size_t task, int worker) {
    auto& searcher = searchers[static_cast<std::size_t>(worker)];
    if (!searcher) searcher = std::make_unique<VoteSearcher>(forest);
    const std::int64_t begin = static_cast<std::int64_t>(task) * block, end = std::min(X.rows, begin + block);
    work(*searcher, begin, end, task);
    watch.advance(1.0);
  });
}

VoteOptions with_reach(VoteOptions options, std::span<const ReachOf> wanted) {
  for (const ReachOf& of : wanted) options.followed = std::max(options.followed, of.layer);
  return options;
}

void write_reach(VoteSearcher& votes, std::int64_t begin, std::int64_t end, std::span<const ReachOf> wanted,
                 double* sums) {
  sums += static_cast<std::size_t>(begin) * wanted.size();
  for (std::int64_t row = begin; row < end; ++row)
    for (const ReachOf& of : wanted) *sums++ = votes.reach(row - begin, of);
}

[[noreturn]] void throw_not_finite(std::int64_t row) {
  throw std::invalid_argument("scores of row " + std::to_string(row) + " of X are not finite; scale X and train again");
}

// The sums of all measures, in one loop: five additions that do not wait for each other.
std::array<double, kMeasures> sums(const Measures& of, std::int64_t count) {
  std::array<double, kMeasures> total{};
  for (std::int64_t i = 0; i < count; ++i) {
    total[0] += static_cast<double>(of.probability[i]);
    total[1] += static_cast<double>(of.total[i]);
    total[2] += static_cast<double>(of.data[i]);
    total[3] += static_cast<double>(of.knowledge[i]);
    total[4] += static_cast<double>(of.variance[i]);
  }
  return total;
}

}  // namespace

void measure_uncertainty(const Forest& forest, const SparseRows& X, std::int32_t k, const VoteOptions& options,
                         std::span<const ReachOf> wanted, int threads, Watch& watch, const UncertainLabels& labels,
                         const UncertainInputs& inputs) {
  const VoteOptions own = with_reach(options, wanted);
  const auto write = [&](VoteSearcher& votes, std::int64_t begin, std::int64_t end, std::size_t) {
    votes.search(X, begin, end, k, false, own, X.rows == 1 ? threads : 1, watch);
    write_reach(votes, begin, end, wanted, inputs.reach);
    std::vector<float> room;
    Best best;
    for (std::int64_t row = begin; row < end; ++row) {
      votes.gather(row - begin);
      const std::int64_t size = votes.size();
      room.resize(5 * static_cast<std::size_t>(size));
      const auto part = [&](std::int64_t i) { return room.data() + i * size; };
      const Measures all{part(0), part(1), part(2), part(3), part(4)};
      kernels().measure(votes.logs(), votes.stride(), forest.members(), size, all);
      const auto summed = sums(all, size);
      if (std::isnan(summed[0])) throw_not_finite(row);
      float* const to[] = {inputs.expected, inputs.total, inputs.data, inputs.knowledge, inputs.variance};
      for (std::size_t measure = 0; measure < kMeasures; ++measure)
        to[measure][row] = static_cast<float>(summed[measure]);
      const Certificate certificate = votes.certificate();
      inputs.bound[row] = certificate.probability;
      inputs.missed[row] = certificate.uncertainty;

      best.reset(k);
      // One member ranks as a search in its tree alone does: probabilities are equal sooner than their logarithms.
      best.offer(forest.members() == 1 ? votes.logs() : all.probability, size, votes.candidates());
      const auto& ranked = best.finish();
      if (ranked.size() < static_cast<std::size_t>(k)) throw_not_finite(row);
      for (std::int64_t i = 0; i < k; ++i) {
        const std::int32_t label = ranked[static_cast<std::size_t>(i)].node();
        const std::int64_t from = votes.number(label), to = row * k + i;
        labels.labels[to] = label;
        labels.measures.probability[to] = all.probability[from];
        labels.measures.total[to] = all.total[from];
        labels.measures.data[to] = all.data[from];
        labels.measures.knowledge[to] = all.knowledge[from];
        labels.measures.variance[to] = all.variance[from];
      }
    }
  };
  for_blocks(forest, X, threads, watch, block_size(forest, X, k, options, threads), write);
}

void measure_reach(const Forest& forest, const SparseRows& X, bool normalise, std::span<const ReachOf> wanted,
                   int threads, Watch& watch, double* sums) {
  VoteOptions options;
  options.beam = kReachBeam;
  options.normalise = normalise;
  options = with_reach(options, wanted);
  const auto write = [&](VoteSearcher& votes, std::int64_t begin, std::int64_t end, std::size_t) {
    votes.look(X, begin, end, options, watch);
    write_reach(votes, begin, end, wanted, sums);
  };
  for_blocks(forest, X, threads, watch, block_size(forest, X, 1, options, threads), write);
}

VoteArrays collect_votes(const Forest& forest, const SparseRows& X, std::int32_t k, const VoteOptions& options,
                         std::span<const ReachOf> wanted, int threads, Watch& watch) {
  const VoteOptions own = with_reach(options, wanted);
  const std::size_t members = static_cast<std::size_t>(forest.members());
  const std::int64_t block = block_size(forest, X, k, options, threads);
  struct Part {
    std::vector<std::int32_t> labels;
    std::vector<float> probabilities, classifiers;
  };
  std::vector<Part> parts(static_cast<std::size_t>((X.rows + block - 1) / block));
  VoteArrays out;
  out.indptr.assign(static_cast<std::size_t>(X.rows) + 1, 0);
  out.bound.resize(static_cast<std::size_t>(X.rows));
  out.missed.resize(static_cast<std::size_t>(X.rows));
  out.reach.resize(static_cast<std::size_t>(X.rows) * wanted.size());
  for_blocks(forest, X, threads, watch, block,
             [&](VoteSearcher& votes, std::int64_t begin, std::int64_t end, std::size_t task) {
               votes.search(X, begin, end, k, true, own, X.rows == 1 ? threads : 1, watch);
               write_reach(votes, begin, end, wanted, out.reach.data());
               Part& part = parts[task];
               for (std::int64_t row = begin; row < end; ++row) {
                 votes.gather(row - begin);
                 const std::size_t size = static_cast<std::size_t>(votes.size());
                 part.labels.insert(part.labels.end(), votes.candidates(), votes.candidates() + size);
                 const std::size_t first = part.probabilities.size();
                 part.probabilities.resize(first + size * members);
                 for (std::size_t i = 0; i < size; ++i)
                   for (std::size_t m = 0; m < members; ++m)
                     part.probabilities[first + i * members + m] = votes.logs()[m * votes.stride() + i];
                 kernels().exponentials(part.probabilities.data() + first, static_cast<std::int64_t>(size * members));
                 if (std::any_of(part.probabilities.begin() + static_cast<std::ptrdiff_t>(first),
                                 part.probabilities.end(), [](float p) { return std::isnan(p); }))
                   throw_not_finite(row);
                 if (options.classifiers) {
                   part.classifiers.insert(part.classifiers.end(), votes.classifiers(), votes.classifiers() + size);
                   kernels().exponentials(part.classifiers.data() + part.classifiers.size() - size,
                                          static_cast<std::int64_t>(size));
                 }
                 const Certificate certificate = votes.certificate();
                 out.indptr[static_cast<std::size_t>(row) + 1] = votes.size();
                 out.bound[static_cast<std::size_t>(row)] = certificate.probability;
                 out.missed[static_cast<std::size_t>(row)] = certificate.uncertainty;
               }
             });
  for (std::size_t row = 0; row < static_cast<std::size_t>(X.rows); ++row) out.indptr[row + 1] += out.indptr[row];
  out.labels.reserve(static_cast<std::size_t>(out.indptr.back()));
  out.probabilities.reserve(static_cast<std::size_t>(out.indptr.back()) * members);
  for (Part& part : parts) {
    out.labels.insert(out.labels.end(), part.labels.begin(), part.labels.end());
    out.probabilities.insert(out.probabilities.end(), part.probabilities.begin(), part.probabilities.end());
    out.classifiers.insert(out.classifiers.end(), part.classifiers.begin(), part.classifiers.end());
    part = {};
  }
  return out;
}

}  // namespace hedgerow
