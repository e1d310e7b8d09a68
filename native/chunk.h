// A chunk: the classifiers of all children of one node, side by side, in one block of bytes.
//
// For each feature the chunk uses there is a row with the weights of its lanes (a lane is a child), in bfloat16, in
// one of three forms, the smallest or, when nearly full, the fastest:
//
//   pair    lanes u8[2] · weights u16[2]                 one or two lanes (the second may be empty: weight 0)
//   masked  masks u32[groups / 2] · weights u16[set bits]  the middle
//   dense   weights u16[groups · 16]                       nearly full
//
// In masked and dense rows two groups are interleaved word by word, so that a 32-bit word holds a weight of each and
// needs but a shift or a mask to become two floats; only the last group of a dense row may stand alone.
//
// Rows are padded to whole units of 2 bytes (more in very wide chunks). A hash table leads from a feature to its row:
// features are hashed by a bijection of [0, 2^bits), the hash chooses one of `homes` buckets by its size, and since few
// hashes share a bucket the low 16 bits tell its rows apart. A bucket is one cache line; what does not fit moves on to
// the next. Rows lie in the order of their hashes and so of their buckets: that of a row is the last hash with its low
// bits whose home is not past its bucket. Bytes:
//
//   bias f32[groups · 16] · buckets 64 bytes each · payload · at least 64 zeros, so that vector loads may run past the
//   end
//
// Everything is little-endian.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "kernels.h"

namespace hedgerow {

// Hashes of features, the same for all chunks of a model.
class FeatureHash {
 public:
  explicit FeatureHash(std::int64_t features);
  std::uint32_t operator()(std::int32_t feature) const {
    return (static_cast<std::uint32_t>(feature) * 0x9e3779b1u) & mask_;
  }
  int bits() const { return bits_; }

 private:
  int bits_;
  std::uint32_t mask_;
};

// What the table of a model file tells of a chunk.
struct ChunkShape {
  std::uint64_t begin = 0;  // first byte in the section
  std::uint64_t bytes = 0;
  std::uint32_t lanes = 0;
  std::uint32_t homes = 0;    // buckets that features hash to
  std::uint32_t buckets = 0;  // all of them
  std::uint32_t unit_shift = 0;
};

// Weights of one panel of at most 16 lanes, as the solver leaves them: for every feature of the chunk a mask of the
// lanes that keep a weight, and those weights in order.
struct PanelWeights {
  std::vector<std::uint16_t> masks;
  std::vector<std::uint16_t> weights;
};

std::uint16_t to_bfloat16(float value);
float from_bfloat16(std::uint16_t word);

// Packs the panels of a chunk. `features` are the global numbers of the local features; `bias` has a value a lane.
std::vector<unsigned char> pack_chunk(const FeatureHash& hash, std::span<const std::int32_t> features,
                                      std::span<const PanelWeights> panels, std::span<const float> bias,
                                      ChunkShape& shape);

// The same weights feature by feature: of each its lanes, ascending.
struct FeatureWeights {
  std::vector<std::int32_t> features;
  std::vector<std::uint32_t> begins = {0};
  std::vector<std::uint32_t> lanes;
  std::vector<std::uint16_t> weights;

  void clear() {
    features.clear();
    begins.assign(1, 0);
    lanes.clear();
    weights.clear();
  }
  void open(std::int32_t feature) {
    features.push_back(feature);
    begins.push_back(begins.back());
  }
  void add(std::uint32_t lane, std::uint16_t weight) {
    lanes.push_back(lane);
    weights.push_back(weight);
    ++begins.back();
  }
};
std::vector<unsigned char> pack_features(const FeatureHash& hash, const FeatureWeights& weights,
                                         std::span<const float> bias, ChunkShape& shape);

// Where the parts of a chunk lie. Throws std::invalid_argument when they do not fit into its bytes.
ChunkView view_chunk(const unsigned char* data, const ChunkShape& shape, const FeatureHash& hash);

// Checks every bucket and row of a chunk from an untrusted file; throws std::invalid_argument.
void validate_chunk(const ChunkView& chunk, const ChunkShape& shape);

// One weight of a chunk.
struct ChunkEntry {
  std::int32_t feature;
  std::uint32_t lane;
  float weight;
  std::uint32_t kind = kNoRow;  // of the row that it comes from
};
std::vector<ChunkEntry> unpack_chunk(const ChunkView& chunk);
void unpack_chunk(const ChunkView& chunk, std::vector<ChunkEntry>& entries);

// Features from `first` to `last` - 1, which nearly every input has. Those from `shared` on that are not among them are
// for other models: this one has no weights for them.
struct ExpectedFeatures {
  std::int64_t shared = std::numeric_limits<std::int64_t>::max();
  std::int64_t first = shared, last = shared;

  std::size_t count() const { return static_cast<std::size_t>(last - first); }
  bool sees(std::int64_t feature) const { return feature < shared || (feature >= first && feature < last); }
  bool operator==(const ExpectedFeatures&) const = default;
};
// The codes of the expected features, kNoCode where the chunk does not use one. Throws std::invalid_argument if it uses
// one that is for other models.
void expected_codes(const ChunkView& chunk, const ExpectedFeatures& expected, std::span<std::uint32_t> codes);

// Packs weights in any order, at most one for each feature and lane.
std::vector<unsigned char> pack_entries(const FeatureHash& hash, std::vector<ChunkEntry> entries,
                                        std::span<const float> bias, ChunkShape& shape);

}  // namespace hedgerow
