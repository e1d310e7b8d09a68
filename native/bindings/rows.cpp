// Rows of sparse numbers, for Python.
#include "rows.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <string>
#include <tuple>

#include "row_hash.h"

using namespace hedgerow;
using namespace nb::literals;

namespace {

Numpy<std::uint64_t> hashes_of(const Rows& rows, int threads) {
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(rows.view().rows));
  {
    nb::gil_scoped_release release;
    hash_rows(rows.view(), resolve_threads(threads), hashes.data());
  }
  return to_numpy(std::move(hashes));
}

// The arrays as they lie in memory, for whoever sends them elsewhere.
template <class T>
Numpy<const T> seen(const T* data, std::size_t size, nb::handle owner) {
  return Numpy<const T>(data, {size}, owner);
}

using RowArrays =
    std::tuple<Numpy<const std::int64_t>, Numpy<const std::int32_t>, std::optional<Numpy<const float>>, std::int64_t>;

RowArrays arrays_of(nb::handle self) {
  const Rows& rows = nb::cast<const Rows&>(self);
  const SparseRows& view = rows.view();
  std::optional<Numpy<const float>> values;
  if (rows.has_values()) values = seen(view.values, rows.entries(), self);
  return {seen(view.indptr, static_cast<std::size_t>(view.rows) + 1, self), seen(view.indices, rows.entries(), self),
          values, view.columns};
}

using FaultTuple = std::tuple<std::string, std::int64_t, std::int64_t, double>;

std::optional<FaultTuple> fault_of(const Rows& rows, int threads) {
  SparseFault fault;
  {
    nb::gil_scoped_release release;
    fault = rows.fault(threads);
  }
  static const char* names[] = {"none", "indptr", "range", "order", "duplicate", "finite"};
  if (fault.kind == SparseFault::none) return std::nullopt;
  return FaultTuple{names[fault.kind], fault.row, fault.column, fault.value};
}

}  // namespace

void bind_rows(nb::module_& m) {
  nb::class_<Rows>(m, "Rows", "A CSR matrix: int64 indptr, int32 indices, float32 values (None: all ones).")
      .def(nb::init<Vector<std::int64_t>, Vector<std::int32_t>, std::optional<Vector<float>>, std::int64_t>(),
           "indptr"_a, "indices"_a, "values"_a.none(), "columns"_a)
      .def("fault", &fault_of, "threads"_a = 0,
           "The first fault as (kind, row, column, value), or None when the matrix is sound.")
      .def("arrays", &arrays_of, "The arrays, not copied, and the number of columns.")
      .def("hashes", &hashes_of, "threads"_a = 0, "A hash of every row, by which it is known again.");
}
