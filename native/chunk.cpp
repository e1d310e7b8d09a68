#include "chunk.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <stdexcept>

namespace hedgerow {

static_assert(std::endian::native == std::endian::little, "model files are little-endian");

namespace {

constexpr std::size_t kSpareBytes = 64;
constexpr std::uint32_t kMultiplier = 0x9e3779b1u;
// A masked row is smaller than a dense one by its empty lanes, but takes nearly twice as long.
constexpr double kDenseShare = 0.75;
constexpr double kRowsPerBucket = 9.5;
constexpr std::uint32_t kMaxSpot = (1u << 14) - 1;

std::uint32_t inverse_multiplier() {
  std::uint32_t inverse = kMultiplier;  // Newton's iteration doubles the correct low bits
  for (int i = 0; i < 5; ++i) inverse *= 2u - kMultiplier * inverse;
  return inverse;
}

constexpr std::size_t kPairBytes = 6;
std::size_t masks_bytes(unsigned groups) { return 4 * ((std::size_t{groups} + 1) / 2); }
std::size_t dense_bytes(unsigned groups) { return 32 * std::size_t{groups}; }

RowKind kind_of(unsigned count, unsigned lanes) {
  if (count >= kDenseShare * lanes) return kDenseRow;
  return count <= 2 && lanes <= 256 ? kPairRow : kMaskedRow;
}

// Where a lane stands among the words of its interleaved pair of groups.
unsigned word_in_block(unsigned lane) { return 2 * (lane % 16) + lane / 16 % 2; }

// The lane that stands at a word of a block of two groups.
unsigned lane_in_block(unsigned word) { return word / 2 + 16 * (word % 2); }

// Where a lane of a dense row lies, in words: a last odd group stands alone.
std::size_t dense_word(unsigned lane, unsigned groups) {
  if (groups % 2 == 1 && lane / 16 == groups - 1) return lane;
  return std::size_t{lane} / 32 * 32 + word_in_block(lane);
}

template <class T>
void put(unsigned char* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

template <class T>
T get(const unsigned char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

std::uint32_t home_bucket(std::uint32_t hash, std::uint32_t homes, int bits) {
  return static_cast<std::uint32_t>((std::uint64_t{hash} * homes) >> bits);
}

// Gives every row, in the order of hashes, the first bucket from its home on that has room. A row found that far from
// home must still be told apart by 16 bits of its hash; if not, more buckets.
template <class HashOf>
void place_rows(std::size_t count, int bits, HashOf hash_of, std::vector<std::uint32_t>& bucket_of,
                std::uint32_t& homes, std::uint32_t& buckets) {
  const std::uint64_t universe = std::uint64_t{1} << bits;
  homes = static_cast<std::uint32_t>(std::max<std::uint64_t>(
      static_cast<std::uint64_t>(static_cast<double>(count) / kRowsPerBucket) + 1, universe >> 14));
  for (;; homes += homes / 4 + 1) {
    std::uint32_t bucket = 0, furthest = 0;
    int used = 0;
    for (std::size_t r = 0; r < count; ++r) {
      const std::uint32_t home = home_bucket(hash_of(r), homes, bits);
      if (home > bucket) {
        bucket = home;
        used = 0;
      }
      if (used == Bucket::kSlots) {
        ++bucket;
        used = 0;
      }
      ++used;
      bucket_of[r] = bucket;
      furthest = std::max(furthest, bucket - home);
    }
    buckets = std::max(homes, bucket + 1);
    // Hashes that meet in a bucket differ by less than this.
    if ((std::uint64_t{furthest} + 1) * (universe / homes + 1) <= 65536) return;
  }
}

// Sorts by hash, in one step and a little where hashes meet: they are spread evenly over their 2^bits.
template <class Row>
void sort_by_hash(std::vector<Row>& rows, int bits) {
  const int shift = std::max(0, bits - static_cast<int>(std::bit_width(rows.size())));
  std::vector<std::uint32_t> begins((std::size_t{1} << (bits - shift)) + 1, 0);
  for (const Row& row : rows) ++begins[(row.hash >> shift) + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  std::vector<std::uint32_t> next(begins.begin(), begins.end() - 1);
  std::vector<Row> sorted(rows.size());
  for (const Row& row : rows) sorted[next[row.hash >> shift]++] = row;
  for (std::size_t group = 0; group + 1 < begins.size(); ++group)
    if (begins[group + 1] - begins[group] > 1)
      std::sort(sorted.begin() + begins[group], sorted.begin() + begins[group + 1],
                [](const Row& a, const Row& b) { return a.hash < b.hash; });
  rows.swap(sorted);
}

// Marks all buckets from `home` up to the one where the row came to rest.
void put_overflow(std::vector<unsigned char>& block, unsigned groups, std::uint32_t home, std::uint32_t rest) {
  for (std::uint32_t b = home; b < rest; ++b)
    put(&block[64 * (std::size_t{groups} + b) + offsetof(Bucket, overflows)], std::uint32_t{1});
}

// Calls each(g, use) for the groups of lanes in order, and that calls use(lane, weight) for those that have a weight.
template <class Each>
void write_row(RowKind kind, unsigned groups, Each each, unsigned char* out) {
  if (kind == kPairRow) {
    unsigned n = 0;
    for (unsigned g = 0; g < groups; ++g)
      each(g, [&](unsigned lane, std::uint16_t weight) {
        out[n] = static_cast<unsigned char>(lane);
        put(out + 2 + 2 * n++, weight);
      });
  } else if (kind == kDenseRow) {
    for (unsigned g = 0; g < groups; ++g)
      each(g, [&](unsigned lane, std::uint16_t weight) { put(out + 2 * dense_word(lane, groups), weight); });
  } else {
    unsigned char* next = out + masks_bytes(groups);
    for (unsigned g = 0; g < groups; g += 2) {
      std::uint16_t words[32];
      std::uint32_t mask = 0;
      for (unsigned side = g; side < std::min(g + 2, groups); ++side)
        each(side, [&](unsigned lane, std::uint16_t weight) {
          mask |= 1u << word_in_block(lane);
          words[word_in_block(lane)] = weight;
        });
      put(out + 2 * g, mask);
      for (std::uint32_t bits = mask; bits; bits &= bits - 1, next += 2) put(next, words[std::countr_zero(bits)]);
    }
  }
}

// A feature of a chunk, where its weights are found, and how many there are.
struct Row {
  std::uint32_t hash;
  std::uint32_t local;
  std::uint32_t count;
};

// Packs rows in any order; write(row, kind, out) writes the weights of one.
template <class Write>
std::vector<unsigned char> pack_rows(const FeatureHash& hash, std::vector<Row> rows, std::span<const float> bias,
                                     Write write, ChunkShape& shape) {
  const unsigned lanes = static_cast<unsigned>(bias.size());
  const unsigned groups = (lanes + kLanes - 1) / kLanes;
  sort_by_hash(rows, hash.bits());

  const auto row_bytes = [&](const Row& row) {
    switch (kind_of(row.count, lanes)) {
      case kPairRow:
        return kPairBytes;
      case kMaskedRow:
        return masks_bytes(groups) + 2 * std::size_t{row.count};
      default:
        return dense_bytes(groups);
    }
  };
  std::size_t longest = 0;
  for (const Row& row : rows) longest = std::max(longest, row_bytes(row));
  std::uint32_t unit_shift = 1;
  while (Bucket::kSlots * (longest >> unit_shift) + Bucket::kSlots > kMaxSpot) ++unit_shift;

  std::vector<std::uint32_t> bucket_of(rows.size());
  std::uint32_t homes = 0, buckets = 0;
  place_rows(rows.size(), hash.bits(), [&](std::size_t r) { return rows[r].hash; }, bucket_of, homes, buckets);

  std::size_t payload_bytes = 0;
  const auto padded = [&](const Row& row) {
    return ((row_bytes(row) - 1) >> unit_shift << unit_shift) + (std::size_t{1} << unit_shift);
  };
  for (const Row& row : rows) payload_bytes += padded(row);
  if (payload_bytes >> kCodeKindShift)
    throw std::length_error("a node of the label tree has over 1 GB of weights; use a smaller leaf_size or branching");

  const std::size_t payload_at = 64 * (std::size_t{groups} + buckets);
  const std::size_t bytes = (payload_at + payload_bytes + kSpareBytes + 63) / 64 * 64;
  std::vector<unsigned char> block(bytes, 0);
  for (unsigned lane = 0; lane < lanes; ++lane) put(&block[4 * std::size_t{lane}], bias[lane]);

  std::size_t at = 0, r = 0;
  for (std::uint32_t b = 0; b < buckets; ++b) {
    Bucket bucket{};
    std::fill(std::begin(bucket.spots), std::end(bucket.spots), static_cast<std::uint16_t>(kNoRow));
    bucket.base = static_cast<std::uint32_t>(at);
    for (int slot = 0; r < rows.size() && bucket_of[r] == b; ++slot, ++r) {
      const Row& row = rows[r];
      const RowKind kind = kind_of(row.count, lanes);
      bucket.keys[slot] = static_cast<std::uint16_t>(row.hash);
      bucket.spots[slot] = static_cast<std::uint16_t>((at - bucket.base) >> unit_shift << 2 | kind);
      if (home_bucket(row.hash, homes, hash.bits()) < b)
        put_overflow(block, groups, home_bucket(row.hash, homes, hash.bits()), b);
      write(row, kind, &block[payload_at + at]);
      at += padded(row);
    }
    const std::uint32_t overflows = get<Bucket>(&block[64 * (std::size_t{groups} + b)]).overflows;
    bucket.overflows = overflows;
    put(&block[64 * (std::size_t{groups} + b)], bucket);
  }
  shape = {0, bytes, lanes, homes, buckets, unit_shift};
  return block;
}

}  // namespace

FeatureHash::FeatureHash(std::int64_t features)
    : bits_(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(features - 1, 1))))),
      mask_(bits_ == 32 ? 0xffffffffu : (1u << bits_) - 1) {}

std::uint16_t to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float from_bfloat16(std::uint16_t word) { return std::bit_cast<float>(static_cast<std::uint32_t>(word) << 16); }

std::vector<unsigned char> pack_chunk(const FeatureHash& hash, std::span<const std::int32_t> features,
                                      std::span<const PanelWeights> panels, std::span<const float> bias,
                                      ChunkShape& shape) {
  const unsigned groups = static_cast<unsigned>(panels.size());
  // Where each feature's weights start in each panel.
  std::vector<Row> rows;
  std::vector<std::uint32_t> starts(features.size() * groups);
  std::vector<std::uint32_t> next(groups, 0);
  for (std::uint32_t f = 0; f < features.size(); ++f) {
    std::uint32_t count = 0;
    for (unsigned g = 0; g < groups; ++g) {
      starts[std::size_t{f} * groups + g] = next[g];
      const auto here = static_cast<std::uint32_t>(std::popcount(panels[g].masks[f]));
      next[g] += here;
      count += here;
    }
    if (count) rows.push_back({hash(features[f]), f, count});
  }
  return pack_rows(
      hash, std::move(rows), bias,
      [&](const Row& row, RowKind kind, unsigned char* out) {
        const auto each = [&](unsigned g, auto use) {
          const std::uint16_t* weights = panels[g].weights.data() + starts[std::size_t{row.local} * groups + g];
          for (unsigned bits = panels[g].masks[row.local]; bits; bits &= bits - 1)
            use(16 * g + static_cast<unsigned>(std::countr_zero(bits)), *weights++);
        };
        write_row(kind, groups, each, out);
      },
      shape);
}

std::vector<unsigned char> pack_features(const FeatureHash& hash, const FeatureWeights& weights,
                                         std::span<const float> bias, ChunkShape& shape) {
  const unsigned groups = (static_cast<unsigned>(bias.size()) + kLanes - 1) / kLanes;
  std::vector<Row> rows;
  rows.reserve(weights.features.size());
  for (std::uint32_t f = 0; f < weights.features.size(); ++f)
    if (const std::uint32_t count = weights.begins[f + 1] - weights.begins[f])
      rows.push_back({hash(weights.features[f]), f, count});
  return pack_rows(
      hash, std::move(rows), bias,
      [&](const Row& row, RowKind kind, unsigned char* out) {
        std::size_t at = weights.begins[row.local];
        const std::size_t end = weights.begins[row.local + 1];
        const auto each = [&](unsigned g, auto use) {
          for (; at < end && weights.lanes[at] / kLanes == g; ++at) use(weights.lanes[at], weights.weights[at]);
        };
        write_row(kind, groups, each, out);
      },
      shape);
}

ChunkView view_chunk(const unsigned char* data, const ChunkShape& shape, const FeatureHash& hash) {
  const std::uint64_t groups = (std::uint64_t{shape.lanes} + 15) / 16;
  if (shape.lanes == 0 || shape.homes == 0 || shape.homes > shape.buckets || shape.unit_shift > 16)
    throw std::invalid_argument("chunk with an impossible shape");
  if (64 * (groups + shape.buckets) + kSpareBytes > shape.bytes)
    throw std::invalid_argument("chunk shorter than its parts");
  // A code has so many bits for the place of a row: one further on would be looked for where nobody checked.
  if (shape.bytes - kSpareBytes - 64 * (groups + shape.buckets) > std::uint64_t{1} << kCodeKindShift)
    throw std::invalid_argument("chunk with over 1 GB of weights");
  ChunkView view;
  view.bias = reinterpret_cast<const float*>(data);
  view.buckets = reinterpret_cast<const Bucket*>(data + 64 * groups);
  view.payload = data + 64 * (groups + shape.buckets);
  view.lanes = shape.lanes;
  view.groups = static_cast<std::uint32_t>(groups);
  view.homes = shape.homes;
  view.bucket_count = shape.buckets;
  view.hash_bits = hash.bits();
  view.unit_shift = static_cast<int>(shape.unit_shift);
  return view;
}

void validate_chunk(const ChunkView& chunk, const ChunkShape& shape) {
  const std::size_t room = shape.bytes - kSpareBytes - 64 * (std::size_t{chunk.groups} + shape.buckets);
  const auto require = [](bool fine, const char* what) {
    if (!fine) throw std::invalid_argument(what);
  };
  for (std::uint32_t lane = 0; lane < 16 * chunk.groups; ++lane)
    require(std::isfinite(chunk.bias[lane]), "chunk with a bias that is not finite");
  require(chunk.buckets[shape.buckets - 1].overflows == 0, "chunk whose last bucket overflows");
  const auto finite = [](const unsigned char* word) { return (get<std::uint16_t>(word) & 0x7f80) != 0x7f80; };
  for (std::uint32_t b = 0; b < shape.buckets; ++b) {
    const Bucket& bucket = chunk.buckets[b];
    require(bucket.overflows <= 1, "chunk with a broken bucket");
    for (const std::uint16_t spot : bucket.spots) {
      const std::uint32_t kind = spot & 3u;
      if (kind == kNoRow) continue;
      const std::size_t begin = bucket.base + (std::size_t{spot} >> 2 << chunk.unit_shift);
      require(begin < room, "chunk with a row past its end");
      const unsigned char* row = chunk.payload + begin;
      const std::size_t length = room - begin;
      std::size_t first_weight = 0, weights = 0;
      if (kind == kPairRow) {
        first_weight = weights = 2;
        require(length >= kPairBytes, "chunk with a row past its end");
        require(row[0] < shape.lanes && row[1] < shape.lanes, "chunk with a lane out of range");
      } else if (kind == kMaskedRow) {
        first_weight = masks_bytes(chunk.groups);
        require(first_weight <= length, "chunk with a row past its end");
        for (std::uint32_t block = 0; 32 * block < shape.lanes; ++block) {
          const std::uint32_t mask = get<std::uint32_t>(row + 4 * block);
          for (std::uint32_t bits = mask; bits; bits &= bits - 1)
            require(32 * block + lane_in_block(static_cast<unsigned>(std::countr_zero(bits))) < shape.lanes,
                    "chunk with a lane out of range");
          weights += static_cast<std::size_t>(std::popcount(mask));
        }
      } else {
        weights = 16 * std::size_t{chunk.groups};
      }
      require(first_weight + 2 * weights <= length, "chunk with a row past its end");
      for (std::size_t i = 0; i < weights; ++i)
        require(finite(row + first_weight + 2 * i), "chunk with a weight that is not finite");
    }
  }
}

namespace {

// Calls use(hash, code) for every row of a chunk.
template <class Use>
void each_row(const ChunkView& chunk, Use use) {
  const std::uint64_t universe = std::uint64_t{1} << chunk.hash_bits;
  // The first hash whose home is past bucket b is (b + 1) · universe / homes, rounded up; this counts it along.
  const std::uint64_t step = universe / chunk.homes, rest = universe % chunk.homes;
  std::uint64_t end = 0, remainder = 0;
  for (std::uint32_t b = 0; b < chunk.bucket_count; ++b) {
    const Bucket& bucket = chunk.buckets[b];
    end += step;
    remainder += rest;
    if (remainder >= chunk.homes) {
      remainder -= chunk.homes;
      ++end;
    }
    // A row's hash is the last one with its key whose home is not past this bucket.
    const std::uint64_t last = std::min(universe, end + (remainder > 0)) - 1;
    for (int slot = 0; slot < Bucket::kSlots; ++slot) {
      const std::uint32_t spot = bucket.spots[slot];
      if ((spot & 3u) == kNoRow) break;  // rows fill a bucket from its front
      const std::uint64_t hash = last - ((last - bucket.keys[slot]) & 0xffff);
      use(static_cast<std::uint32_t>(hash & (universe - 1)),
          (bucket.base + (spot >> 2 << chunk.unit_shift)) | (spot & 3u) << kCodeKindShift);
    }
  }
}

}  // namespace

std::vector<ChunkEntry> unpack_chunk(const ChunkView& chunk) {
  std::vector<ChunkEntry> entries;
  unpack_chunk(chunk, entries);
  return entries;
}

void unpack_chunk(const ChunkView& chunk, std::vector<ChunkEntry>& entries) {
  const std::uint32_t mask = static_cast<std::uint32_t>((std::uint64_t{1} << chunk.hash_bits) - 1);
  const std::uint32_t inverse = inverse_multiplier();
  entries.clear();
  each_row(chunk, [&](std::uint32_t hash, std::uint32_t code) {
    const auto feature = static_cast<std::int32_t>((hash * inverse) & mask);
    const unsigned char* row = chunk.payload + (code & ((1u << kCodeKindShift) - 1));
    const auto add = [&](std::uint32_t lane, const unsigned char* word) {
      const float weight = from_bfloat16(get<std::uint16_t>(word));
      if (weight != 0) entries.push_back({feature, lane, weight, code >> kCodeKindShift});
    };
    switch (code >> kCodeKindShift) {
      case kPairRow:
        add(row[0], row + 2);
        add(row[1], row + 4);
        break;
      case kMaskedRow: {
        const unsigned char* word = row + masks_bytes(chunk.groups);
        for (std::uint32_t block = 0; 32 * block < chunk.lanes; ++block)
          for (std::uint32_t bits = get<std::uint32_t>(row + 4 * block); bits; bits &= bits - 1, word += 2)
            add(32 * block + lane_in_block(static_cast<unsigned>(std::countr_zero(bits))), word);
        break;
      }
      default:
        for (std::uint32_t lane = 0; lane < chunk.lanes; ++lane) add(lane, row + 2 * dense_word(lane, chunk.groups));
    }
  });
}

void expected_codes(const ChunkView& chunk, const ExpectedFeatures& expected, std::span<std::uint32_t> codes) {
  const std::uint32_t mask = static_cast<std::uint32_t>((std::uint64_t{1} << chunk.hash_bits) - 1);
  const std::uint32_t inverse = inverse_multiplier();
  std::fill(codes.begin(), codes.end(), kNoCode);
  each_row(chunk, [&](std::uint32_t hash, std::uint32_t code) {
    const std::int64_t feature = std::int64_t{(hash * inverse) & mask};
    if (!expected.sees(feature))
      throw std::invalid_argument("feature " + std::to_string(feature) + " has weights, but is not expected");
    if (feature >= expected.first && feature < expected.last)
      codes[static_cast<std::size_t>(feature - expected.first)] = code;
  });
}

std::vector<unsigned char> pack_entries(const FeatureHash& hash, std::vector<ChunkEntry> entries,
                                        std::span<const float> bias, ChunkShape& shape) {
  std::sort(entries.begin(), entries.end(), [](const ChunkEntry& a, const ChunkEntry& b) {
    return a.feature != b.feature ? a.feature < b.feature : a.lane < b.lane;
  });
  FeatureWeights weights;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const ChunkEntry& entry = entries[i];
    const bool same = i > 0 && entries[i - 1].feature == entry.feature;
    if (same && entries[i - 1].lane == entry.lane)
      throw std::invalid_argument("feature " + std::to_string(entry.feature) + " has two weights for lane " +
                                  std::to_string(entry.lane));
    if (!same) weights.open(entry.feature);
    weights.add(entry.lane, to_bfloat16(entry.weight));
  }
  return pack_features(hash, weights, bias, shape);
}

}  // namespace hedgerow
