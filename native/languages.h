// Which language a text is in, by its function words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "parallel.h"
#include "tokens.h"

namespace hedgerow {

struct Language {
  std::string_view name, code;  // as Snowball and ISO 639 call it
};

inline constexpr int kNoLanguage = -1;

// Languages have the numbers [0, count).
std::size_t language_count();
Language language(std::size_t number);

// The languages that have a word, in lower case, as a function word: bit i is language i.
std::uint64_t function_word_languages(std::string_view word, std::uint32_t fingerprint);

// The language that most of the words speak for; a word of several languages speaks for each of them the less.
// kNoLanguage if no word is a function word. Of equals, the first.
int guess_language(const Tokens& tokens);

// The same of records: each has one text of every part, and they speak together.
std::vector<std::int8_t> guess_languages(std::span<const std::vector<std::string_view>> parts, const Analyzer& analyzer,
                                         int threads, Watch& watch);

}  // namespace hedgerow
