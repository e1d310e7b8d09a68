#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <span>
#include <string_view>

#include "bindings.h"
#include "reading.h"
#include "tfidf.h"
#include "tokens.h"
#include "unicode_tables.h"
#include "vocabulary.h"

namespace {

using hedgerow::Vocabulary;

// Below this many bytes starting threads, or waiting for the GIL afterwards, costs more than the work.
constexpr std::size_t kSmall = std::size_t{1} << 15;

// The view is good for as long as the str lives.
std::string_view utf8(nb::handle text, const char* what) {
  if (!PyUnicode_Check(text.ptr())) {
    const std::string type = nb::inst_name(text).c_str();
    throw nb::type_error((std::string(what) + " is of type " + type + ", not str").c_str());
  }
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (bytes == nullptr) {
    nb::python_error error;
    if (!error.matches(PyExc_UnicodeEncodeError)) throw error;
    const auto at = nb::cast<std::size_t>(error.value().attr("start"));
    nb::raise_from(error, PyExc_ValueError,
                   "%s holds a lone surrogate at character %zu, which is not text; read it with errors='replace'", what,
                   at);
  }
  return {bytes, static_cast<std::size_t>(size)};
}

struct Texts {
  std::vector<std::string_view> views;
  std::size_t bytes = 0;

  // A tuple, as nobody can take a text out of it while the GIL is released.
  explicit Texts(const nb::tuple& texts) {
    views.reserve(texts.size());
    for (std::size_t row = 0; row < texts.size(); ++row) {
      const nb::handle text(PyTuple_GetItem(texts.ptr(), static_cast<Py_ssize_t>(row)));
      Py_ssize_t size = 0;
      const char* ascii = PyUnicode_Check(text.ptr()) ? PyUnicode_AsUTF8AndSize(text.ptr(), &size) : nullptr;
      if (ascii != nullptr) {
        views.emplace_back(ascii, static_cast<std::size_t>(size));
      } else {
        PyErr_Clear();
        views.push_back(utf8(text, ("text " + std::to_string(row)).c_str()));
      }
      bytes += views.back().size();
    }
  }

  int threads(int asked) const { return bytes < kSmall ? 1 : hedgerow::resolve_threads(asked); }
};

// Runs the work without the GIL, unless it is too short to be worth it.
template <class Work>
auto unlocked(const Texts& texts, const Work& work) {
  std::optional<nb::gil_scoped_release> release;
  if (texts.bytes >= kSmall) release.emplace();
  return work();
}

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
};

VocabularyFound fit_vocabulary(const nb::tuple& texts, bool with_pairs, std::uint64_t min_count,
                               std::uint64_t max_terms, std::size_t pairs_at_once, int threads) {
  const Texts read(texts);
  PythonWatch watch;
  hedgerow::VocabularyArrays found = unlocked(read, [&] {
    return hedgerow::fit_vocabulary(
        read.views,
        {.with_pairs = with_pairs, .min_count = min_count, .max_terms = max_terms, .pairs_at_once = pairs_at_once},
        read.threads(threads), watch);
  });
  return {to_numpy(std::move(found.word_bytes)), to_numpy(std::move(found.word_starts)),
          to_numpy(std::move(found.word_table)), to_numpy(std::move(found.pairs)),
          to_numpy(std::move(found.pair_table)), to_numpy(std::move(found.idf))};
}

// The arrays of a vocabulary, checked and kept alive, not copied.
class Tfidf {
 public:
  Tfidf(Vector<std::uint8_t> word_bytes, Vector<std::uint64_t> word_starts, Vector<std::uint64_t> word_table,
        Vector<std::uint64_t> pairs, Vector<std::uint64_t> pair_table, Vector<float> idf)
      : word_bytes_(std::move(word_bytes)),
        word_starts_(std::move(word_starts)),
        word_table_(std::move(word_table)),
        pairs_(std::move(pairs)),
        pair_table_(std::move(pair_table)),
        idf_(std::move(idf)),
        vocabulary_{span(word_bytes_), span(word_starts_), span(word_table_),
                    span(pairs_),      span(pair_table_),  span(idf_)} {
    nb::gil_scoped_release release;
    vocabulary_.validate();
  }

  TextReading read(const nb::tuple& texts, bool sublinear, double unknown_idf, bool rows, bool wording,
                   int threads) const {
    const Texts read(texts);
    PythonWatch watch;
    hedgerow::Reading found = unlocked(read, [&] {
      return hedgerow::read_texts(vocabulary_, read.views, {rows, sublinear, wording, unknown_idf},
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
      hedgerow::find_terms(vocabulary_, read, scratch);
      hedgerow::append_tfidf(vocabulary_, sublinear, scratch, indices, values);
    }
    return {to_numpy(std::move(indices)), to_numpy(std::move(values))};
  }

  std::string term(std::size_t id) const { return vocabulary_.term(id); }

  std::vector<std::string> terms() const {
    std::vector<std::string> names;
    names.reserve(vocabulary_.terms());
    for (std::size_t id = 0; id < vocabulary_.terms(); ++id) names.push_back(vocabulary_.term(id));
    return names;
  }

 private:
  template <class T>
  static std::span<const T> span(const Vector<T>& array) {
    return {array.data(), array.size()};
  }

  Vector<std::uint8_t> word_bytes_;
  Vector<std::uint64_t> word_starts_, word_table_, pairs_, pair_table_;
  Vector<float> idf_;
  Vocabulary vocabulary_;
};

std::vector<std::string> tokenize(nb::handle text) {
  hedgerow::Tokens tokens;
  hedgerow::tokenize(utf8(text, "the text"), tokens);
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
      .field("idf", &VocabularyFound::idf);
  m.attr("unicode_version") = hedgerow::unicode::version;
  m.def("tokenize", &tokenize, "text"_a);
  m.def("fit_vocabulary", &fit_vocabulary, "texts"_a, "with_pairs"_a, "min_count"_a, "max_terms"_a, "pairs_at_once"_a,
        "threads"_a, "The terms in at least min_count texts.");
  nb::class_<Tfidf>(m, "Tfidf", "Text to tf-idf rows by a vocabulary, whose arrays are checked here.")
      .def(nb::init<Vector<std::uint8_t>, Vector<std::uint64_t>, Vector<std::uint64_t>, Vector<std::uint64_t>,
                    Vector<std::uint64_t>, Vector<float>>(),
           "word_bytes"_a, "word_starts"_a, "word_table"_a, "pairs"_a, "pair_table"_a, "idf"_a)
      .def("read", &Tfidf::read, "texts"_a, "sublinear"_a, "unknown_idf"_a, "rows"_a, "wording"_a, "threads"_a,
           "Rows of a CSR matrix, and of each text: words, unknown_words, unknown_pairs, and rarity, the mean idf of "
           "its different words. What is not asked for is empty.")
      .def("row", &Tfidf::row, "text"_a, "sublinear"_a, "The row of one text.")
      .def("term", &Tfidf::term, "id"_a)
      .def("terms", &Tfidf::terms);
}
