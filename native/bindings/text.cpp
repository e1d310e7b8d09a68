#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <span>
#include <string_view>

#include "bindings.h"
#include "languages.h"
#include "reading.h"
#include "stems.h"
#include "texts.h"
#include "tfidf.h"
#include "tokens.h"
#include "unicode_tables.h"
#include "vocabulary.h"
#include "vocabulary_fit.h"

namespace {

using hedgerow::Analyzer;
using hedgerow::Stems;
using hedgerow::Vocabulary;

struct TextRow {
  Numpy<std::int32_t> indices;
  Numpy<float> values;
};

struct TextReading {
  Numpy<std::int64_t> indptr;
  Numpy<std::int32_t> indices;
  Numpy<float> values;
  Numpy<std::int64_t> words, unknown_words, unknown_pairs;
  Numpy<double> rarity;
};

struct VocabularyFound {
  Numpy<std::uint8_t> word_bytes;
  Numpy<std::uint64_t> word_starts, word_table, pairs, pair_table;
  Numpy<float> idf;
  bool unspaced, marked;
};

// The language of each text, where it was decided before, and not from the text alone.
using Decided = std::optional<Vector<std::int8_t>>;

std::span<const std::int8_t> decided_languages(const Decided& languages, std::size_t texts) {
  if (!languages) return {};
  const std::span<const std::int8_t> all(languages->data(), languages->size());
  if (all.size() != texts) throw nb::value_error("there must be a language for each text");
  const auto known = static_cast<int>(hedgerow::language_count());
  for (const int language : all)
    if (language < hedgerow::kNoLanguage || language >= known) throw nb::value_error("there is no such language");
  return all;
}

VocabularyFound fit_vocabulary(const nb::tuple& texts, const Analyzer& analyzer, Stems* stems, bool with_pairs,
                               std::uint64_t min_count, std::uint64_t max_terms, std::size_t pairs_at_once, int threads,
                               const Decided& languages) {
  const Texts read(texts);
  const auto decided = decided_languages(languages, read.views.size());
  PythonWatch watch;
  hedgerow::VocabularyArrays found = unlocked(read, [&] {
    return hedgerow::fit_vocabulary(read.views,
                                    {.analyzer = analyzer,
                                     .languages = decided,
                                     .with_pairs = with_pairs,
                                     .min_count = min_count,
                                     .max_terms = max_terms,
                                     .pairs_at_once = pairs_at_once},
                                    stems, read.threads(threads), watch);
  });
  return {to_numpy(std::move(found.word_bytes)),
          to_numpy(std::move(found.word_starts)),
          to_numpy(std::move(found.word_table)),
          to_numpy(std::move(found.pairs)),
          to_numpy(std::move(found.pair_table)),
          to_numpy(std::move(found.idf)),
          found.unspaced,
          found.marked};
}

void make_analyzer(Analyzer* self, bool characters, bool bigrams, std::size_t shortest, std::size_t longest,
                   bool marks) {
  if (shortest < 1 || longest < shortest) throw nb::value_error("n-grams have from 1 to more characters");
  new (self) Analyzer{characters, bigrams, marks, shortest, longest};
}

// `ask(language, words)` gives the stems of words, all of them UTF-8 as bytes.
void make_stems(Stems* self, int language, int usual, nb::callable ask) {
  const auto known = static_cast<int>(hedgerow::language_count());
  if (language < Stems::kEachText || language >= known || usual < hedgerow::kNoLanguage || usual >= known)
    throw nb::value_error("there is no such language");
  new (self) Stems(language, usual, [ask = std::move(ask)](int of, std::span<const std::string_view> words) {
    const nb::gil_scoped_acquire acquire;
    nb::list asked;
    for (const std::string_view word : words) asked.append(nb::bytes(word.data(), word.size()));
    const auto answer = nb::cast<nb::list>(ask(of, asked));
    std::vector<std::string> stems;
    stems.reserve(words.size());
    for (const nb::handle stem : answer) {
      const auto bytes = nb::cast<nb::bytes>(stem);
      stems.emplace_back(bytes.c_str(), bytes.size());
    }
    return stems;
  });
}

// The arrays of a vocabulary, checked and kept alive, not copied.
class Tfidf {
 public:
  Tfidf(Vector<std::uint8_t> word_bytes, Vector<std::uint64_t> word_starts, Vector<std::uint64_t> word_table,
        Vector<std::uint64_t> pairs, Vector<std::uint64_t> pair_table, Vector<float> idf, const Analyzer& analyzer,
        Stems* stems)
      : word_bytes_(std::move(word_bytes)),
        word_starts_(std::move(word_starts)),
        word_table_(std::move(word_table)),
        pairs_(std::move(pairs)),
        pair_table_(std::move(pair_table)),
        idf_(std::move(idf)),
        lexicon_{.vocabulary = {span(word_bytes_), span(word_starts_), span(word_table_), span(pairs_),
                                span(pair_table_), span(idf_)},
                 .analyzer = analyzer,
                 .stems = stems} {
    nb::gil_scoped_release release;
    vocabulary().validate();
  }

  TextReading read(const nb::tuple& texts, bool sublinear, double unknown_idf, bool rows, bool wording, int threads,
                   const Decided& languages) const {
    const Texts read(texts);
    const auto decided = decided_languages(languages, read.views.size());
    PythonWatch watch;
    hedgerow::Reading found = unlocked(read, [&] {
      return hedgerow::read_texts(lexicon_, read.views, {rows, sublinear, wording, unknown_idf, decided},
                                  read.threads(threads), watch);
    });
    return {to_numpy(std::move(found.rows.indptr)),           to_numpy(std::move(found.rows.indices)),
            to_numpy(std::move(found.rows.values)),           to_numpy(std::move(found.wording.words)),
            to_numpy(std::move(found.wording.unknown_words)), to_numpy(std::move(found.wording.unknown_pairs)),
            to_numpy(std::move(found.wording.rarity))};
  }

  TextRow row(nb::handle text, bool sublinear) const {
    const std::string_view read = utf8(text, "the text");
    hedgerow::TfidfScratch scratch;
    std::vector<std::int32_t> indices;
    std::vector<float> values;
    {
      std::optional<nb::gil_scoped_release> release;
      if (read.size() >= kSmall) release.emplace();
      cut(read, Stems::kEachText, scratch);
      hedgerow::append_tfidf(vocabulary(), sublinear, scratch, indices, values);
    }
    return {to_numpy(std::move(indices)), to_numpy(std::move(values))};
  }

  // The terms of a text that the vocabulary has, each with the words that it stands for, as often as they occur.
  std::vector<std::pair<std::uint32_t, std::string>> written(nb::handle text, int language) const {
    if (language < Stems::kEachText || language >= static_cast<int>(hedgerow::language_count()))
      throw nb::value_error("there is no such language");
    hedgerow::TfidfScratch scratch;
    const hedgerow::Tokens tokens = cut(utf8(text, "the text"), language, scratch).tokens;
    std::vector<std::pair<std::uint32_t, std::string>> found;
    for (std::size_t i = 0; i < scratch.words.size(); ++i) {
      const std::uint32_t word = scratch.words[i];
      if (word == hedgerow::kUnknownTerm) continue;
      found.emplace_back(word, tokens[i]);
      if (i == 0 || scratch.words[i - 1] == hedgerow::kUnknownTerm || vocabulary().pairs.empty()) continue;
      const std::uint64_t pair = hedgerow::word_pair(scratch.words[i - 1], word);
      const std::uint32_t term = vocabulary().find_pair(pair, hedgerow::pair_fingerprint(pair));
      if (term == hedgerow::kUnknownTerm) continue;
      found.emplace_back(term, std::string(tokens[i - 1]).append(" ").append(tokens[i]));
    }
    return found;
  }

  std::string term(std::size_t id) const { return vocabulary().term(id); }

  std::vector<std::string> terms() const {
    std::vector<std::string> names;
    names.reserve(vocabulary().terms());
    for (std::size_t id = 0; id < vocabulary().terms(); ++id) names.push_back(vocabulary().term(id));
    return names;
  }

 private:
  const Vocabulary& vocabulary() const { return lexicon_.vocabulary; }

  hedgerow::CutText cut(std::string_view text, int language, hedgerow::TfidfScratch& scratch) const {
    if (lexicon_.stems != nullptr) lexicon_.stems->make_room();
    hedgerow::CutText cut;
    hedgerow::WordList missing;
    hedgerow::cut_text(lexicon_, text, language, cut, missing);
    hedgerow::learn_stems(lexicon_, missing);
    hedgerow::find_terms(lexicon_, cut, scratch);
    return cut;
  }

  template <class T>
  static std::span<const T> span(const Vector<T>& array) {
    return {array.data(), array.size()};
  }

  Vector<std::uint8_t> word_bytes_;
  Vector<std::uint64_t> word_starts_, word_table_, pairs_, pair_table_;
  Vector<float> idf_;
  hedgerow::Lexicon lexicon_;
};

// Name and code of each language, in the order of their numbers.
std::vector<std::pair<std::string, std::string>> languages() {
  std::vector<std::pair<std::string, std::string>> all;
  for (std::size_t number = 0; number < hedgerow::language_count(); ++number) {
    const hedgerow::Language language = hedgerow::language(number);
    all.emplace_back(language.name, language.code);
  }
  return all;
}

int guess_language(nb::handle text) {
  hedgerow::Tokens tokens;
  hedgerow::tokenize(utf8(text, "the text"), Analyzer{}, tokens);
  return hedgerow::guess_language(tokens);
}

// A tuple of texts for each part of the records.
Numpy<std::int8_t> guess_languages(const std::vector<nb::tuple>& parts, const Analyzer& analyzer, int threads) {
  std::vector<std::vector<std::string_view>> texts;
  std::size_t bytes = 0;
  for (const nb::tuple& part : parts) {
    Texts read(part);
    bytes += read.bytes;
    texts.push_back(std::move(read.views));
    if (texts.back().size() != texts[0].size()) throw nb::value_error("records must have a text of every part");
  }
  PythonWatch watch;
  std::optional<nb::gil_scoped_release> release;
  if (bytes >= kSmall) release.emplace();
  std::vector<std::int8_t> found =
      hedgerow::guess_languages(texts, analyzer, bytes < kSmall ? 1 : hedgerow::resolve_threads(threads), watch);
  release.reset();
  return to_numpy(std::move(found));
}

std::vector<std::string> tokenize(nb::handle text, const Analyzer& analyzer) {
  hedgerow::Tokens tokens;
  hedgerow::tokenize(utf8(text, "the text"), analyzer, tokens);
  std::vector<std::string> words;
  words.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) words.emplace_back(tokens[i]);
  return words;
}

}  // namespace

void bind_text(nb::module_& m) {
  using namespace nb::literals;
  Results<TextRow>(m, "TextRow", "The weights of one text.")
      .field("indices", &TextRow::indices)
      .field("values", &TextRow::values);
  Results<TextReading>(m, "TextReading", "What texts say: a CSR matrix of weights, and their wording.")
      .field("indptr", &TextReading::indptr)
      .field("indices", &TextReading::indices)
      .field("values", &TextReading::values)
      .field("words", &TextReading::words)
      .field("unknown_words", &TextReading::unknown_words)
      .field("unknown_pairs", &TextReading::unknown_pairs)
      .field("rarity", &TextReading::rarity);
  Results<VocabularyFound>(m, "Vocabulary", "Arrays of a vocabulary, hash tables included.")
      .field("word_bytes", &VocabularyFound::word_bytes)
      .field("word_starts", &VocabularyFound::word_starts)
      .field("word_table", &VocabularyFound::word_table)
      .field("pairs", &VocabularyFound::pairs)
      .field("pair_table", &VocabularyFound::pair_table)
      .field("idf", &VocabularyFound::idf)
      .field("unspaced", &VocabularyFound::unspaced)
      .field("marked", &VocabularyFound::marked);
  nb::class_<Analyzer>(m, "Analyzer", "How texts are cut: into words, or n-grams of characters.")
      .def("__init__", &make_analyzer, "characters"_a = false, "bigrams"_a = false, "shortest"_a = 3, "longest"_a = 5,
           "marks"_a = false);
  nb::class_<Stems>(m, "Stems", "Asks for the stems of words, and remembers them; for one vocabulary.")
      .def("__init__", &make_stems, "language"_a, "usual"_a, "ask"_a,
           "language is the number of one, or EACH_TEXT; usual is that of texts that show none, or NO_LANGUAGE.")
      .def_prop_ro("usual", &Stems::usual);
  m.attr("EACH_TEXT") = Stems::kEachText;
  m.attr("NO_LANGUAGE") = hedgerow::kNoLanguage;
  m.def("languages", &languages, "Name and code of each language, in the order of their numbers.");
  m.def("guess_language", &guess_language, "text"_a, "The number of the language that function words speak for.");
  m.def("guess_languages", &guess_languages, "parts"_a, "analyzer"_a, "threads"_a,
        "The same of records, from a tuple of texts for each of their parts.");
  m.attr("unicode_version") = hedgerow::unicode::version;
  m.def("tokenize", &tokenize, "text"_a, "analyzer"_a);
  m.def("fit_vocabulary", &fit_vocabulary, "texts"_a, "analyzer"_a, "stems"_a.none(), "with_pairs"_a, "min_count"_a,
        "max_terms"_a, "pairs_at_once"_a, "threads"_a, "languages"_a = nb::none(),
        "The terms in at least min_count texts; languages are those of the texts, if they were decided before.");
  nb::class_<Tfidf>(m, "Tfidf", "Text to tf-idf rows by a vocabulary, whose arrays are checked here.")
      .def(nb::init<Vector<std::uint8_t>, Vector<std::uint64_t>, Vector<std::uint64_t>, Vector<std::uint64_t>,
                    Vector<std::uint64_t>, Vector<float>, const Analyzer&, Stems*>(),
           "word_bytes"_a, "word_starts"_a, "word_table"_a, "pairs"_a, "pair_table"_a, "idf"_a, "analyzer"_a,
           "stems"_a.none(), nb::keep_alive<1, 9>())
      .def("read", &Tfidf::read, "texts"_a, "sublinear"_a, "unknown_idf"_a, "rows"_a, "wording"_a, "threads"_a,
           "languages"_a = nb::none(),
           "Rows of a CSR matrix, and of each text: words, unknown_words, unknown_pairs, and rarity, the mean idf of "
           "its different words. What is not asked for is empty.")
      .def("row", &Tfidf::row, "text"_a, "sublinear"_a, "The row of one text.")
      .def("written", &Tfidf::written, "text"_a, "language"_a = Stems::kEachText,
           "Known terms of a text, each with the words that it stands for.")
      .def("term", &Tfidf::term, "id"_a)
      .def("terms", &Tfidf::terms);
}
