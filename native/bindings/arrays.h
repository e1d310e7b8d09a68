// NumPy arrays as arguments: read-only and C-contiguous, never converted. nanobind's own arrays and lists end the
// process where it lacks the few bytes to hold one; these raise MemoryError when they are used.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

namespace nb = nanobind;

template <class T, int N>
class Array {
 public:
  // Whether this is such an array. If memory is lacking, nobody knows: then it is, and cannot be used.
  bool read(nb::handle source) noexcept {
    memory_ = nb::steal(PyMemoryView_FromObject(source.ptr()));
    if (!memory_.is_valid()) {
      const bool starved = PyErr_ExceptionMatches(PyExc_MemoryError);
      PyErr_Clear();
      return starved;
    }
    const Py_buffer& view = *PyMemoryView_GET_BUFFER(memory_.ptr());
    const bool aligned = reinterpret_cast<std::uintptr_t>(view.buf) % alignof(T) == 0;
    if (view.ndim != N || !holds_numbers(view) || !aligned || !PyBuffer_IsContiguous(&view, 'C')) return false;
    data_ = static_cast<const T*>(view.buf);
    for (int axis = 0; axis < N; ++axis) shape_[axis] = static_cast<std::size_t>(view.shape[axis]);
    return true;
  }
  const T* data() const { return check(), data_; }
  std::size_t shape(int axis) const { return check(), shape_[static_cast<std::size_t>(axis)]; }
  std::size_t size() const {
    std::size_t product = 1;
    for (const std::size_t length : shape_) product *= length;
    return check(), product;
  }
  // What keeps the memory.
  nb::object owner() const { return check(), memory_; }

 private:
  static bool holds_numbers(const Py_buffer& view) {
    constexpr const char* kKinds = std::is_floating_point_v<T> ? "fd" : std::is_signed_v<T> ? "bhilq" : "BHILQ";
    const char* format = view.format;
    if (format == nullptr) return false;
    if (*format == '<' || *format == '=' || *format == '@') ++format;
    return view.itemsize == sizeof(T) && *format != 0 && format[1] == 0 && std::strchr(kKinds, *format) != nullptr;
  }
  void check() const {
    if (!memory_.is_valid()) throw std::bad_alloc();
  }

  nb::object memory_;  // a memoryview: the array cannot be resized meanwhile
  const T* data_ = nullptr;
  std::array<std::size_t, N> shape_{};
};

template <class T>
using Vector = Array<T, 1>;
// Of each candidate, of each member.
using Probabilities = Array<float, 2>;

// Rows that rise from 0 to the number of entries; what the entries are was checked before.
inline void check_rows(const Vector<std::int64_t>& indptr, std::size_t rows, std::size_t entries) {
  if (indptr.size() != rows + 1 || indptr.data()[0] != 0 || indptr.data()[rows] != static_cast<std::int64_t>(entries))
    throw nb::value_error("indptr does not fit the entries");
  for (std::size_t row = 0; row < rows; ++row)
    if (indptr.data()[row] > indptr.data()[row + 1]) throw nb::value_error("indptr must not fall");
}

// Numbers of labels, of which there are so many.
inline void check_labels(const Vector<std::int32_t>& labels, std::size_t count) {
  const std::int32_t* const numbers = labels.data();
  const std::size_t size = labels.size();
  // One pass without a branch: a negative number is a large one.
  std::uint32_t highest = 0;
  for (std::size_t i = 0; i < size; ++i) highest = std::max(highest, static_cast<std::uint32_t>(numbers[i]));
  if (size > 0 && highest >= count) throw nb::value_error("a candidate is not a label");
}

// A list or tuple of vectors.
template <class T>
class Vectors {
 public:
  bool read(nb::handle source) noexcept {
    starved_ = false;
    vectors_.clear();
    if (!PyList_Check(source.ptr()) && !PyTuple_Check(source.ptr())) return false;
    try {
      vectors_.resize(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(source.ptr())));
    } catch (const std::bad_alloc&) {
      return starved_ = true;
    }
    for (std::size_t i = 0; i < vectors_.size(); ++i)
      if (!vectors_[i].read(PySequence_Fast_GET_ITEM(source.ptr(), static_cast<Py_ssize_t>(i)))) return false;
    return true;
  }
  std::span<const Vector<T>> get() const {
    if (starved_) throw std::bad_alloc();
    return vectors_;
  }

 private:
  std::vector<Vector<T>> vectors_;
  bool starved_ = false;
};

namespace nanobind::detail {

template <class T>
constexpr auto name_of_numbers() {
  if constexpr (std::is_same_v<T, float>) return const_name("numpy.float32");
  if constexpr (std::is_same_v<T, double>) return const_name("numpy.float64");
  if constexpr (std::is_same_v<T, std::int8_t>) return const_name("numpy.int8");
  if constexpr (std::is_same_v<T, std::uint8_t>) return const_name("numpy.uint8");
  if constexpr (std::is_same_v<T, std::uint32_t>) return const_name("numpy.uint32");
  if constexpr (std::is_same_v<T, std::int32_t>) return const_name("numpy.int32");
  if constexpr (std::is_same_v<T, std::int64_t>) return const_name("numpy.int64");
  if constexpr (std::is_same_v<T, std::uint64_t>) return const_name("numpy.uint64");
}

template <class T, int N>
struct type_caster<Array<T, N>> {
  using Read = Array<T, N>;
  NB_TYPE_CASTER(Read, const_name("numpy.typing.NDArray[") + name_of_numbers<T>() + const_name("]"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept { return value.read(source); }
};

template <class T>
struct type_caster<Vectors<T>> {
  NB_TYPE_CASTER(Vectors<T>, const_name("collections.abc.Sequence[") + make_caster<Vector<T>>::Name + const_name("]"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept { return value.read(source); }
};

}  // namespace nanobind::detail
