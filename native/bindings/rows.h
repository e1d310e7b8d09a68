// Rows of sparse numbers, for all binding files that take them.
#pragma once

#include <nanobind/stl/optional.h>

#include <optional>
#include <utility>

#include "bindings.h"
#include "sparse.h"

// A CSR matrix of Python's, kept alive. The engine trusts it only after fault() found none.
class Rows {
 public:
  Rows(Vector<std::int64_t> indptr, Vector<std::int32_t> indices, std::optional<Vector<float>> values,
       std::int64_t columns)
      : indptr_(std::move(indptr)), indices_(std::move(indices)), values_(std::move(values)) {
    if (indptr_.size() == 0) throw nb::value_error("indptr is empty");
    if (values_ && values_->size() != indices_.size()) throw nb::value_error("values and indices differ in length");
    view_.rows = static_cast<std::int64_t>(indptr_.size()) - 1;
    view_.columns = columns;
    view_.indptr = indptr_.data();
    view_.indices = indices_.data();
    view_.values = values_ ? values_->data() : nullptr;
  }
  const hedgerow::SparseRows& view() const { return view_; }
  bool has_values() const { return values_.has_value(); }
  std::size_t entries() const { return indices_.size(); }
  hedgerow::SparseFault fault(int threads) const {
    return hedgerow::find_fault(view_, static_cast<std::int64_t>(indices_.size()), hedgerow::resolve_threads(threads));
  }

 private:
  Vector<std::int64_t> indptr_;
  Vector<std::int32_t> indices_;
  std::optional<Vector<float>> values_;
  hedgerow::SparseRows view_;
};
