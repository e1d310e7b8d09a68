// Names of vocabulary entries, as tries over the stems of their words: one trie for each language that has names.
//
// All of it is plain arrays, so that they are used where they lie in a mapped file. The tries are one with a common
// root, as no two languages share a stem: node 0 is the root, and edge e leads to node e + 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "parallel.h"
#include "slot_table.h"
#include "stems.h"

namespace hedgerow {

// Longer names are left out. So a text costs a bounded time for each of its words.
inline constexpr std::size_t kMostNameWords = 64;

inline constexpr std::uint8_t kPreferredName = 1;
inline constexpr std::uint8_t kShortenedName = 2;  // something was left out of the name
inline constexpr std::uint8_t kCaseOnlyName = 4;   // found only where it is written in the same case
inline constexpr std::uint8_t kNameFlags = 7;

// Views of the arrays; whoever holds them keeps them alive.
struct NameTrie {
  std::span<const std::int8_t> languages;        // different numbers; kNoLanguage for words as they are
  std::span<const std::uint8_t> stem_bytes;      // UTF-8, one stem after the other
  std::span<const std::uint64_t> stem_starts;    // stems + 1
  std::span<const std::uint32_t> language_ends;  // of each language; its stems ascend
  std::span<const std::uint32_t> edges;          // nodes + 1: the edges of each node, whose stems ascend
  std::span<const std::uint32_t> edge_stems;
  std::span<const std::uint32_t> names;    // nodes + 1: the names that end at each node
  std::span<const std::int32_t> entries;   // of each name; they ascend within a node
  std::span<const std::uint8_t> flags;     // of each name
  std::span<const std::uint64_t> written;  // of each name, hash of its words as they are written
  std::span<const std::uint64_t> lowered;  // the same in lower case

  std::size_t nodes() const { return edges.size() - 1; }
  std::size_t stems() const { return stem_starts.size() - 1; }
  std::string_view stem(std::size_t id) const {
    return {reinterpret_cast<const char*>(stem_bytes.data()) + stem_starts[id],
            static_cast<std::size_t>(stem_starts[id + 1] - stem_starts[id])};
  }
  // The id of a stem of a language, which is given by its place among them; kUnknownTerm where no name has it.
  std::uint32_t find_stem(std::size_t language, std::string_view stem) const;
  // The node below another, 0 if there is none.
  std::uint32_t child(std::uint32_t node, std::uint32_t stem) const;

  // Throws std::invalid_argument unless every walk is safe and finds what building had put there: for arrays from a
  // file, before anything else is called.
  void validate() const;
};

struct NameTrieArrays {
  std::vector<std::int8_t> languages;
  std::vector<std::uint8_t> stem_bytes;
  std::vector<std::uint64_t> stem_starts{0};
  std::vector<std::uint32_t> language_ends;
  std::vector<std::uint32_t> edges, edge_stems, names;
  std::vector<std::int32_t> entries;
  std::vector<std::uint8_t> flags;
  std::vector<std::uint64_t> written, lowered;
};

// Names, in parallel columns.
struct Names {
  std::span<const std::string_view> texts;
  std::span<const std::int8_t> languages;  // kNoLanguage: looked for in all languages that others have
  std::span<const std::int32_t> entries;   // not negative
  std::span<const std::uint8_t> flags;     // kPreferredName, kShortenedName
};

// Left out are names without a word, of more than kMostNameWords, and those of function words only, except in capitals.
// `stems` must be of words that each have a language.
NameTrieArrays build_name_trie(const Names& names, const Stems& stems, Watch& watch);

// Whether there are letters that have cases, and all are capitals.
bool in_capitals(std::span<const std::string_view> words);

// Of the words of a name, or of a place in a text.
template <class Words>
std::uint64_t hash_words(const Words& words, std::size_t begin, std::size_t end) {
  std::uint64_t hash = 0;
  for (std::size_t i = begin; i < end; ++i) hash = mix_bits(hash * 0x9e3779b97f4a7c15ULL + token_hash(words[i]));
  return hash;
}

}  // namespace hedgerow
