#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "bindings.h"
#include "xmc_text.h"

namespace {

using hedgerow::XmcFault;
using hedgerow::XmcMatrices;
using hedgerow::XmcRows;
using hedgerow::XmcTextParser;

template <class T>
Numpy<T> to_array(hedgerow::GrowingArray<T>& values) {
  const std::size_t size = values.size();
  T* data = values.release();
  nb::capsule owner(data ? static_cast<void*>(data) : std::malloc(1), [](void* p) noexcept { std::free(p); });
  return Numpy<T>(data, {size}, owner);
}

using Fault = std::tuple<std::int64_t, std::string>;

std::optional<Fault> feed(XmcTextParser& parser, nb::bytes block, int threads) {
  const std::string_view text(block.c_str(), block.size());
  std::optional<XmcFault> fault;
  {
    PythonWatch watch;
    nb::gil_scoped_release release;
    fault = parser.feed(text, threads, watch);
  }
  if (!fault) return std::nullopt;
  return Fault{fault->line, fault->message};
}

using Matrices =
    std::tuple<Numpy<std::int64_t>, Numpy<std::int32_t>, Numpy<float>, Numpy<std::int64_t>, Numpy<std::int32_t>>;

Matrices finish(XmcTextParser& parser) {
  XmcMatrices m = parser.finish();
  return {to_numpy(std::move(m.feature_indptr)), to_array(m.features), to_array(m.values),
          to_numpy(std::move(m.label_indptr)), to_array(m.labels)};
}

void check_rows(const Vector<std::int64_t>& indptr, std::size_t entries, const char* what) {
  const std::int64_t *begin = indptr.data(), *end = begin + indptr.size();
  if (begin == end || !std::is_sorted(begin, end) || static_cast<std::size_t>(end[-1] - *begin) != entries)
    throw std::invalid_argument(std::string(what) + ": indptr does not ascend to the number of entries");
}

nb::bytes format_rows(Vector<std::int64_t> feature_indptr, Vector<std::int32_t> features, Vector<float> values,
                      Vector<std::int64_t> label_indptr, Vector<std::int32_t> labels, int threads) {
  check_rows(feature_indptr, features.size(), "X");
  check_rows(label_indptr, labels.size(), "Y");
  if (values.size() != features.size()) throw std::invalid_argument("X has not one value for each index");
  if (feature_indptr.size() != label_indptr.size())
    throw std::invalid_argument("X and Y differ in their number of rows");
  std::string text;
  {
    PythonWatch watch;
    nb::gil_scoped_release release;
    text = hedgerow::format_xmc_rows(static_cast<std::int64_t>(feature_indptr.size()) - 1,
                                     XmcRows{feature_indptr.data(), features.data(), values.data()},
                                     XmcRows{label_indptr.data(), labels.data(), nullptr}, threads, watch);
  }
  return nb::bytes(text.data(), text.size());
}

}  // namespace

void bind_data(nb::module_& m) {
  nb::class_<XmcTextParser>(m, "XmcTextParser", "Parses the rows of the XMC repository's text format block by block.")
      .def(
          "__init__",
          [](XmcTextParser* self, std::int64_t rows, std::int64_t features, std::int64_t labels) {
            constexpr std::int64_t limit = INT32_MAX;
            if (rows < 0 || features < 0 || labels < 0 || features > limit || labels > limit)
              throw std::invalid_argument("the shape must not be negative, nor have more than 2**31 - 1 columns");
            new (self) XmcTextParser({rows, features, labels});
          },
          nb::arg("rows"), nb::arg("features"), nb::arg("labels"))
      .def("feed", &feed, nb::arg("block"), nb::arg("threads") = 0,
           "Parse whole lines. Returns None, or (line, message) of the first fault; lines count from 0.")
      .def("finish", &finish,
           "Returns (feature_indptr, features, values, label_indptr, labels) and leaves the parser empty.")
      .def_prop_ro("rows", &XmcTextParser::rows)
      .def_prop_ro("lines", &XmcTextParser::lines);
  m.def("format_xmc_rows", &format_rows, nb::arg("feature_indptr"), nb::arg("features"), nb::arg("values"),
        nb::arg("label_indptr"), nb::arg("labels"), nb::arg("threads") = 0,
        "The lines of these rows in the XMC repository's text format, as bytes.");
}
