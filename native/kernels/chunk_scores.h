// From the features of an input to the scores of the lanes of a chunk.
//
// Compiled once for each SIMD level, as a part of kernels.cpp and of nothing else.
#pragma once

#include "kernels.h"
#include "kernels/vectors.h"

namespace hedgerow::KERNEL_LEVEL {

namespace {

inline std::uint64_t home_of(const ChunkView& chunk, std::uint32_t hash) {
  return (std::uint64_t{hash} * chunk.homes) >> chunk.hash_bits;
}

// The slots of a bucket with this key, two bits each.
inline unsigned matching_slots(const Bucket& bucket, std::uint16_t key) {
  constexpr unsigned kKeyBits = (1u << 2 * Bucket::kSlots) - 1;
#if defined(__AVX2__)
  const __m256i same =
      _mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i*)bucket.keys), _mm256_set1_epi16((short)key));
  return static_cast<unsigned>(_mm256_movemask_epi8(same)) & kKeyBits;
#elif defined(__SSE2__)
  const __m128i wanted = _mm_set1_epi16((short)key);
  const __m128i low = _mm_cmpeq_epi16(_mm_loadu_si128((const __m128i*)bucket.keys), wanted);
  const __m128i high = _mm_cmpeq_epi16(_mm_loadu_si128((const __m128i*)bucket.keys + 1), wanted);
  return (static_cast<unsigned>(_mm_movemask_epi8(low)) | static_cast<unsigned>(_mm_movemask_epi8(high)) << 16) &
         kKeyBits;
#else
  unsigned slots = 0;
  for (int slot = 0; slot < Bucket::kSlots; ++slot) slots |= (bucket.keys[slot] == key ? 3u : 0u) << 2 * slot;
  return slots;
#endif
}

// The last hash whose home is not past a bucket.
inline std::uint32_t last_hash(const ChunkView& chunk, std::uint64_t bucket) {
  const std::uint64_t universe = std::uint64_t{1} << chunk.hash_bits;
  const std::uint64_t first_past = (((bucket + 1) << chunk.hash_bits) + chunk.homes - 1) / chunk.homes;
  return static_cast<std::uint32_t>((first_past < universe ? first_past : universe) - 1);
}

// The same for a bucket that a search has moved on to. It may have come further than any row did, so there the key
// alone does not tell hashes apart: a row's hash is the last one with its key whose home is not past the bucket.
inline unsigned matching_slots_past_home(const ChunkView& chunk, const Bucket* bucket, std::uint32_t hash) {
  const unsigned slots = matching_slots(*bucket, static_cast<std::uint16_t>(hash));
  if (slots == 0) return 0;
  return last_hash(chunk, static_cast<std::uint64_t>(bucket - chunk.buckets)) - hash <= 0xffff ? slots : 0;
}

// For each feature of the input, the code of its row. No branch depends on the data but for the rare bucket that
// overflows: whether a feature is missing cannot be predicted. An unused slot is marked kNoRow. Buckets and rows are
// fetched ahead, since this way is for chunks that are visited once.
inline void find_rows(const ChunkView& chunk, const std::uint32_t* hashes, std::int64_t size, std::uint32_t* codes) {
  for (std::int64_t i = 0; i < size; ++i) __builtin_prefetch(chunk.buckets + home_of(chunk, hashes[i]));
  for (std::int64_t i = 0; i < size; ++i) {
    const Bucket* bucket = chunk.buckets + home_of(chunk, hashes[i]);
    const std::uint16_t key = static_cast<std::uint16_t>(hashes[i]);
    unsigned slots = matching_slots(*bucket, key);
    while (__builtin_expect(bucket->overflows & static_cast<std::uint32_t>(slots == 0), 0))
      slots = matching_slots_past_home(chunk, ++bucket, hashes[i]);
    // A missing feature reads past the last slot, into the base, and has its kind set by hand.
    const unsigned slot = static_cast<unsigned>(__builtin_ctz(slots | 1u << 2 * Bucket::kSlots)) >> 1;
    std::uint16_t spot;
    __builtin_memcpy(&spot, (const char*)bucket + sizeof(bucket->keys) + 2 * slot, 2);
    const std::uint32_t missing = static_cast<std::uint32_t>(slots == 0) * kNoRow;
    const std::uint32_t offset = bucket->base + (static_cast<std::uint32_t>(spot >> 2) << chunk.unit_shift);
    __builtin_prefetch(chunk.payload + offset);
    __builtin_prefetch(chunk.payload + offset + 64);
    codes[i] = (offset & ((1u << kCodeKindShift) - 1)) | ((spot & 3u) | missing) << kCodeKindShift;
  }
}

void fill_table(const ChunkView& chunk, const std::uint32_t* numbers, std::uint32_t* table) {
  const std::uint64_t universe = std::uint64_t{1} << chunk.hash_bits;
  // The first hash whose home is past bucket b is (b + 1) · universe / homes, rounded up; this counts it along.
  const std::uint64_t step = universe / chunk.homes, rest = universe % chunk.homes;
  const std::uint32_t hash_mask = static_cast<std::uint32_t>(universe - 1);
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
    const std::uint64_t first_past = end + (remainder > 0);
    const auto last = static_cast<std::uint32_t>((first_past < universe ? first_past : universe) - 1);
#if defined(__AVX512F__)
    const __m512i keys = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)bucket.keys));
    const __m512i spots = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)bucket.spots));
    const __m512i kinds = _mm512_and_si512(spots, _mm512_set1_epi32(3));
    const __mmask16 used = _mm512_mask_cmpneq_epi32_mask((1u << Bucket::kSlots) - 1, kinds, _mm512_set1_epi32(kNoRow));
    const __m512i lasts = _mm512_set1_epi32(static_cast<int>(last));
    const __m512i back = _mm512_and_si512(_mm512_sub_epi32(lasts, keys), _mm512_set1_epi32(0xffff));
    const __m512i hashes = _mm512_and_si512(_mm512_sub_epi32(lasts, back), _mm512_set1_epi32((int)hash_mask));
    const __m512i offsets =
        _mm512_add_epi32(_mm512_set1_epi32((int)bucket.base),
                         _mm512_sll_epi32(_mm512_srli_epi32(spots, 2), _mm_cvtsi32_si128(chunk.unit_shift)));
    // Slots without a row go where the features go that no input has. One by one: vector gathers and scatters are
    // slower on some machines, and let fewer buckets overlap.
    std::uint32_t codes[16], places[16];
    _mm512_storeu_si512(codes, _mm512_or_si512(offsets, _mm512_slli_epi32(kinds, kCodeKindShift)));
    _mm512_storeu_si512(places, _mm512_mask_mov_epi32(_mm512_set1_epi32((int)universe), used, hashes));

#pragma GCC unroll 14
    for (int slot = 0; slot < Bucket::kSlots; ++slot) table[numbers[places[slot]]] = codes[slot];
#else
    for (int slot = 0; slot < Bucket::kSlots; ++slot) {
      const std::uint32_t spot = bucket.spots[slot];
      if ((spot & 3u) == kNoRow) break;  // rows fill a bucket from its front
      const std::uint32_t hash = (last - ((last - bucket.keys[slot]) & 0xffff)) & hash_mask;
      table[numbers[hash]] = (bucket.base + (spot >> 2 << chunk.unit_shift)) | (spot & 3u) << kCodeKindShift;
    }
#endif
  }
}

inline void look_up_rows(const std::uint32_t* table, const std::uint32_t* hashes, std::int64_t size,
                         std::uint32_t* codes) {
  std::int64_t i = 0;
  for (; i + 8 <= size; i += 8) {
#pragma GCC unroll 8
    for (int next = 0; next < 8; ++next) codes[i + next] = table[hashes[i + next]];
  }
  for (; i < size; ++i) codes[i] = table[hashes[i]];
}

// Sorts the rows found by their kind, in order.
inline void sort_by_kind(const float* values, std::int64_t size, Hits& hits) {
  for (std::int64_t& count : hits.counts) count = 0;
  std::int64_t i = 0;
#if defined(__AVX512F__)
  const __m512i low_bits = _mm512_set1_epi32((1 << kCodeKindShift) - 1);
  for (; i + 16 <= size; i += 16) {
    const __m512i codes = _mm512_loadu_si512(hits.codes + i);
    const __m512i kinds = _mm512_srli_epi32(codes, kCodeKindShift);
    const __m512i offsets = _mm512_and_si512(codes, low_bits);
    const __m512 here = _mm512_loadu_ps(values + i);
    UNROLL for (int kind = 0; kind < int{kNoRow}; ++kind) {
      const __mmask16 mask = _mm512_cmpeq_epi32_mask(kinds, _mm512_set1_epi32(kind));
      // Compress in the register and store all of it: compressing into memory is slow on some machines.
      _mm512_storeu_si512(hits.offsets[kind] + hits.counts[kind], _mm512_maskz_compress_epi32(mask, offsets));
      _mm512_storeu_ps(hits.values[kind] + hits.counts[kind], _mm512_maskz_compress_ps(mask, here));
      hits.counts[kind] += __builtin_popcount(mask);
    }
  }
#endif
  for (; i < size; ++i) {
    const std::uint32_t kind = hits.codes[i] >> kCodeKindShift;
    UNROLL for (std::uint32_t k = 0; k < kNoRow; ++k) {
      hits.offsets[k][hits.counts[k]] = hits.codes[i] & ((1u << kCodeKindShift) - 1);
      hits.values[k][hits.counts[k]] = values[i];
      hits.counts[k] += k == kind;
    }
  }
}

inline F16 bf16_low(const U16& pairs) { return cast_bits<F16>(pairs << 16); }
inline F16 bf16_high(const U16& pairs) { return cast_bits<F16>(pairs & 0xffff0000u); }

// Sixteen bfloat16 in order.
inline F16 widen(const unsigned char* p) {
  typedef std::uint16_t Words __attribute__((vector_size(U16::kWidth * 2)));
  const U16 wide = combine<U16>([&](int i) {
    Words words;
    __builtin_memcpy(&words, p + i * sizeof(Words), sizeof(Words));
    return __builtin_convertvector(words, U16::Part);
  });
  return cast_bits<F16>(wide << 16);
}

#if defined(__AVX2__) && !defined(__AVX512VBMI2__)
// For each mask of eight words, the shuffle that spreads packed words to the places of the set bits.
struct SpreadTable {
  unsigned char source[256][16];
  constexpr SpreadTable() : source() {
    for (int mask = 0; mask < 256; ++mask)
      for (int word = 0, next = 0; word < 8; ++word) {
        const bool set = (mask >> word) & 1;
        source[mask][2 * word] = static_cast<unsigned char>(set ? 2 * next : 0x80);
        source[mask][2 * word + 1] = static_cast<unsigned char>(set ? 2 * next + 1 : 0x80);
        next += set;
      }
  }
};
constexpr SpreadTable kSpread;
#endif

// The next packed words, spread to the places of the set bits among 32 words; zero elsewhere.
inline U16 spread(const unsigned char* p, std::uint32_t mask) {
#if defined(__AVX512VBMI2__)
  return {{(U16::Part)_mm512_maskz_expand_epi16(mask, _mm512_loadu_si512(p))}};
#elif defined(__AVX2__)
  __m128i words[4];
  UNROLL for (int i = 0; i < 4; ++i) {
    const unsigned part = (mask >> 8 * i) & 255u;
    words[i] =
        _mm_shuffle_epi8(_mm_loadu_si128((const __m128i*)p), _mm_loadu_si128((const __m128i*)kSpread.source[part]));
    p += 2 * __builtin_popcount(part);
  }
  const __m256i low = _mm256_set_m128i(words[1], words[0]), high = _mm256_set_m128i(words[3], words[2]);
#if defined(__AVX512F__)
  return {{(U16::Part)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)}};
#else
  return {{(U16::Part)low, (U16::Part)high}};
#endif
#else
  std::uint16_t words[32] = {};
  for (; mask; mask &= mask - 1, p += 2) __builtin_memcpy(words + __builtin_ctz(mask), p, 2);
  return load<U16>(words);
#endif
}

// Adds the dense and masked rows into register accumulators for G groups (the last may be idle when it is odd).
template <int G>
void add_vector_rows(const unsigned char* payload, int groups, const Hits& hits, float* sums) {
  static_assert(G % 2 == 0);
  F16 acc[G];
  for (int g = 0; g < G; ++g) acc[g] = load<F16>(sums + 16 * g);
  const int paired = groups == G ? G : G - 2;  // a last odd group stands alone in dense rows
  for (std::int64_t i = 0; i < hits.counts[kDenseRow]; ++i) {
    const unsigned char* p = payload + hits.offsets[kDenseRow][i];
    const float x = hits.values[kDenseRow][i];
#pragma GCC unroll 8
    for (int g = 0; g < G - 2; g += 2) {
      const U16 pairs = load<U16>(p + 32 * g);
      acc[g] += bf16_low(pairs) * x;
      acc[g + 1] += bf16_high(pairs) * x;
    }
    if (paired == G) {
      const U16 pairs = load<U16>(p + 32 * (G - 2));
      acc[G - 2] += bf16_low(pairs) * x;
      acc[G - 1] += bf16_high(pairs) * x;
    } else {
      acc[G - 2] += widen(p + 32 * (G - 2)) * x;
    }
  }
  for (std::int64_t i = 0; i < hits.counts[kMaskedRow]; ++i) {
    const unsigned char* masks = payload + hits.offsets[kMaskedRow][i];
    const unsigned char* p = masks + 2 * G;
    const float x = hits.values[kMaskedRow][i];
#pragma GCC unroll 8
    for (int g = 0; g < G; g += 2) {
      std::uint32_t mask;
      __builtin_memcpy(&mask, masks + 2 * g, 4);
      const U16 pairs = spread(p, mask);
      acc[g] += bf16_low(pairs) * x;
      acc[g + 1] += bf16_high(pairs) * x;
      p += 2 * __builtin_popcount(mask);
    }
  }
  for (int g = 0; g < G; ++g) store(sums + 16 * g, acc[g]);
}

// The same for any number of groups, with the sums in memory.
void add_vector_rows_wide(const unsigned char* payload, int groups, const Hits& hits, float* sums) {
  const auto add = [&](int g, const U16& pairs, float value) {
    store(sums + 16 * g, load<F16>(sums + 16 * g) + bf16_low(pairs) * value);
    store(sums + 16 * g + 16, load<F16>(sums + 16 * g + 16) + bf16_high(pairs) * value);
  };
  for (std::int64_t i = 0; i < hits.counts[kDenseRow]; ++i) {
    const unsigned char* p = payload + hits.offsets[kDenseRow][i];
    const float x = hits.values[kDenseRow][i];
    int g = 0;
    for (; g + 1 < groups; g += 2) add(g, load<U16>(p + 32 * g), x);
    if (g < groups) store(sums + 16 * g, load<F16>(sums + 16 * g) + widen(p + 32 * g) * x);
  }
  for (std::int64_t i = 0; i < hits.counts[kMaskedRow]; ++i) {
    const unsigned char* masks = payload + hits.offsets[kMaskedRow][i];
    const unsigned char* p = masks + 4 * ((groups + 1) / 2);
    for (int g = 0; g < groups; g += 2) {
      std::uint32_t mask;
      __builtin_memcpy(&mask, masks + 2 * g, 4);
      if (mask == 0) continue;
      add(g, spread(p, mask), hits.values[kMaskedRow][i]);
      p += 2 * __builtin_popcount(mask);
    }
  }
}

inline float bf16_at(const unsigned char* p) {
  std::uint16_t word;
  __builtin_memcpy(&word, p, 2);
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(word) << 16);
}

void add_pair_rows(const unsigned char* payload, const Hits& hits, float* sums) {
  for (std::int64_t i = 0; i < hits.counts[kPairRow]; ++i) {
    const unsigned char* row = payload + hits.offsets[kPairRow][i];
    const float x = hits.values[kPairRow][i];
    sums[row[0]] += bf16_at(row + 2) * x;
    sums[row[1]] += bf16_at(row + 4) * x;
  }
}

void find_hits(const ChunkView& chunk, const std::uint32_t* hashes, const float* values, std::int64_t size,
               std::int64_t expected, Hits& hits) {
  const std::int64_t others = size - expected;
  for (std::int64_t i = 0; i < expected; ++i) {
    const unsigned char* row = chunk.payload + (chunk.expected[i] & ((1u << kCodeKindShift) - 1));
    __builtin_prefetch(row);
    __builtin_prefetch(row + 64);
    hits.codes[others + i] = chunk.expected[i];
  }
  find_rows(chunk, hashes, others, hits.codes);
  sort_by_kind(values, size, hits);
}

void look_up_hits(const ChunkView& chunk, const std::uint32_t* table, const std::uint32_t* numbers, const float* values,
                  std::int64_t size, Hits& hits) {
  look_up_rows(table, numbers, size, hits.codes);
  sort_by_kind(values, size, hits);
  for (std::uint32_t kind = 0; kind < kNoRow; ++kind)
    for (std::int64_t i = 0; i < hits.counts[kind]; ++i) __builtin_prefetch(chunk.payload + hits.offsets[kind][i]);
}

// Adds the rows of `hits`, the input's values times their weights, to the sums.
void add_rows(const ChunkView& chunk, const Hits& hits, float* sums) {
  const int groups = static_cast<int>(chunk.groups);
  add_pair_rows(chunk.payload, hits, sums);
  const auto add = groups <= 2   ? add_vector_rows<2>
                   : groups <= 4 ? add_vector_rows<4>
                   : groups <= 6 ? add_vector_rows<6>
                   : groups <= 8 ? add_vector_rows<8>
                                 : add_vector_rows_wide;
  if (hits.counts[kMaskedRow] + hits.counts[kDenseRow] > 0) add(chunk.payload, groups, hits, sums);
}

void add_listed(const std::uint32_t* entries, float value, std::uint32_t size, float* sums) {
#pragma GCC unroll 4
  for (std::uint32_t i = 0; i < size; ++i)
    sums[entries[i] >> 16] += __builtin_bit_cast(float, entries[i] << 16) * value;
}

void add_whole(const std::uint32_t* words, float value, std::uint32_t size, float* sums) {
  for (std::uint32_t i = 0; i < size; i += 16) {
    const U16 pairs = load<U16>(words + i);
    store(sums + 2 * i, load<F16>(sums + 2 * i) + bf16_low(pairs) * value);
    store(sums + 2 * i + 16, load<F16>(sums + 2 * i + 16) + bf16_high(pairs) * value);
  }
}

void score_chunk(const ChunkView& chunk, const Hits& hits, float* logits) {
  const int groups = static_cast<int>(chunk.groups);
  for (int g = 0; g < groups; ++g) store(logits + 16 * g, load<F16>(chunk.bias + 16 * g));
  if (groups % 2 == 1) store(logits + 16 * groups, all<16>(0.0f));
  add_rows(chunk, hits, logits);
}

// Which entry of the masks each row draws.
inline void draw_entries(const std::uint32_t* offsets, std::int64_t size, std::uint32_t seed, std::uint32_t* entries) {
  std::int64_t i = 0;
  for (; i + 16 <= size; i += 16) {
    U16 draw = load<U16>(offsets + i);
    draw = combine<U16>([&](int part) { return (draw.parts[part] ^ seed) * 0x9e3779b1u; });
    draw = combine<U16>([&](int part) { return (draw.parts[part] ^ (draw.parts[part] >> 15)) * 0x85ebca77u; });
    store(entries + i, draw >> (32 - Thinning::kEntryBits));
  }
  for (; i < size; ++i) {
    std::uint32_t draw = (offsets[i] ^ seed) * 0x9e3779b1u;
    draw = (draw ^ (draw >> 15)) * 0x85ebca77u;
    entries[i] = draw >> (32 - Thinning::kEntryBits);
  }
}

// For each row, the passes that drop it: the bit mask that it drew.
inline void draw_masks(const Thinning& thinning, int word, const Hits& hits, std::uint32_t* masks) {
  const auto words = static_cast<std::uint32_t>(thinning.words);
  for (std::uint32_t kind = 0; kind < kNoRow; masks += hits.counts[kind++]) {
    draw_entries(hits.offsets[kind], hits.counts[kind], thinning.seed, masks);
    for (std::int64_t i = 0; i < hits.counts[kind]; ++i)
      masks[i] = thinning.masks[masks[i] * words + static_cast<std::uint32_t>(word)];
  }
}

// For each of some passes, the rows whose mask has its bit, in order, with values times `factor`.
inline void pick_dropped(const Hits& hits, const std::uint32_t* masks, int passes, float factor, Hits* dropped) {
  for (std::uint32_t kind = 0; kind < kNoRow; masks += hits.counts[kind++]) {
    const std::uint32_t* offsets = hits.offsets[kind];
    const float* values = hits.values[kind];
    const std::int64_t size = hits.counts[kind];
    for (int pass = 0; pass < passes; ++pass) dropped[pass].counts[kind] = 0;
#if defined(__AVX512F__)
    for (std::int64_t i = 0; i < size; i += 16) {
      const auto rows = static_cast<__mmask16>(size - i < 16 ? (1u << (size - i)) - 1 : 0xffffu);
      const __m512i places = _mm512_maskz_loadu_epi32(rows, offsets + i);
      const __m512 products = _mm512_mul_ps(_mm512_maskz_loadu_ps(rows, values + i), _mm512_set1_ps(factor));
      __m512i bits = _mm512_maskz_loadu_epi32(rows, masks + i);
      for (int pass = 0; pass < passes; ++pass, bits = _mm512_srli_epi32(bits, 1)) {
        const __mmask16 mask = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(1));
        std::int64_t& count = dropped[pass].counts[kind];
        _mm512_storeu_si512(dropped[pass].offsets[kind] + count, _mm512_maskz_compress_epi32(mask, places));
        _mm512_storeu_ps(dropped[pass].values[kind] + count, _mm512_maskz_compress_ps(mask, products));
        count += __builtin_popcount(mask);
      }
    }
#else
    for (std::int64_t i = 0; i < size; ++i)
      for (std::uint32_t bits = masks[i]; bits; bits &= bits - 1) {
        Hits& own = dropped[__builtin_ctz(bits)];
        own.offsets[kind][own.counts[kind]] = offsets[i];
        own.values[kind][own.counts[kind]++] = values[i] * factor;
      }
#endif
  }
}

// A pass is the whole less what it drops, so the work grows with the rows that are dropped and not with the passes.
void score_thinned(const ChunkView& chunk, const Hits& hits, const Thinning& thinning, std::size_t stride,
                   Hits* dropped, float* whole, float* logits) {
  const int groups = static_cast<int>(chunk.groups), padded = (groups + 1) / 2 * 2;
  for (int g = 0; g < padded; ++g) store(whole + 16 * g, all<16>(0.0f));
  add_rows(chunk, hits, whole);
  for (int g = 0; g < groups; ++g)
    store(whole + 16 * g, load<F16>(chunk.bias + 16 * g) + load<F16>(whole + 16 * g) * thinning.scale);
  for (int pass = 0; pass < thinning.passes; ++pass, logits += stride) {
    const int place = pass % Thinning::kPassesAtOnce, left = thinning.passes - pass;
    if (place == 0) {
      draw_masks(thinning, pass / Thinning::kPassesAtOnce, hits, hits.codes);
      pick_dropped(hits, hits.codes, left < Thinning::kPassesAtOnce ? left : Thinning::kPassesAtOnce, -thinning.scale,
                   dropped);
    }
    for (int g = 0; g < padded; ++g) store(logits + 16 * g, load<F16>(whole + 16 * g));
    add_rows(chunk, dropped[place], logits);
  }
}

}  // namespace

}  // namespace hedgerow::KERNEL_LEVEL
