// Texts as arguments: views of Python's strings, read without the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parallel.h"

namespace nb = nanobind;

// Below this many bytes starting threads, or waiting for the GIL afterwards, costs more than the work.
inline constexpr std::size_t kSmall = std::size_t{1} << 15;

// The view is good for as long as the str lives.
inline std::string_view utf8(nb::handle text, const char* what) {
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
