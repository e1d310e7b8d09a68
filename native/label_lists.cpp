#include "label_lists.h"

#include <algorithm>
#include <utility>

#include "chunk.h"
#include "kernels.h"

namespace hedgerow {

namespace {

constexpr std::int64_t kMostLabels = 1 << 16;
constexpr std::int64_t kMostFeatures = 1 << 22;  // each takes 12 bytes, used or not
// Below this many labels in a chunk its masks are short; and lists are for features that fewer than one label in so
// many uses.
constexpr std::int64_t kFewestLabels = 128;
constexpr std::int64_t kLabelsPerEntry = 16;
// A part with more labels than one in so many is read faster as a whole.
constexpr std::uint32_t kWholeFrom = 14;
constexpr int kKinds = kNoRow;
constexpr std::int64_t kFetchedAhead = 4;

// Whether every input comes to every leaf for certain.
bool is_certain(const TreeModel& model) {
  const LabelTree& tree = model.tree();
  for (int layer = 0; layer + 1 < tree.depth(); ++layer)
    for (std::int32_t node = 0; node < tree.nodes(layer); ++node) {
      const ChunkView& chunk = model.chunk(layer, node);
      if (!std::all_of(chunk.bias, chunk.bias + chunk.lanes, [](float bias) { return bias >= 1.0f; }) ||
          !unpack_chunk(chunk).empty())
        return false;
    }
  return model.transform() == Transform::l3_hinge;
}

// Calls use(entry, place of its label) for all weights of the last layer. Files that nobody verified may have others,
// which no input meets.
template <class Use>
void each_entry(const TreeModel& model, Use use) {
  const LabelTree& tree = model.tree();
  const int last = tree.depth() - 1;
  for (std::int32_t leaf = 0; leaf < tree.nodes(last); ++leaf) {
    const ChunkView& chunk = model.chunk(last, leaf);
    for (const ChunkEntry& entry : unpack_chunk(chunk))
      if (entry.feature < model.features() && entry.lane < chunk.lanes)
        use(entry, static_cast<std::uint32_t>(tree.child_begin(last, leaf)) + entry.lane);
  }
}

std::size_t part_of(const ChunkEntry& entry) { return static_cast<std::size_t>(entry.feature) * kKinds + entry.kind; }

}  // namespace

std::unique_ptr<const LabelLists> LabelLists::of(const TreeModel& model) {
  const LabelTree& tree = model.tree();
  const auto labels = std::ssize(tree.labels());
  if (model.members() != 1 || model.parts() != 1 || labels > kMostLabels || !is_certain(model)) return nullptr;
  if (labels < kFewestLabels * tree.nodes(tree.depth() - 1) || model.features() > kMostFeatures) return nullptr;
  std::vector<std::uint32_t> sizes(static_cast<std::size_t>(model.features()) * kKinds, 0);
  std::int64_t entries = 0;
  each_entry(model, [&](const ChunkEntry& entry, std::uint32_t) {
    ++sizes[part_of(entry)];
    ++entries;
  });
  const std::int64_t used = std::ssize(sizes) - std::count(sizes.begin(), sizes.end(), 0u);
  if (entries * kLabelsPerEntry > used * labels) return nullptr;
  return std::unique_ptr<const LabelLists>(new LabelLists(model, std::move(sizes)));
}

LabelLists::LabelLists(const TreeModel& model, std::vector<std::uint32_t> sizes) {
  const LabelTree& tree = model.tree();
  const int last = tree.depth() - 1;
  const std::size_t labels = tree.labels().size(), room = (labels + 31) / 32 * 32;
  whole_ = static_cast<std::uint32_t>(room / 2);
  biases_.assign(room, 0.0f);
  for (std::int32_t leaf = 0; leaf < tree.nodes(last); ++leaf)
    std::copy_n(model.chunk(last, leaf).bias, model.chunk(last, leaf).lanes,
                biases_.begin() + tree.child_begin(last, leaf));
  begins_.assign(1, 0);
  begins_.reserve(sizes.size() + 1);
  for (std::uint32_t& size : sizes) {
    if (size > labels / kWholeFrom) size = whole_;
    begins_.push_back(begins_.back() + size);
  }
  entries_.assign(begins_.back(), 0);
  std::vector<std::uint32_t> next(begins_.begin(), begins_.end() - 1);
  each_entry(model, [&](const ChunkEntry& entry, std::uint32_t place) {
    const std::size_t part = part_of(entry);
    const std::uint32_t weight = to_bfloat16(entry.weight);
    if (sizes[part] == whole_)
      entries_[begins_[part] + place / 32 * 16 + place % 16] |= weight << place / 16 % 2 * 16;
    else
      entries_[next[part]++] = place << 16 | weight;
  });
}

void LabelLists::score(const SparseRow& x, float scale, std::span<float> scores) const {
  std::copy(biases_.begin(), biases_.end(), scores.begin());
  // The order in which kernels add the rows of a chunk.
  for (const RowKind kind : {kPairRow, kDenseRow, kMaskedRow}) add(kind, x, scale, scores.data());
}

void LabelLists::add(int kind, const SparseRow& x, float scale, float* scores) const {
  const Kernels& simd = kernels();
  const auto part = [&](std::int64_t i) {
    return begins_.data() + static_cast<std::size_t>(x.indices[i]) * kKinds + static_cast<std::size_t>(kind);
  };
  for (std::int64_t i = 0; i < x.size; ++i) {
    if (i + kFetchedAhead < x.size) __builtin_prefetch(entries_.data() + *part(i + kFetchedAhead));
    const std::uint32_t begin = part(i)[0], size = part(i)[1] - begin;
    if (size == whole_)
      simd.add_whole(entries_.data() + begin, x.values[i] * scale, whole_, scores);
    else
      simd.add_listed(entries_.data() + begin, x.values[i] * scale, size, scores);
  }
}

}  // namespace hedgerow
