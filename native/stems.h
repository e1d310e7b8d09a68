// Words as stems: what the words of a text are called in a vocabulary of stems.
//
// Who stems is not known here. Every different word is asked for once; words that were met are remembered, up to a
// bound, so that texts are read as fast as without stems.
#pragma once

#include <cstdint>
#include <functional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "languages.h"
#include "tokens.h"
#include "vocabulary.h"
#include "word_list.h"

namespace hedgerow {

class Stems {
 public:
  static constexpr int kEachText = -2;  // by the function words of each text
  // Stems of words of a language, in their order. Several threads may ask at a time.
  using Ask = std::function<std::vector<std::string>(int language, std::span<const std::string_view> words)>;

  // `usual` is the language of texts that show none; kNoLanguage leaves their words as they are.
  Stems(int language, int usual, Ask ask) : language_(language), usual_(usual), ask_(std::move(ask)) {}

  int usual() const { return usual_; }
  void set_usual(int language) { usual_ = language; }
  bool guesses() const { return language_ == kEachText; }

  // kNoLanguage where a text shows none. `decided` is what was decided before from more than the text, if anything.
  int seen_language(const Tokens& tokens, int decided) const {
    if (!guesses()) return language_;
    return decided == kEachText ? guess_language(tokens) : decided;
  }
  int language_of(const Tokens& tokens, int decided) const {
    const int seen = seen_language(tokens, decided);
    return seen == kNoLanguage ? usual_ : seen;
  }

  // The tag of words of a language; with one language for all, there is one.
  std::uint8_t tag(int language) const { return guesses() ? static_cast<std::uint8_t>(language + 1) : 0; }

  // The stem of each word, which the tag gives a language. One whose stem would be empty stays as it is.
  std::vector<std::string> stems(const WordList& words) const;

  // --- what was met ---

  static constexpr std::uint64_t kNotMet = ~std::uint64_t{0};
  // Sets `ids` to those of the tokens' stems in the vocabulary, to something above kUnknownTerm that is the same for
  // equal stems where the vocabulary lacks them, and to kNotMet where the word is new.
  void find(const Tokens& tokens, int language, std::vector<std::uint64_t>& ids) const;
  // Looks again for those that were new, and no others.
  void find_new(const Tokens& tokens, int language, std::vector<std::uint64_t>& ids) const;

  // Remembers words, of which these are the stems.
  void remember(const WordList& words, std::span<const std::string> stems, const Vocabulary& vocabulary);
  // Forgets all, if it is more than the bound.
  void make_room();

 private:
  int language_of_tag(std::uint8_t tag) const;

  int language_, usual_;
  Ask ask_;
  mutable std::shared_mutex mutex_;
  WordList met_;
  std::vector<std::uint64_t> ids_;
};

}  // namespace hedgerow
