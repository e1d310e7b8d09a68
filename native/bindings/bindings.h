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

template <class T, int N = 1>
using Numpy = nb::ndarray<nb::numpy, T, nb::ndim<N>>;

// Hands a vector's memory to NumPy without a copy, as an array of this shape (its length, if none is given).
template <class T, class... Shape>
auto to_numpy(std::vector<T>&& values, Shape... shape) {
  auto* kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  if constexpr (sizeof...(shape) == 0)
    return Numpy<T>(kept->data(), {kept->size()}, owner);
  else
    return Numpy<T, sizeof...(shape)>(kept->data(), {static_cast<std::size_t>(shape)...}, owner);
}

// Hands an array's memory to NumPy without a copy; a matrix is row-major.
template <class T>
Numpy<T> vector(std::unique_ptr<T[]> values, std::size_t size) {
  T* data = values.release();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return Numpy<T>(data, {size}, owner);
}
template <class T>
Numpy<T, 2> matrix(std::unique_ptr<T[]> values, std::size_t rows, std::size_t columns) {
  T* data = values.release();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return Numpy<T, 2>(data, {rows, columns}, owner);
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

// Ctrl-C surfaces as the Python exception that the watch met; the echo in other workers is not passed on.
template <class Work>
auto without_gil(Work work) {
  nb::gil_scoped_release release;
  return work();
}

// Binds a struct of results, which Python reads field by field.
template <class Struct>
class Results {
 public:
  Results(nb::module_& m, const char* name, const char* meaning) : bound_(m, name, meaning) {}
  template <class Field, class... Extra>
  Results& field(const char* name, Field Struct::*member, const Extra&... extra) {
    // An array is handed out as it is: it has an owner.
    bound_.def_prop_ro(name, [member](const Struct& self) { return self.*member; }, nb::rv_policy::automatic, extra...);
    return *this;
  }

 private:
  nb::class_<Struct> bound_;
};

void bind_rows(nb::module_& m);
void bind_label_tree(nb::module_& m);
void bind_training(nb::module_& m);
void bind_tree_model(nb::module_& m);
void bind_forest(nb::module_& m);
void bind_measures(nb::module_& m);
void bind_calibration(nb::module_& m);
void bind_judge(nb::module_& m);
void bind_data(nb::module_& m);
void bind_text(nb::module_& m);
void bind_names(nb::module_& m);
