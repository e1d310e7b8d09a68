#include "block_inputs.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace hedgerow {

namespace {

constexpr std::int64_t kFewestForTable = 16;
constexpr std::int64_t kLookupsPerBucket = 8;

// Scores of such inputs overflow, and infinity minus infinity is no answer.
void refuse_overflow(const SparseRow& x, std::int64_t row) {
  double sum = 0;
  for (std::int64_t i = 0; i < x.size; ++i) sum += std::fabs(double{x.values[i]});
  if (sum > 1e30)
    throw std::invalid_argument(
        "row " + std::to_string(row) +
        " of X has values up to 1e30 and beyond, too large to score; scale X, or use normalize=True");
}

// Whether a row has all features that are expected.
bool is_as_expected(const SparseRow& x, const ExpectedFeatures& expected) {
  const auto count = static_cast<std::int64_t>(expected.count());
  const std::int32_t* end = x.indices + x.size;
  const std::int32_t* from = std::lower_bound(x.indices, end, expected.first);
  // Indices ascend, so that nothing else lies between the first and the last.
  return count > 0 && end - from >= count && from[0] == expected.first && from[count - 1] == expected.last - 1;
}

std::size_t room_for(const ChunkView& chunk) { return 32 * ((std::size_t{chunk.groups} + 1) / 2); }

}  // namespace

float scale_of(const SparseRow& x, std::int64_t row, bool normalise) {
  if (normalise) return unit_scale(x);
  refuse_overflow(x, row);
  return 1.0f;
}

void BlockInputs::prepare(const TreeModel& model, const SparseRows& X, std::int64_t begin, std::int64_t end,
                          bool normalise) {
  const FeatureHash& hash = model.hash();
  expected_ = model.expected();
  inputs_.clear();
  hashes_.clear();
  values_.clear();
  std::int64_t longest = 0;
  for (std::int64_t row = begin; row < end; ++row) {
    const SparseRow x = X[row];
    const std::size_t before = hashes_.size();
    const float scale = scale_of(x, row, normalise);
    for (std::int64_t i = 0; i < x.size; ++i) {
      if (!expected_.sees(x.indices[i])) continue;
      hashes_.push_back(hash(x.indices[i]));
      values_.push_back(x.values[i] * scale);
    }
    const auto seen = static_cast<std::int64_t>(hashes_.size() - before);
    inputs_.push_back({before, seen, is_as_expected(x, expected_)});
    longest = std::max(longest, seen);
  }
  make_room(static_cast<std::size_t>(longest + kHitsSlack));
  number_features(hash.bits());
}

void BlockInputs::make_room(std::size_t features) {
  if (room_ >= features) return;
  room_ = features;
  codes_.resize(room_);
  hits_.front().codes = codes_.data();
  lay_out(1);
}

// Gives each of the first hits its part of the memory.
void BlockInputs::lay_out(std::size_t count) {
  hits_.resize(std::max(count, hits_.size()));
  offsets_.resize(hits_.size() * kNoRow * room_);
  hit_values_.resize(offsets_.size());
  std::size_t begin = 0;
  for (Hits& hits : hits_)
    for (std::size_t kind = 0; kind < kNoRow; ++kind, begin += room_) {
      hits.offsets[kind] = offsets_.data() + begin;
      hits.values[kind] = hit_values_.data() + begin;
    }
}

void BlockInputs::number_features(int hash_bits) {
  for (const std::uint32_t hash : distinct_) number_of_hash_[hash] = 0;
  distinct_.clear();
  numbers_.clear();
  if (size() < kFewestForTable) return;
  number_of_hash_.resize((std::size_t{1} << hash_bits) + 1, 0);
  counts_.assign(1, 0);
  for (const std::uint32_t hash : hashes_) {
    std::uint32_t& number = number_of_hash_[hash];
    if (number == 0) {
      distinct_.push_back(hash);
      number = static_cast<std::uint32_t>(distinct_.size());
      counts_.push_back(0);
    }
    ++counts_[number];
  }
  // Ties in the order of hashes, in which the rows of a chunk lie.
  std::sort(distinct_.begin(), distinct_.end(), [&](std::uint32_t a, std::uint32_t b) {
    const std::uint32_t of_a = counts_[number_of_hash_[a]], of_b = counts_[number_of_hash_[b]];
    return of_a != of_b ? of_a > of_b : a < b;
  });
  for (std::size_t i = 0; i < distinct_.size(); ++i) number_of_hash_[distinct_[i]] = static_cast<std::uint32_t>(i) + 1;
  numbers_.reserve(hashes_.size());
  for (const std::uint32_t hash : hashes_) numbers_.push_back(number_of_hash_[hash]);
  table_.resize(distinct_.size() + 1);
}

void BlockInputs::leave() { tabulated_ = nullptr; }

void BlockInputs::approach(const ChunkView& chunk, std::int64_t lookups) {
  tabulated_ = nullptr;
  // Many lookups in one chunk pay for a table of its rows; for few, its own buckets are better.
  if (numbers_.empty() || lookups <= kLookupsPerBucket * std::int64_t{chunk.bucket_count}) return;
  std::fill(table_.begin(), table_.end(), kNoCode);
  kernels().fill_table(chunk, number_of_hash_.data(), table_.data());
  tabulated_ = &chunk;
}

float* BlockInputs::score(const TreeModel& model, int layer, std::int32_t node, std::int64_t input,
                          const Dropout* dropout, std::size_t& stride) {
  const ChunkView& chunk = model.chunk(layer, node);
  const std::size_t room = room_for(chunk), passes = dropout ? static_cast<std::size_t>(dropout->passes()) : 1;
  if (logits_.size() < (passes + 1) * room) logits_.resize((passes + 1) * room);
  if (const std::size_t dropped = std::min<std::size_t>(passes, Thinning::kPassesAtOnce);
      dropout && hits_.size() <= dropped)
    lay_out(1 + dropped);
  const Input& here = inputs_[static_cast<std::size_t>(input)];
  const Kernels& simd = kernels();
  const float* values = values_.data() + here.begin;
  if (tabulated_ == &chunk)
    simd.look_up_hits(chunk, table_.data(), numbers_.data() + here.begin, values, here.size, hits_.front());
  else
    simd.find_hits(chunk, hashes_.data() + here.begin, values, here.size,
                   here.as_expected ? static_cast<std::int64_t>(expected_.count()) : 0, hits_.front());
  if (dropout) {
    const auto number = static_cast<std::uint64_t>(model.tree().chunk(layer, node));
    simd.score_thinned(chunk, hits_.front(), dropout->thinning(number), room, hits_.data() + 1,
                       logits_.data() + passes * room, logits_.data());
    stride = room;
  } else {
    simd.score_chunk(chunk, hits_.front(), logits_.data());
    stride = chunk.lanes / static_cast<std::size_t>(model.parts() * model.members());
  }
  if (model.parts() > 1) {
    const std::size_t lanes = chunk.lanes / static_cast<std::size_t>(model.parts());
    for (std::size_t pass = 0; pass < passes; ++pass) {
      float* logits = logits_.data() + pass * room;
      for (std::size_t i = lanes; i < chunk.lanes; ++i) logits[i % lanes] += logits[i];
    }
  }
  return logits_.data();
}

}  // namespace hedgerow
