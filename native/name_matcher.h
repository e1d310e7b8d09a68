// Finds the names of vocabulary entries in texts.
//
// A name is found where words of the same stems stand one after the other. Every name is found everywhere, also within
// and across others; an occurrence is *outer* if no longer one holds it. Words that are all function words in the
// language of the text, which is that of most of its function words, are a name only if both are in capitals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <shared_mutex>
#include <span>
#include <string_view>
#include <vector>

#include "name_trie.h"
#include "parallel.h"
#include "stems.h"
#include "tokens.h"
#include "word_list.h"

namespace hedgerow {

// What is known of the words of a text, one after the other.
struct ReadWords {
  std::vector<std::uint32_t> stems;      // for each word, its id in each language of a trie
  std::vector<std::uint64_t> functions;  // for each word, a bit for each of these languages where it is a function word
};

// Words that were met in texts: one look-up tells all that there is to know. Several threads may use it at a time.
class MetWords {
 public:
  static constexpr std::uint32_t kNotMet = kUnknownTerm - 1;

  explicit MetWords(const NameTrie& trie, const Stems& stems) : trie_(trie), stems_(stems) {}

  // True if all were met. The first stem of one that was not is kNotMet.
  bool find(const Tokens& tokens, ReadWords& words) const;
  // Asks for the stems of words, and remembers them.
  void learn(const WordList& words);
  // Forgets all, if it is more than a bound.
  void make_room();

 private:
  std::uint64_t functions_of(std::string_view word, std::uint32_t fingerprint) const;

  const NameTrie& trie_;
  const Stems& stems_;
  mutable std::shared_mutex mutex_;
  WordList met_;
  ReadWords read_;
};

// Entries that were found in a text. Occurrences are different places: where two names of an entry stand at the very
// same place, they count once.
struct NameMatch {
  std::int32_t entry, count, outer;
  std::int32_t same_case;  // those written as a name is
  std::int32_t exact;      // the same in lower case
  std::int32_t words;      // of the longest name found
  std::int32_t ambiguity;  // fewest entries with the name found
  float first;             // where the first begins, as a share of the text's words
  bool preferred;          // whether a preferred name was found
  bool shortened;          // whether all names found are shortened
};

struct NameMatches {
  std::vector<std::int64_t> indptr;  // texts + 1
  std::vector<NameMatch> found;      // entries ascend in each text
  std::vector<std::int64_t> tokens;  // words of each text
};

class NameMatcher {
 public:
  // Arrays that were validated, and what stems words that each have a language; both must live as long.
  NameMatcher(const NameTrie& trie, const Stems& stems);

  // The same bits at any number of threads.
  NameMatches match(std::span<const std::string_view> texts, int threads, Watch& watch);

 private:
  struct Scratch;

  void read(std::string_view text, std::size_t place, Scratch& scratch) const;
  void complete(std::size_t place, Scratch& scratch);
  std::size_t text_language(const ReadWords& words) const;
  void walk(std::size_t place, Scratch& scratch, Watch& watch) const;
  void note(std::size_t place, std::size_t begin, Scratch& scratch) const;
  void gather(std::size_t words, Scratch& scratch, std::vector<NameMatch>& found) const;

  NameTrie trie_;
  const Stems& stems_;
  MetWords met_;
  std::vector<std::uint32_t> first_nodes_;  // of each stem: the node of names that begin with it, 0 if there is none
  std::vector<std::int32_t> ambiguity_;     // of each node: different entries
};

}  // namespace hedgerow
