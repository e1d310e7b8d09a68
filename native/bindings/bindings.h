// What all binding files share: arrays to and from NumPy, and the bridge from Ctrl-C to the engine.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "arrays.h"
#include "parallel.h"

namespace nb = nanobind;

// Hands a vector's memory to NumPy without a copy.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> to_numpy(std::vector<T>&& values) {
  auto* kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner);
}

// Hands a row-major array's memory to NumPy without a copy.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<2>> matrix(std::unique_ptr<T[]> values, std::size_t rows, std::size_t columns) {
  T* data = values.release();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return nb::ndarray<nb::numpy, T, nb::ndim<2>>(data, {rows, columns}, owner);
}

// A Watch that lets Python see signals, and tells `progress` (a callable or None) the share of work done.
struct PythonWatch : hedgerow::Watch {
  explicit PythonWatch(nb::object progress = nb::none())
      : hedgerow::Watch([callback = std::move(progress)](double share) {
          nb::gil_scoped_acquire gil;
          if (PyErr_CheckSignals() != 0) throw nb::python_error();
          if (!callback.is_none()) callback(share);
        }) {}
};

void bind_engine(nb::module_& m);
void bind_judgement(nb::module_& m);
void bind_calibration(nb::module_& m);
void bind_data(nb::module_& m);
void bind_text(nb::module_& m);
