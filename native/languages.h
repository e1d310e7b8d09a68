// Which language a text is in, by its function words.
#pragma once

#include <cstddef>
#include <string_view>

#include "tokens.h"

namespace hedgerow {

struct Language {
  std::string_view name, code;  // as Snowball and ISO 639 call it
};

inline constexpr int kNoLanguage = -1;

// Languages have the numbers [0, count).
std::size_t language_count();
Language language(std::size_t number);

// The language that most of the words speak for; a word of several languages speaks for each of them the less.
// kNoLanguage if no word is a function word. Of equals, the first.
int guess_language(const Tokens& tokens);

}  // namespace hedgerow
